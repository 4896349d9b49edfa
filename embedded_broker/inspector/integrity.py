"""Integrity of a timer store: whether its files agree with each other.

Answers: which bytes cannot be right. Checked are, from the bytes as they lie there: every record of
the timer log against its neighbours and the commit log; every slot that is still to be read: its
place, its chain, its two ends and its count; the messages of waiting timers with their CRC; the
timer queue's entries; the check point's positions; the saved counts. Must not know: how anything
is repaired. What a killed broker leaves behind, and its next start puts in order, is no damage.

Read on: `reader.py` (`Severity`), `timer/wheel/recovery.py` for what a start does about it.
"""

from collections import Counter
from typing import Final

from attrs import define, field

from embedded_broker.inspector.columns import PendingTimers, Whereabouts
from embedded_broker.inspector.reader import Finding, Severity, StoreFiles
from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.timer.slices.opening import METRICS_FILE as SLICE_METRICS_FILE
from embedded_broker.timer.wheel.record_judge import RecordJudge
from embedded_broker.timer.wheel.slots import Slot, TimerWheel
from embedded_broker.timer.wheel.state import METRICS_FILE
from embedded_broker.timer.wheel.timer_log import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC_DELETE,
    RECORD_SIZE,
    TimerLog,
)

_SHOWN_OF_A_KIND: Final = 20
_MAGIC_AT: Final = 12


@define(slots=True)
class Checked:
    """How much was looked at, and what was found; `hidden` findings of a kind are only counted."""

    slots: int = 0
    records: int = 0
    messages: int = 0
    queue_entries: int = 0
    findings: list[Finding] = field(factory=list)
    hidden: Counter[str] = field(factory=Counter)

    @property
    def is_damaged(self) -> bool:
        """Whether anything is lost or wrong that a start does not put in order."""
        return any(one.severity is Severity.DAMAGE for one in self.findings)


def check(files: StoreFiles, pending: PendingTimers) -> Checked:
    """Check everything; `pending` was found in the same files."""
    return _Check(files, pending).run()


