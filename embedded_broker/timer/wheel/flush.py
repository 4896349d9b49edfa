"""Flush of the timer store: captured under the door, written outside it.

Answers: which positions recovery may start from, and in which order the files follow each other.
Between capturing and `TimerFlush.run` the store's own flush syncs the commit log and the queues,
so that no position accounts for a message that a power loss could still take. Then the timer log,
the wheel that points into it, timercheck, timermetrics, and last timermeta (the order of
`TimerMessageStore.TimerFlushService`, with our file behind). A timermeta also goes before a
timercheck that would stand beside none, or that passes marks. Must not know: when to flush.

Read on: `engine.py` (`begin_flush`), `recovery.py` for what relies on the order.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from attrs import evolve, frozen

from embedded_broker.errors import StoreDamagedError
from embedded_broker.store.fs import FileSystem
from embedded_broker.timer.stage import FlushStage
from embedded_broker.timer.wheel.checkpoint import TimerCheckpointFile, TimerMeta, TimerMetaFile
from embedded_broker.timer.wheel.recovery import Recovered
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.trust import seal_of
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint

CHECKPOINT_FILE: Final = "config/timercheck"
META_FILE: Final = "config/timermeta"


@frozen(kw_only=True)
class TimerFlush:
    """A flush that was begun; `run` it once, with no lock held, after the store's own."""

    steps: list[Callable[[], None]]
    """What to write and sync, in this order."""
    failed: Callable[[], None]

    def run(self) -> None:
        """Write and sync everything; raises `StoreError`, and the next flush tries it again."""
        try:
            for step in self.steps:
                step()
        except BaseException:
            self.failed()
            raise


class TimerFlushService(FlushStage[TimerState]):
    """Marks the flush in the table of stages; the work is `TimerFlush`."""

    name = "TimerFlushService"


