"""Search of pending timers in the files of the sliced engine.

Answers: what a broker that opened these files would deliver: the records of the slices that are not
over, and the entries of the inbound queue that are in no slice yet. What lies in a slice's log
behind its saved end counts only if the commit log has the very same bytes, as a recovery sees it.
Recalled timers and those whose released copy is in the commit log do not wait. Must not know: wheel
and levels (`pending.py`), whether sums and ends of the logs agree.

Read on: `timer/slices/recovery.py` for what a start does with the same files.
"""

from embedded_broker.errors import StoreError
from embedded_broker.inspector.columns import PendingTimers, Whereabouts
from embedded_broker.inspector.reader import Severity, StoreFiles
from embedded_broker.store.commit_log import CommitLog
from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.timer.delivery import released_since
from embedded_broker.timer.slices.dcommit_log import DCommitLog, folder_of
from embedded_broker.timer.slices.marks import MarkTable, hits_among
from embedded_broker.timer.slices.progress import SliceProgress
from embedded_broker.timer.slices.record import SECOND_MS, Glance, glance
from embedded_broker.timer.slices.recovery import good_record


class SliceSearch:
    """One pass over the files of a sliced store; what it finds goes into `found`."""

    def __init__(self, files: StoreFiles, log: CommitLog, found: PendingTimers) -> None:
        self._files = files
        self._log = log
        self._found = found
        self._progress: SliceProgress = files.progress
        self._seen: set[int] = set()
        self._done: set[int] = set()
        self._marks = MarkTable()

    def run(self) -> None:
        """Look at everything."""
        files, progress, first_row = self._files, self._progress, len(self._found)
        if files.slices is None and files.inbound is None:
            return  # nobody ever used the engine: the commit log need not be searched for it
        start = max(self._log.min_offset, progress.scan_pos)
        self._done = {source for source, _, _ in released_since(self._log, start)}
        if files.slices is not None:
            for number in sorted({*files.slices.slices, *progress.ends}):
                self._slice(files.slices, number)
        if files.inbound is not None:
            for queue_offset in sorted(progress.late):
                self._entries(files.inbound, queue_offset, queue_offset + 1)
            self._entries(files.inbound, progress.delay_offset, files.inbound.max_offset)
        self._apply_marks(first_row)

    def _slice(self, slices: DCommitLog, number: int) -> None:
        accounted, end = self._progress.ends.get(number, 0), 0
        try:
            for position, record in slices.scan(number):
                is_new = position >= accounted
                seen = good_record(self._log, record) if is_new else glance(record)
                if seen is None or seen.second // self._progress.length != number:
                    if is_new:
                        break
                    self._unreadable(number, position, "no timer of this slice lies here")
                elif seen.second >= self._progress.current_second:
                    self._take(seen, position, Whereabouts.SLICE)
                end = position + len(record)
            end = slices.skip_blank(number, end) if end < accounted else end
        except StoreError as error:
            self._unreadable(number, -1, f"cannot be read: {error}")
            return
        is_over = (number + 1) * self._progress.length <= self._progress.current_second
        if end < accounted and not is_over:
            self._unreadable(number, end, f"the log ends here, and {accounted} bytes were synced")

    def _entries(self, queue: ConsumeQueue, start: int, end: int) -> None:
        for number, (offset, size, _) in queue.iterate(start, end):
            record = self._log.read(offset, size)
            seen = None if record is None else glance(record)
            if seen is not None:
                self._take(seen, offset, Whereabouts.QUEUED)
            elif offset >= self._log.min_offset:
                file = f"consumequeue/{queue.topic}"
                self._found.note(Severity.DAMAGE, file, number, "the entry names no timer")

    def _take(self, seen: Glance, offset: int, where: Whereabouts) -> None:
        if seen.source in self._seen:
            return
        self._seen.add(seen.source)
        if seen.source in self._done:
            self._found.released += 1
        elif seen.is_mark:
            self._found.marks += self._marks.add(seen)
        else:
            due_ms = seen.second * SECOND_MS
            self._found.add(due_ms, seen.source, seen.topic, offset, where)

    def _apply_marks(self, first_row: int) -> None:
        found, victims = self._found, set()
        for row in range(first_row, len(found)):
            marks = self._marks.at(found.due_ms[row] // SECOND_MS)
            record = found.record(row) if marks else None
            if record is not None and hits_among((marks,), found.root[row], record.properties):
                victims.add(row)
        found.recalled += len(victims)
        found.drop(victims)

    def _unreadable(self, number: int, position: int, text: str) -> None:
        self._found.note(Severity.DAMAGE, folder_of(number), position, text)
