"""What one flush of the timer store does, outside the broker's door.

Answers: in which order the timer's files become durable. Everything was captured under the door
before; between that and `run` the store's own flush has synced the commit log and the queues, so
that no pointer here accounts for a message that a power loss could still take. First the timer
log, then the wheel that points into it, then timercheck, and last timermeta (the order of
`TimerMessageStore.TimerFlushService`, with our file behind). Must not know: when to flush.

Read on: `engine.py` (`begin_flush`), `recovery.py` for what relies on the order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from embedded_broker.store.mapped_file import SyncPlan
from embedded_broker.timer.checkpoint import (
    TimerCheckpoint,
    TimerCheckpointFile,
    TimerMeta,
    TimerMetaFile,
)
from embedded_broker.timer.metrics import TimerMetrics
from embedded_broker.timer.wheel import WheelFlush

__all__ = ["TimerFlush"]


@frozen(kw_only=True)
class TimerFlush:
    """A flush that was begun; `run` it once, with no lock held, after the store's own.

    `checkpoint`, `meta` and `metrics` are None when they are stored already as they are.
    """

    log_plan: SyncPlan | None
    wheel: WheelFlush
    checkpoint: TimerCheckpoint | None
    checkpoint_file: TimerCheckpointFile
    meta: TimerMeta | None
    meta_file: TimerMetaFile
    metrics: dict[str, Any] | None
    metrics_file: TimerMetrics
    failed: Callable[[], None]

    def run(self) -> None:
        """Write and sync everything; raises `StoreError`, and the next flush tries it again."""
        try:
            if self.log_plan is not None:
                self.log_plan.run()
            self.wheel.run()
            if self.checkpoint is not None:
                self.checkpoint_file.write(self.checkpoint)
            if self.metrics is not None:
                # Before timermeta, which may say that these counts are exact.
                self.metrics_file.save(self.metrics)
            if self.meta is not None:
                self.meta_file.write(self.meta)
        except BaseException:
            self.failed()
            raise
