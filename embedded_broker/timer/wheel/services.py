"""The seven services of the timer store, and those two of them that do nothing themselves.

Answers: who hands what to whom. The services have the names of the original's threads
(`org.apache.rocketmq.store.timer.TimerMessageStore`), but nothing runs by itself: the engine steps
them::

    timer topic -> EnqueueGet -> EnqueuePut -> wheel + timer log          enqueue.py
    wheel + timer log -> DequeueGet -> DequeueGetMessage -> due heap      dequeue.py
    due heap -> DequeuePutMessage -> the messages' own topics             release.py

Must not know: what any of them does. Read on: `engine.py` for their order and why it never loses
or doubles a message.
"""

from __future__ import annotations

from embedded_broker.timer.stage import FlushStage, Stage
from embedded_broker.timer.wheel.state import TimerState

__all__ = ["TimerDequeueWarmService", "TimerFlushService"]


class TimerDequeueWarmService(Stage[TimerState]):
    """Nothing, as in the original, whose warm-up call is commented out."""

    name = "TimerDequeueWarmService"


class TimerFlushService(FlushStage[TimerState]):
    """Marks the flush in the table of stages; the work is `flush.TimerFlush`."""

    name = "TimerFlushService"
