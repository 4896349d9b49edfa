"""What the services of the sliced engine have in common: they are stages.

Answers: how a service is held and looked at. Nothing runs by itself: the engine steps them::

    inbound queue -> SliceDispatchService -> slice logs, seconds in memory     dispatch.py
    slice logs -> SlicePreloadService -> seconds in memory                     preload.py
    seconds in memory -> SliceFireService -> the messages' own topics          fire.py

Must not know: what any of them does. Read on: `engine.py` for their order.
"""

from __future__ import annotations

from typing import ClassVar

from embedded_broker.timer.sliced.state import SliceState

__all__ = ["SliceFlushService", "SliceStage"]


class SliceStage:
    """One service: can be held, and says how much waits for it and for how long."""

    name: ClassVar[str] = ""

    def __init__(self, state: SliceState) -> None:
        self.state = state
        self.paused = False

    def pause(self) -> None:
        """Let this service do nothing until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """Let this service work again."""
        self.paused = False

    @property
    def queue_depth(self) -> int:
        """How many items wait for this service."""
        return 0

    def lag_ms(self, now_ms: int) -> int:  # noqa: ARG002 - most services cannot lag
        """For how long the oldest of them has been waiting."""
        return 0

    @property
    def counters(self) -> dict[str, int]:
        """What this service has done since the store was opened, by name."""
        return {}


class SliceFlushService(SliceStage):
    """Marks the flush in the table of stages; the work is `flush.SliceFlush`."""

    name = "SliceFlushService"

    def __init__(self, state: SliceState) -> None:
        super().__init__(state)
        self.begun = 0
        self.slices_removed = 0

    @property
    def queue_depth(self) -> int:
        """Slices whose files are to be removed."""
        return len(self.state.passed)

    @property
    def counters(self) -> dict[str, int]:
        """How many flushes were begun, and slices given up to be removed."""
        return {"begun": self.begun, "slices_removed": self.slices_removed}