class Checkpointer:
    """Knows what was written last, and captures what is to be written next.

    `checkpoint` holds the values of timercheck; `load` and recovery set them first.
    """

    def __init__(self, state: TimerState, fs: FileSystem) -> None:
        self._state = state
        self._file = TimerCheckpointFile(fs, CHECKPOINT_FILE)
        self._meta_file = TimerMetaFile(fs, META_FILE)
        self._written: tuple[bytes, int, int, frozenset[int]] | None = None
        self._written_counter = -1
        self._last_meta: TimerMeta | None = None
        self._found = TimerCheckpoint()
        self._recovered_read_ms = 0
        self._again_from_pos = 0
        self._again_until_py = -1
        self.checkpoint = TimerCheckpoint()
        self.problem: str | None = None

    def load(self) -> tuple[TimerCheckpoint | None, TimerMeta | None]:
        """Read both files; `problem` says what is wrong with one of them."""
        self._last_meta = self._meta_file.load()
        self.problem = self._meta_file.problem
        checkpoint = None
        try:
            checkpoint = self._file.load()
        except StoreDamagedError as error:
            self.problem = str(error)
        self._found = TimerCheckpoint() if checkpoint is None else checkpoint.copy()
        return checkpoint, self._last_meta

    def start(self, recovered: Recovered) -> None:
        """Go on from what recovery found; the pointers of the state are set."""
        self.checkpoint = recovered.checkpoint
        self._again_from_pos = recovered.again_from_pos
        self._again_until_py = recovered.again_until_py
        self._recovered_read_ms = self._state.curr_read_ms

    def begin(self, now_ms: int, *, clean: bool) -> TimerFlush:
        """Capture everything; `clean` says that nothing follows and the counts are exact."""
        state, metrics = self._state, self._state.metrics
        self._move(now_ms)
        scan_pos = self._release_scan_pos()
        log_end = state.log.end
        removed = self._removed()
        written = (self.checkpoint.encode(), scan_pos, log_end, removed)
        same = written == self._written and not clean
        clean_end = (state.store.log.max_offset, log_end, metrics.counter) if clean else None
        meta = TimerMeta(
            precision_ms=state.precision_ms,
            slots_total=state.wheel.slots_total,
            wheel_covered_pos=self._covered_pos(log_end),
            release_scan_pos=scan_pos,
            displaced_until_ms=state.displaced_until_ms,
            checkpoint=self.checkpoint.copy(),
            removed=removed,
            clean_end=clean_end,
            log_begin=state.log.begin,
            log_file_size=state.log.file_size,
            seal=seal_of(state) if clean else None,
        )
        counter = self._written_counter
        self._written, self._written_counter = written, metrics.counter
        wheel = state.wheel.begin_flush()
        last_meta, before = self._last_meta, self._meta_before(meta)
        if not same:
            self._last_meta = meta

        def failed() -> None:
            self._written, self._written_counter = None, -1
            self._last_meta = last_meta
            state.wheel.flush_failed(wheel)

        log_plan = state.log.begin_flush()
        steps = [wheel.run] if log_plan is None else [log_plan.run, wheel.run]
        if not same:
            if before is not None:
                steps.append(partial(self._meta_file.write, before))
            steps.append(partial(self._file.write, self.checkpoint.copy()))
        if counter != metrics.counter:
            # Before timermeta, which may say that these counts are exact.
            steps.append(partial(metrics.save, metrics.snapshot()))
        if not same:
            steps.append(partial(self._meta_file.write, meta))
        return TimerFlush(steps=steps, failed=failed)

    def close(self) -> None:
        """Give the files back."""
        self._file.close()

    def _meta_before(self, meta: TimerMeta) -> TimerMeta | None:
        """Give the timermeta that must be on the disk before the new timercheck is; None if it is.

        The new timercheck may pass the marks that removed timers, and nothing else tells of those.
        Without a timermeta a kill would leave a timercheck that nothing can be held against: behind
        a clock that was set back it looks damaged.
        """
        last = self._last_meta
        if last is None:  # recovery then looks at everything, as without the file
            last = evolve(meta, checkpoint=self._found, release_scan_pos=0, wheel_covered_pos=0)
        elif meta.removed <= last.removed:
            return None
        return evolve(last, removed=last.removed | meta.removed, clean_end=None, seal=None)

    def _move(self, now_ms: int) -> None:
        """Set the pointers as `TimerMessageStore.prepareTimerCheckPoint`, on the safe side.

        The read time stays at the oldest slot that owns anything unreleased, the queue offset at
        the first message that left no record in the log.
        """
        state, one = self._state, self.checkpoint
        late = state.due_heap.first_late_queue_offset()
        offset = state.curr_queue_offset if late is None else min(late, state.curr_queue_offset)
        read_ms = state.due_heap.oldest_unfinished(state.curr_read_ms)
        if state.curr_read_ms < state.displaced_until_ms:
            # Marks that were passed already may have victims ahead.
            read_ms = min(read_ms, self._recovered_read_ms)
        role = state.role
        master_offset = offset if role.releases else role.master_queue_offset
        if master_offset != one.master_timer_queue_offset or read_ms != one.last_read_time_ms:
            one.counter += 1
            one.timestamp = now_ms
        one.last_read_time_ms = read_ms
        one.last_timer_log_flush_pos = state.log.end
        one.master_timer_queue_offset = master_offset
        one.last_timer_queue_offset = min(offset, master_offset)

    def _covered_pos(self, log_end: int) -> int:
        """Give the position up to which recovery may search the log instead of reading it.

        A message that left no record in a former life, because it was late, may enter the log in
        this one: behind the records of messages that came after it. Until the queue is past
        those, recovery has to read them all, or they would enter the wheel a second time.
        """
        unread_py = self._unread_py()
        if unread_py is not None and unread_py <= self._again_until_py:
            return min(self._again_from_pos, log_end)
        return log_end

    def _unread_py(self) -> int | None:
        """Give the message with which recovery would read the queue on; None at its end."""
        entry = self._state.queue.entry(self.checkpoint.last_timer_queue_offset)
        return None if entry is None else entry[0]

    def _removed(self) -> frozenset[int]:
        """Give the timers that recovery would read again although a mark removed them."""
        state, read_ms = self._state, self.checkpoint.last_read_time_ms
        loaded_until_ms = self._recovered_read_ms + state.precision_ms
        if read_ms > max(state.old_scan_until_ms, loaded_until_ms):
            state.old_removed = frozenset()
        return state.due_heap.removed_since(read_ms) | state.old_removed

    def _release_scan_pos(self) -> int:
        """Give the offset behind which every release lies that recovery must know of."""
        state = self._state
        position = state.due_heap.release_scan_pos(state.store.log.max_offset)
        unread_py = self._unread_py()
        if unread_py is not None:
            position = min(position, unread_py)
        if state.old_scan_pos is not None:
            position = min(position, state.old_scan_pos)
        return position
