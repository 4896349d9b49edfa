"""What waits while a broker is paused: requests that came, and answers that would leave.

Answers: how a broker accepts connections and says nothing, as a stopped process does, and goes on
afterwards as if it had only been slow. Must not know: what a request means. Own peers of the test
(``broker.send``) pass. Read on: ``embedded_broker/door.py`` for what leaves the broker,
``embedded_broker/core/broker_core.py`` (``Endpoint.receive``) for what enters it.
"""

import logging
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Final, Protocol

from rocketmq_py.protocol.frame import Frame

__all__ = ["HELD_BYTES_MAX", "Pause"]

logger = logging.getLogger(__name__)

HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of requests that wait at most; a peer that sends more is disconnected."""


class Peer(Protocol):
    """As much of a connection as is needed here."""

    closed: bool

    def close(self) -> None:
        """End it."""
        ...


class Pause:
    """Requests that wait, in the order in which they came. ``on`` while the broker is paused."""

    def __init__(self) -> None:
        self.on = False
        self._lock = Lock()
        self._waiting: deque[tuple[Peer, Callable[[], None]]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, peer: Peer, frames: list[Frame], handle: Callable[[], None]) -> bool:
        """Let frames wait until ``handle`` is called for them; False when the pause is over."""
        size = sum(len(frame.header) + len(frame.body) for frame in frames)
        with self._lock:
            if not self.on:
                return False
            if self._bytes + size <= HELD_BYTES_MAX:
                self._bytes += size
                self._waiting.append((peer, handle))
                return True
        logger.warning("closing %r: over %d bytes wait for a paused broker", peer, HELD_BYTES_MAX)
        peer.close()
        return True

    def begin(self) -> None:
        """Let what comes from now on wait."""
        with self._lock:
            self.on = True

    def end(self) -> None:
        """Handle what waits, then let requests pass again. Outside the door."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._bytes = 0
                    self.on = False
                    return
                peer, handle = self._waiting.popleft()
            if not peer.closed:
                handle()
