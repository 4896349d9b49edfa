"""The services of the sliced engine, and the one that does nothing itself.

Answers: who hands what to whom. Nothing runs by itself: the engine steps them::

    inbound queue -> SliceDispatchService -> slice logs, seconds in memory     dispatch.py
    slice logs -> SlicePreloadService -> seconds in memory                     preload.py
    seconds in memory -> SliceFireService -> the messages' own topics          fire.py

Must not know: what any of them does. Read on: `engine.py` for their order.
"""

from __future__ import annotations

from embedded_broker.timer.slices.state import SliceState
from embedded_broker.timer.stage import FlushStage

__all__ = ["SliceFlushService"]


class SliceFlushService(FlushStage[SliceState]):
    """Marks the flush in the table of stages; the work is `flush.SliceFlush`."""

    name = "SliceFlushService"

    def __init__(self, state: SliceState) -> None:
        super().__init__(state)
        self.slices_removed = 0

    @property
    def queue_depth(self) -> int:
        """Slices whose files are to be removed."""
        return len(self.state.passed)

    @property
    def counters(self) -> dict[str, int]:
        """How many flushes were begun, and slices given up to be removed."""
        return {"begun": self.begun, "slices_removed": self.slices_removed}
