"""How long a broker's door is held, in CPU time of the thread that holds it."""

from __future__ import annotations

from threading import Lock
from time import thread_time_ns
from typing import cast

from embedded_broker.door import Door


class DoorWatch:
    """Stands in for the lock of a door; `longest_ms` is the longest hold since `forget`."""

    def __init__(self, door: Door) -> None:
        self._lock = door._lock
        self._since_ns = 0
        self.longest_ms = 0.0
        door._lock = cast("Lock", self)

    def acquire(self, blocking: bool = True) -> bool:
        """Enter."""
        entered = self._lock.acquire(blocking)
        if entered:
            self._since_ns = thread_time_ns()
        return entered

    def release(self) -> None:
        """Leave."""
        held_ms = (thread_time_ns() - self._since_ns) / 1_000_000
        self.longest_ms = max(self.longest_ms, held_ms)
        self._lock.release()

    def forget(self) -> None:
        """Begin anew."""
        self.longest_ms = 0.0
