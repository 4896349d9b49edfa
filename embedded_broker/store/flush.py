"""One flush of the store to its disk, outside the broker's lock.

First the commit log, then the consume queues, then the index, and last the checkpoint that says
so: a reader after a power loss then never trusts what was not written. Must not know: when to
flush. Read on: ``message_store.py`` (``begin_flush``).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import frozen

from embedded_broker.store.checkpoint import StoreCheckpoint
from embedded_broker.store.key_index import KeyIndex
from embedded_broker.store.mapped_file import SyncPlan


class FlushWork(Protocol):
    """Bytes to sync, captured under the door."""

    def run(self) -> None:
        """Sync them. Outside the door; raises ``StoreError`` when the disk refuses."""

    @property
    def failed(self) -> Callable[[], None]:
        """To be called when ``run`` never will be: what was captured is to be synced again."""


@frozen
class StoreFlush:
    """A flush of the store that was begun; ``run`` it once, with no lock held."""

    log_plan: SyncPlan | None
    queue_plans: Sequence[SyncPlan]
    index: KeyIndex | None
    index_to: int
    checkpoint: StoreCheckpoint
    store_timestamp: int
    failed: Callable[[], None]

    def run(self) -> None:
        """Sync everything; raises ``StoreError``, and the next flush tries it again."""
        try:
            self.sync_messages()
            self.sync_index()
        except BaseException:
            self.failed()
            raise

    def sync_messages(self) -> None:
        """Make messages and queue entries durable, and note it in the checkpoint."""
        if self.log_plan is None and not self.queue_plans:
            return
        if self.log_plan is not None:
            self.log_plan.run()
            self.checkpoint.flushed_offset = self.log_plan.upto
        for plan in self.queue_plans:
            plan.run()
        self.checkpoint.queues_mark = -1  # until a clean stop
        self.checkpoint.physic_msg_timestamp = self.store_timestamp
        self.checkpoint.logics_msg_timestamp = self.store_timestamp
        self.checkpoint.save()

    def sync_index(self) -> None:
        """Index what was stored and make that durable too; for stores on a disk."""
        if self.index is None:
            return
        self.index.catch_up(self.index_to)
        if not self.index.is_dirty:
            return
        self.index.sync()
        full = self.index.full_timestamp
        if full > self.checkpoint.index_msg_timestamp:
            self.checkpoint.index_msg_timestamp = full
            self.checkpoint.save()
