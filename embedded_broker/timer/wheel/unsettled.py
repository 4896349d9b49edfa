"""Marks whose victims still count.

Answers: which recalls were stored so recently that the counts of their victims are not corrected
yet. That is done when somebody asks for a count and not while the mark arrives: the key index,
which finds the victims, is behind then. Must not know: who counts. Read on: `timer/recall.py` for
how victims are found, `timer/metrics.py` for the counts.
"""

from __future__ import annotations

from embedded_broker.timer.recall import find_copies
from embedded_broker.timer.request import TimerRequest
from embedded_broker.timer.wheel.state import TimerState

__all__ = ["UnsettledMarks"]


class UnsettledMarks:
    """The marks since the last `settle`, oldest first."""

    def __init__(self, state: TimerState) -> None:
        self._state = state
        self._marks: list[tuple[int, TimerRequest, int | None]] = []

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, offset: int, request: TimerRequest, victim: int | None) -> None:
        """Take note of a mark that was stored at `offset` of the commit log."""
        self._marks.append((offset, request, victim))

    def settle(self, now_ms: int) -> None:
        """Take the victims out of the counts; what is due must have been loaded before.

        Raises StoreError when the disk refuses; marks that were not settled stay here.
        """
        while self._marks:
            offset, request, victim = self._marks[0]
            topic, _, unique_key = (request.deletes or "").partition("+")
            copies = find_copies(self._state, unique_key, topic)
            del self._marks[0]
            for copy in copies:
                if (
                    copy.waits
                    and copy.request.out_ms == request.out_ms
                    and copy.root < offset
                    and copy.is_meant(victim)
                    and (copy.marked_by is None or copy.marked_by >= offset)
                ):
                    self._state.metrics.add(topic, -1, now_ms)
