"""The wait before a put that failed is tried again.

Answers: whether an engine waits, and until when. Waits run on the session clock where there is
one, so that a message clock that stands still cannot block a retry. Must not know: what failed.

Read on: `put_verdict.py` for how long, `engine.py` and `timer/slices/engine.py` for who waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from embedded_broker.clocks.timeline import Deadline

__all__ = ["DISK_RETRY_MS", "RetryWait"]

DISK_RETRY_MS: Final = 500
"""The wait when the store itself takes no message."""


class RetryWait:
    """One wait at a time; while it is on, nothing is released."""

    __slots__ = ("_for_session", "_number", "at_ms", "session_timer")

    def __init__(self) -> None:
        self.session_timer: Callable[[int, Callable[[], None]], object] | None = None
        """`(delay_ms, call)`: how to wait; None: by the message clock, which may stand still."""
        self.at_ms: int | None = None
        """When a wait of the message clock ends."""
        self._for_session = False
        self._number = 0

    @property
    def is_on(self) -> bool:
        """Whether to leave everything as it is."""
        return self._for_session or self.at_ms is not None

    @property
    def deadline(self) -> Deadline | None:
        """When the message clock has to ask again; None while the session clock runs the wait."""
        if self._for_session or self.at_ms is None:
            return None
        return Deadline(self.at_ms, "retry of a timer's release")

    def begin(self, now_ms: int, wait_ms: int) -> None:
        """Wait; a wait that is on already goes on as it is."""
        if self.is_on:
            return
        wait_ms = max(1, wait_ms)
        if self.session_timer is None:
            self.at_ms = now_ms + wait_ms
            return
        self._for_session = True
        number = self._number
        self.session_timer(wait_ms, lambda: self._end_of(number))

    def look(self, now_ms: int) -> None:
        """End a wait of the message clock that is over."""
        if self.at_ms is not None and now_ms >= self.at_ms:
            self.at_ms = None

    def end(self) -> None:
        """End the wait now: an answer came."""
        self._number += 1
        self._for_session = False
        self.at_ms = None

    def _end_of(self, number: int) -> None:
        if number == self._number:
            self.end()
