"""Flush of a sliced store: captured under the door, written outside it.

Answers: in which order. Between capturing and `SliceFlush.run` the store's own flush syncs the
commit log and the queues. Then the logs of the slices, then the counts, then the progress, which
says that all of this is durable, and last the files of slices that are over: the saved progress no
longer needs them. Must not know: when to flush.

Read on: `recovery.py` for what relies on the order.
"""

from typing import Any, Final

from attrs import frozen

from embedded_broker.store.fs import FileSystem
from embedded_broker.timer.delay_offsets import DelayOffsetFile
from embedded_broker.timer.slices.dcommit_log import SliceSync, remove_slice
from embedded_broker.timer.slices.progress import SUMS, SliceProgress
from embedded_broker.timer.slices.state import SliceState
from embedded_broker.timer.stage import FlushStage

_SCAN_MOST: Final = 4 * 1024 * 1024
"""Progress is also saved when recovery would otherwise have to read more of the commit log."""


@frozen(kw_only=True)
class SliceFlush:
    """A flush that was begun; `run` it once, with no lock held, after the store's own.

    `table` and `metrics` are None when they are stored already as they are.
    """

    service: "SliceFlushService"
    sync: SliceSync
    table: dict[str, Any] | None  # JSON values
    metrics: dict[str, Any] | None
    over: tuple[int, ...]

    def run(self) -> None:
        """Write and sync everything; raises `StoreError`, and the next flush tries it again."""
        service = self.service
        try:
            sums = self.sync.run()
            service.state.log.take_sums(sums)
            if self.metrics is not None:
                service.state.metrics.save(self.metrics)
            if self.table is not None:
                service.file.save({**self.table, SUMS: {one: [*sums[one]] for one in sums}})
            for number in self.over:
                remove_slice(service.fs, number)
        except BaseException:
            self.failed()
            raise

    def failed(self) -> None:
        """Note that it was not carried out: the next flush does all of it."""
        self.service.take_back(self)


class SliceFlushService(FlushStage[SliceState]):
    """Knows what was written last, and captures what is to be written next."""

    name = "SliceFlushService"

    def __init__(self, state: SliceState, fs: FileSystem, file: DelayOffsetFile) -> None:
        super().__init__(state)
        self.fs = fs
        self.file = file
        self._written_changes = -1
        self._written_scan_pos = 0
        self._written_counter = -1
        self.slices_removed = 0

    @property
    def queue_depth(self) -> int:
        """Slices whose files are to be removed."""
        return len(self.state.passed)

    @property
    def counters(self) -> dict[str, int]:
        """How many flushes were begun, and slices given up to be removed."""
        return {"begun": self.begun, "slices_removed": self.slices_removed}

    def _progress(self, *, clean: bool = False) -> SliceProgress:
        """Say how far the store has come."""
        state = self.state
        ends = state.ends()
        if state.logged_from:
            clean = False  # the logs are to be read again, so the counts are found out anew
        return SliceProgress(
            delay_offset=state.queue_offset,
            current_second=state.current_second,
            length=state.length,
            inbound=state.inbound,
            ends=ends,
            scan_pos=state.scan_pos(),
            late=state.late.queue_offsets(),
            clean=(state.store.log.max_offset, state.metrics.counter) if clean else None,
        )

    def begin(self, *, clean: bool) -> SliceFlush:
        """Capture everything; `clean` says that nothing follows and the counts are exact."""
        state, metrics = self.state, self.state.metrics
        progress = self._progress(clean=clean)
        is_same = (
            state.changes == self._written_changes
            and progress.scan_pos - self._written_scan_pos < _SCAN_MOST
            and not clean
        )
        over = tuple(state.passed)
        state.passed.clear()
        sync = state.log.begin_sync()
        counter = self._written_counter
        self._written_changes, self._written_counter = state.changes, metrics.counter
        if not is_same:
            self._written_scan_pos = progress.scan_pos

        return SliceFlush(
            service=self,
            sync=sync,
            table=None if is_same and not over else progress.to_table(),
            metrics=None if counter == metrics.counter else metrics.snapshot(),
            over=over,
        )

    def take_back(self, flush: SliceFlush) -> None:
        """Let the next flush do all of one that was not carried out."""
        self._written_changes = self._written_counter = -1
        self.state.passed[:0] = flush.over
        self.state.log.sync_failed(flush.sync)
