"""Which messages of a store wait for their time, and when each of them is due.

Answers: what a broker that opened these files would deliver, found without recovering them: the
chains of the slots from the read time on, the records at the timer log's end that the wheel does
not know yet, the queue entries that are not in the log yet, and the entries of the delay levels.
Marks and what they remove do not count, nor do timers whose released copy is in the commit log
(only our broker writes down which; after a real one the slot in progress counts whole).

Must not know: how the answer is shown. A waiting message costs 21 bytes here and a place in a set.
Read on: `integrity.py` for whether the files can be believed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from attrs import define, field, frozen

from embedded_broker.inspector.reader import Finding, Severity, StoreFiles
from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.timer.delivery import released_since
from embedded_broker.timer.recall import Mark
from embedded_broker.timer.request import delete_key, is_rootless, parse_request, root_offset
from embedded_broker.timer.wheel.timer_log import TimerLogRecord
from rocketmq_py.protocol.delay import release_due_ms
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.tag_hash import java_hash

_MESSAGE_STEP_MS: Final = 1


class Whereabouts(IntEnum):
    """Where a waiting message lies."""

    WHEEL = 0
    """In its own slot."""
    HOP = 1
    """In the slot where it is put anew, because its own is too far away."""
    QUEUED = 2
    """In the timer topic's queue, not yet in the wheel."""
    LEVEL = 3
    """In the queue of a delay level."""


@frozen(kw_only=True)
class PendingEntry:
    """One waiting message, read back from the commit log; times in epoch milliseconds."""

    due_ms: int
    topic: str
    queue_id: int
    message_id: str
    keys: str
    place: Whereabouts
    level: int
    rolls: int
    accepted_ms: int
    size: int
    offset: int


@define(slots=True)
class PendingTimers:
    """All waiting messages as columns; row `i` is the same message in each of them."""

    files: StoreFiles
    due_ms: array[int] = field(factory=lambda: array("q"))
    topic: array[int] = field(factory=lambda: array("i"))
    offset: array[int] = field(factory=lambda: array("q"))
    place: array[int] = field(factory=lambda: array("b"))
    topics: list[str] = field(factory=list)
    numbers: dict[str, int] = field(factory=dict)
    """Where each topic stands among them."""
    marks: int = 0
    """Delete marks that wait beside them."""
    recalled: int = 0
    """Timers that a mark removes; not among the rows."""
    released: int = 0
    """Timers of unfinished slots whose copy is already delivered; not among the rows."""
    findings: list[Finding] = field(factory=list)

    def __len__(self) -> int:
        return len(self.due_ms)

    def rows(self, topic: str | None = None, before_ms: int | None = None) -> list[int]:
        """Give the rows in order of their due times, of one topic, or due before a time."""
        wanted = None if topic is None else self.numbers.get(topic, -1)
        found = [
            row
            for row in range(len(self))
            if (wanted is None or self.topic[row] == wanted)
            and (before_ms is None or self.due_ms[row] < before_ms)
        ]
        due_ms = self.due_ms
        found.sort(key=lambda row: due_ms[row])
        return found

    def entry(self, row: int) -> PendingEntry | None:
        """Read one message back; None when its record is gone (a running broker's store)."""
        record = self.files.record(self.offset[row])
        if record is None:
            return None
        properties = record.properties
        queue_id = properties.get(Prop.REAL_QID, "")
        place = Whereabouts(self.place[row])
        level = properties.get(Prop.DELAY, "")
        rolls = properties.get(Prop.TIMER_ROLL_TIMES, "")
        return PendingEntry(
            due_ms=self.due_ms[row],
            topic=self.topics[self.topic[row]],
            queue_id=int(queue_id) if queue_id.isdecimal() else -1,
            message_id=record.msg_id,
            keys=properties.get(Prop.KEYS, ""),
            place=place,
            level=int(level) if place is Whereabouts.LEVEL and level.isdecimal() else 0,
            rolls=int(rolls) if rolls.isdecimal() else 0,
            accepted_ms=record.store_timestamp,
            size=record.size,
            offset=record.commit_log_offset,
        )

    def add(self, due_ms: int, topic: str, offset: int, place: Whereabouts) -> None:
        """Add a row."""
        number = self.numbers.get(topic)
        if number is None:
            number = self.numbers[topic] = len(self.topics)
            self.topics.append(topic)
        self.due_ms.append(due_ms)
        self.topic.append(number)
        self.offset.append(offset)
        self.place.append(place)

    def drop(self, rows: set[int]) -> None:
        """Remove rows."""
        for name in ("due_ms", "topic", "offset", "place"):
            old: array[int] = getattr(self, name)
            kept = (one for row, one in enumerate(old) if row not in rows)
            setattr(self, name, array(old.typecode, kept))


def find_pending(files: StoreFiles) -> PendingTimers:
    """Look for everything that waits. Reads each waiting message once."""
    search = _Search(files)
    if files.commit_log is not None:
        search.note_released()
        for record in _logged(files):
            search.take_record(record)
        if files.timer_queue is not None:
            search.take_queue(files.timer_queue)
        search.apply_marks()
        for level, queue in sorted(files.level_queues.items()):
            search.take_level(level, queue)
    return search.found


def tail_start(files: StoreFiles) -> int:
    """Give the timer-log position from which on the wheel may lack records.

    Ours says so in timermeta; after a real broker it is one file before the flushed position, as
    its own recovery assumes (`TimerMessageStore.recover`).
    """
    log = files.log
    if log is None:
        return 0
    if files.wheel is None:
        return log.begin
    if files.meta is not None:
        return max(log.begin, min(files.meta.wheel_covered_pos, log.end))
    flushed = files.checkpoint.last_timer_log_flush_pos if files.checkpoint is not None else 0
    before = max(0, flushed - log.file_size)
    return max(log.begin, min(before - before % log.file_size, log.end))


