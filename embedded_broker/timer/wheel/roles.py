"""Who releases: a broker that may, or one that only follows its master.

Answers: whether due timers leave this store, and how far its wheel may be filled. Must not know:
who the master is, or how a broker comes to be one: replication is not built, a role is set by a
call. After `TimerMessageStore.setShouldRunningDequeue`, `isRunningEnqueue` and
`isRunningDequeue` of the original: a store that must not release fills its own wheel up to where
its master has come (`masterTimerQueueOffset`), and takes over from there.

Read on: `engine.py` (`set_should_running_dequeue`), `flush.py` for what of it becomes durable.
"""

from __future__ import annotations

from attrs import define

__all__ = ["TimerRole"]


@define(slots=True)
class TimerRole:
    """Whether this store releases; if not, `master_queue_offset` ends what it may enqueue."""

    releases: bool = True
    master_queue_offset: int = 0

    def may_enqueue(self, queue_offset: int) -> bool:
        """Say whether this entry of the timer topic's queue may enter the wheel."""
        return self.releases or queue_offset < self.master_queue_offset

    def follow(self, master_queue_offset: int) -> None:
        """Note how far the master has come; it never goes back while one follows."""
        self.master_queue_offset = max(self.master_queue_offset, master_queue_offset)

    def step_down(self, queue_offset: int) -> None:
        """Release no more; what was enqueued as a master stays."""
        self.releases = False
        self.master_queue_offset = max(self.master_queue_offset, queue_offset)

    def take_over(self) -> None:
        """Release again."""
        self.releases = True
