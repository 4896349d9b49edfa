"""What the seven services of the timer store have in common: they are stages.

Answers: how a stage is held and looked at. The services have the names of the original's threads
(`org.apache.rocketmq.store.timer.TimerMessageStore`), but nothing runs by itself: the engine steps
them::

    timer topic -> EnqueueGet -> EnqueuePut -> wheel + timer log          enqueue.py
    wheel + timer log -> DequeueGet -> DequeueGetMessage -> front         dequeue.py
    front -> DequeuePutMessage -> the messages' own topics                release.py

Must not know: what any of them does. Read on: `engine.py` for their order and why it never loses
or doubles a message.
"""

from __future__ import annotations

from typing import ClassVar

from embedded_broker.timer.state import TimerState

__all__ = ["Stage", "TimerDequeueWarmService", "TimerFlushService"]


class Stage:
    """One service: can be held, and says how much waits for it and for how long."""

    name: ClassVar[str] = ""

    def __init__(self, state: TimerState) -> None:
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


class TimerDequeueWarmService(Stage):
    """Nothing, as in the original, whose warm-up call is commented out."""

    name = "TimerDequeueWarmService"


class TimerFlushService(Stage):
    """Marks the flush in the table of stages; the work is `flush.TimerFlush`."""

    name = "TimerFlushService"

    def __init__(self, state: TimerState) -> None:
        super().__init__(state)
        self.begun = 0

    @property
    def counters(self) -> dict[str, int]:
        """How many flushes were begun."""
        return {"begun": self.begun}