def _logged(files: StoreFiles) -> Iterator[TimerLogRecord]:
    """Give the records of all unfinished slots: what the wheel knows, then the log's tail.

    Some come twice.
    """
    log, read_ms = files.log, files.read_ms
    if log is None:
        return
    if files.wheel is not None:
        for slot in sorted(files.wheel.used_slots()):
            if slot.time_ms >= read_ms:
                for _, record in log.chain(slot.last_pos, slot.time_ms):
                    yield record
    for _, record in log.scan(tail_start(files)):
        if record.slot_ms >= read_ms:
            yield record


class _Search:
    """One pass over the files."""

    def __init__(self, files: StoreFiles) -> None:
        self.found = PendingTimers(files)
        self._files = files
        self._seen: set[int] = set()
        self._done: set[int] = set()
        self._marks: dict[tuple[int, str], list[Mark]] = {}

    def note_released(self) -> None:
        """Find the timers of unfinished slots that our broker has delivered already."""
        meta, log = self._files.meta, self._files.commit_log
        if meta is None or log is None:
            return
        self._done |= meta.removed
        start = max(log.min_offset, meta.release_scan_pos)
        self._done |= {source for source, _, _ in released_since(log, start)}

    def take_record(self, record: TimerLogRecord) -> None:
        """Take one record of the timer log."""
        offset = record.offset_py
        if offset in self._seen:
            return
        self._seen.add(offset)
        if offset in self._done:
            self.found.released += 1
            return
        message = self._message(offset, record.size_py)
        if message is None:
            self._unreadable(offset, "no message of the timer topic lies here, or a torn one")
        elif java_hash(message.properties.get(Prop.REAL_TOPIC)) != record.topic_hash:
            self._unreadable(offset, "the record's topic hash is another topic's")
        else:
            self._take(message, record.slot_ms)

    def take_queue(self, queue: ConsumeQueue) -> None:
        """Take what entered the timer topic after the last check point."""
        checkpoint = self._files.checkpoint
        start = checkpoint.last_timer_queue_offset if checkpoint is not None else 0
        for _, (offset, size, _) in queue.iterate(start):
            if offset in self._seen or offset in self._done:
                continue
            self._seen.add(offset)
            message = self._message(offset, size)
            if message is None:
                self._unreadable(offset, "the timer queue names no message of its topic here")
            else:
                self._take(message, None)

    def take_level(self, level: int, queue: ConsumeQueue) -> None:
        """Take what waits at a delay level; the queue entry itself holds the due time."""
        start = self._files.level_offsets.get(level, 0)
        for _, (offset, _, due_ms) in queue.iterate(start):
            message = self._files.record(offset)
            topic = None if message is None else message.properties.get(Prop.REAL_TOPIC)
            if message is None or message.topic != SCHEDULE_TOPIC or not topic:
                self._unreadable(offset, f"the queue of level {level} names no message here")
            else:
                self.found.add(due_ms, topic, offset, Whereabouts.LEVEL)

    def apply_marks(self) -> None:
        """Remove the timers that a waiting mark takes back, as the release will."""
        if not self._marks:
            return
        victims = set()
        slots = {out_ms for out_ms, _ in self._marks}
        precision_ms = self._files.precision_ms
        for row, due_ms in enumerate(self.found.due_ms):
            own_slot = (due_ms - 1) // precision_ms * precision_ms
            if own_slot in slots and self._is_marked(self.found.offset[row]):
                victims.add(row)
        self.found.recalled = len(victims)
        if victims:
            self.found.drop(victims)

    def _is_marked(self, offset: int) -> bool:
        message = self._files.record(offset)
        request = None if message is None else parse_request(message.properties)
        if message is None or request is None:
            return False
        properties = message.properties
        key = delete_key(request.real_topic, properties.get(Prop.UNIQ_KEY, ""))
        root, rootless = root_offset(properties, offset), is_rootless(properties)
        marks = self._marks.get((request.out_ms, key), ())
        return any(mark.names(root) or rootless for mark in marks)

    def _take(self, message: MessageRecord, slot_ms: int | None) -> None:
        properties, offset = message.properties, message.commit_log_offset
        request = parse_request(properties)
        if request is None:
            self._unreadable(offset, "the message lacks its slot, topic or queue")
            return
        if request.deletes is not None:
            marks = self._marks.setdefault((request.out_ms, request.deletes), [])
            marks.append(Mark.of(properties, offset))
            self.found.marks += 1
            return
        due_ms = release_due_ms(
            properties,
            message.store_timestamp,
            request.out_ms,
            self._files.precision_ms,
            _MESSAGE_STEP_MS,
        )
        place = Whereabouts.QUEUED
        if slot_ms is not None:
            place = Whereabouts.HOP if request.out_ms > slot_ms else Whereabouts.WHEEL
        self.found.add(due_ms, request.real_topic, offset, place)

    def _message(self, offset: int, size: int) -> MessageRecord | None:
        record = self._files.record(offset)
        if record is None or record.topic != TIMER_TOPIC or record.size != size:
            return None
        return record

    def _unreadable(self, offset: int, text: str) -> None:
        expired = self._files.commit_log is not None and offset < self._files.commit_log.min_offset
        severity = Severity.NOTE if expired else Severity.DAMAGE
        text = "the message has left the commit log" if expired else text
        self.found.findings.append(Finding(severity, "commitlog", offset, text))