class _Check:
    def __init__(self, files: StoreFiles, pending: PendingTimers) -> None:
        self._files = files
        self._pending = pending
        self._done = Checked()
        self._kinds: Counter[str] = Counter()
        self._judge = (
            RecordJudge(files.commit_log, files.precision_ms) if files.commit_log else None
        )
        self._flushed = files.checkpoint.last_timer_log_flush_pos if files.checkpoint else 0

    def run(self) -> Checked:
        files, done = self._files, self._done
        for finding in [*files.findings, *self._pending.findings]:
            self._keep(finding, finding.text)
        done.messages = len(self._pending) + self._pending.marks
        if files.log is not None:
            self._log(files.log)
        if files.wheel is not None:
            self._wheel(files.wheel, files.log)
        if files.timer_queue is not None:
            self._queue(files.timer_queue)
        self._positions()
        self._counts()
        return done

    def _find(self, severity: Severity, file: str, position: int, kind: str, detail: str) -> None:
        self._keep(Finding(severity, file, position, f"{kind}: {detail}"), kind)

    def _keep(self, finding: Finding, kind: str) -> None:
        self._kinds[kind] += 1
        if self._kinds[kind] > _SHOWN_OF_A_KIND:
            self._done.hidden[kind] += 1
        else:
            self._done.findings.append(finding)

    def _severity(self, position: int) -> Severity:
        """Tell damage from what a kill leaves: bytes behind the flushed position were at risk."""
        if position >= self._flushed and (not self._files.clean or self._files.holder):
            return Severity.REPAIR
        return Severity.DAMAGE

    # --- the timer log -----------------------------------------------------------------------

    def _log(self, log: TimerLog) -> None:
        """Read every record of every file, then look behind the last one."""
        end = log.begin
        for start in log.file_starts:
            end = self._log_file(log, start)
            is_last = start == log.file_starts[-1]
            if end < start + log.file_size and not is_last:
                text = f"{start + log.file_size - end} bytes before the next file are no records"
                self._find(Severity.DAMAGE, "timerlog", end, "hole in the log", text)
        if end < self._flushed:
            text = f"the check point says that {self._flushed} bytes were synced"
            self._find(Severity.DAMAGE, "timerlog", end, "the log ends too early", text)
        rest = bytes(log.read_bytes(end)) if end < log.end else b""
        if rest.strip(b"\0"):
            left = len(rest.rstrip(b"\0"))
            text = f"{left} bytes that are neither record nor zero"
            self._find(self._severity(end), "timerlog", end, "left-over bytes behind the end", text)

    def _log_file(self, log: TimerLog, start: int) -> int:
        """Check one file; gives where its records end, at the file's end behind a blank."""
        file_end = start + log.file_size
        end = start
        for position, entry in log.entries(start):
            if position >= file_end:
                break
            end = position + RECORD_SIZE
            self._done.records += 1
            fault = None if self._judge is None else self._judge.fault(position, entry)
            if fault is not None:
                self._find(self._severity(position), "timerlog", position, *fault)
        view = log.read_bytes(end) if end < file_end else memoryview(b"")
        if len(view) < BLANK_SIZE:
            return file_end
        magic = int.from_bytes(view[_MAGIC_AT : _MAGIC_AT + 4], "big", signed=True)
        return file_end if magic == BLANK_MAGIC else end

    # --- the wheel ---------------------------------------------------------------------------

    def _wheel(self, wheel: TimerWheel, log: TimerLog | None) -> None:
        seen: set[int] = set()
        for slot in wheel.used_slots():
            is_elsewhere = wheel.get_slot(slot.time_ms) != slot or slot.time_ms in seen
            seen.add(slot.time_ms)
            if is_elsewhere:
                text = f"slot of {slot.time_ms} ms lies in another one's place"
                self._find(Severity.DAMAGE, "timerwheel", -1, "misplaced slot", text)
                continue
            if slot.time_ms >= self._files.read_ms:
                self._done.slots += 1
                self._slot(slot, log)

    def _slot(self, slot: Slot, log: TimerLog | None) -> None:
        """Follow the chain of one slot from its end to its begin."""
        position, normal, deletes, first = slot.last_pos, 0, 0, -1
        while position >= 0:
            record = log.read(position) if log is not None else None
            if record is None:
                return self._broken(slot, position, "no record there")
            if record.slot_ms != slot.time_ms:
                return self._broken(slot, position, f"a record of slot {record.slot_ms} ms there")
            first = position
            if record.magic & MAGIC_DELETE:
                deletes += 1
            else:
                normal += 1
            if record.prev_pos >= position:
                return self._broken(slot, position, "it does not go back")
            position = record.prev_pos
        if first != slot.first_pos:
            text = f"slot of {slot.time_ms} ms begins at {first}, says {slot.first_pos}"
            self._find(Severity.NOTE, "timerwheel", first, "first position off", text)
        if normal - deletes != slot.num:
            text = (
                f"slot of {slot.time_ms} ms has {normal} timers and {deletes} marks, "
                f"says {slot.num}"
            )
            self._find(Severity.NOTE, "timerwheel", first, "slot count off", text)
        return None

    def _broken(self, slot: Slot, position: int, detail: str) -> None:
        text = f"slot of {slot.time_ms} ms: {detail}"
        self._find(self._severity(position), "timerlog", position, "broken chain", text)

    # --- queue, check point, counts ------------------------------------------------------------

    def _queue(self, queue: ConsumeQueue) -> None:
        commit_log, checkpoint = self._files.commit_log, self._files.checkpoint
        safe = checkpoint.last_timer_queue_offset if checkpoint is not None else 0
        for number, (offset, size, _) in queue.iterate(queue.min_offset):
            self._done.queue_entries += 1
            if commit_log is not None and commit_log.read(offset, size) is None:
                at_risk = number >= safe and (not self._files.clean or self._files.holder)
                severity = Severity.REPAIR if at_risk else Severity.DAMAGE
                text = f"no message of {size} bytes at {offset} of the commit log"
                self._find(severity, "consumequeue", number, "entry without message", text)

    def _positions(self) -> None:
        checkpoint, queue = self._files.checkpoint, self._files.timer_queue
        if checkpoint is None:
            if self._files.log is not None:
                text = "without it a broker releases a week of timers again, if there are any"
                self._find(self._severity(0), "config/timercheck", -1, "no check point", text)
            return
        end = queue.max_offset if queue is not None else 0
        if checkpoint.last_timer_queue_offset > end:
            text = f"{checkpoint.last_timer_queue_offset} of {end} entries are said to be done"
            self._find(
                Severity.DAMAGE, "config/timercheck", 16, "queue offset beyond the queue", text
            )
        if self._files.log is not None and self._flushed > self._files.log.end:
            text = f"{self._flushed} of {self._files.log.end} bytes are said to be synced"
            self._find(Severity.DAMAGE, "config/timercheck", 8, "position beyond the log", text)

    def _counts(self) -> None:
        """Compare the saved counts; they are estimates after a kill, and may drift upstream."""
        pending = self._pending
        true = Counter(
            pending.topics[topic]
            for topic, where in zip(pending.topic, pending.where, strict=True)
            if where != Whereabouts.LEVEL
        )
        saved = self._files.counts
        file = METRICS_FILE if self._files.slices is None else SLICE_METRICS_FILE
        for topic in sorted({*saved, *true}):
            if saved.get(topic, 0) != true[topic]:
                text = f"{topic}: {true[topic]} wait, saved is {saved.get(topic, 0)}"
                self._find(Severity.NOTE, file, -1, "count off", text)
