"""The way from a client to its brokers, which a test blocks or cuts: then they are away for it.

A broker that other tests share cannot be stopped. For a client whose ``address_mapper`` this is, it
can: a cut way refuses connections as the port of a killed process does, and on a blocked one
nothing is answered, as by a stopped process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Self

from tests.relay import Relay

SILENCE_S: Final = 600.0
"""Longer than any test runs."""


class Way:
    """Carries what goes to each broker, until it is told otherwise. May be asked by any thread."""

    def __init__(self) -> None:
        self._relays: dict[str, Relay] = {}
        self._lock = threading.Lock()

    def __call__(self, address: str) -> str:
        """Give the address at which a client reaches a broker."""
        with self._lock:
            if address not in self._relays:
                self._relays[address] = Relay(address)
            return self._relays[address].address

    def block(self) -> None:
        """Let nothing through any more, and say nothing of it."""
        for relay in self._relays.values():
            relay.delay_s = SILENCE_S

    def cut(self) -> None:
        """End the connections and refuse new ones; idempotent."""
        for relay in self._relays.values():
            relay.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.cut()


Harm = Callable[[Way], None]
