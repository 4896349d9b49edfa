"""Search of pending timers in the files of the wheel and of the delay levels.

Answers: what a broker that opened these files would deliver, found without recovering them: the
chains of the slots from the read time on, the records at the timer log's end that the wheel does
not know yet, the queue entries that are not in the log yet, and the entries of the delay levels.
Marks and what they remove do not count, nor do timers whose released copy is in the commit log
(only our broker writes down which; after a real one the slot in progress counts whole).

Must not know: how the answer is shown, the sliced engine's files (`sliced.py`). A waiting message
costs a row of `columns.py` and a place in a set.
Read on: `integrity.py` for whether the files can be believed.
"""

from collections.abc import Iterator
from typing import Final

from embedded_broker.inspector.columns import PendingTimers, Whereabouts
from embedded_broker.inspector.reader import Severity, StoreFiles
from embedded_broker.inspector.sliced import SliceSearch
from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.timer.delivery import released_since
from embedded_broker.timer.recall import Mark, MarksOfSlots
from embedded_broker.timer.request import parse_request, root_offset
from embedded_broker.timer.wheel.timer_log import TimerLogRecord
from rocketmq_py.protocol.delay import release_due_ms
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.tag_hash import java_hash

MESSAGE_STEP_MS: Final = 1
"""To so many ms due times are told."""


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
        SliceSearch(files, files.commit_log, search.found).run()
        for level, queue in sorted(files.level_queues.items()):
            search.take_level(level, queue)
    return search.found


def tail_start(files: StoreFiles) -> int:
    """Give the timer-log position from which on the wheel may lack records.

    Ours says so in timermeta, after a clean stop. Else the wheel is not used, as by recovery.
    """
    log, meta = files.log, files.meta
    if log is None:
        return 0
    if not files.clean or files.wheel is None or meta is None:
        return log.begin
    return max(log.begin, min(meta.wheel_covered_pos, log.end))


def _logged(files: StoreFiles) -> Iterator[TimerLogRecord]:
    """Give the records of all unfinished slots: what the wheel knows, then the log's tail.

    Some come twice.
    """
    log, read_ms = files.log, files.read_ms
    if log is None:
        return
    start = tail_start(files)
    if files.wheel is not None and start > log.begin:
        for slot in sorted(files.wheel.used_slots()):
            if slot.time_ms >= read_ms:
                for _, record in log.chain(slot.last_pos, slot.time_ms):
                    yield record
    for _, record in log.scan(start):
        if record.slot_ms >= read_ms:
            yield record


class _Search:
    """One pass over the files."""

    def __init__(self, files: StoreFiles) -> None:
        self.found = PendingTimers(files)
        self._files = files
        self._seen: set[int] = set()
        self._done: set[int] = set()
        self._marks = MarksOfSlots()

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
        """Take what waits at a delay level; the queue entry itself holds the due time.

        A level is a row: what stands behind a later one leaves with it.
        """
        start = self._files.level_offsets.get(level, 0)
        due_ms = 0
        for _, (offset, _, deliver_ms) in queue.iterate(start):
            due_ms = max(due_ms, deliver_ms)
            message = self._files.record(offset)
            topic = None if message is None else message.properties.get(Prop.REAL_TOPIC)
            if message is None or message.topic != SCHEDULE_TOPIC or not topic:
                self._unreadable(offset, f"the queue of level {level} names no message here")
            elif topic != HALF_TOPIC:  # that is no topic a level delivers to
                self.found.add(due_ms, offset, topic, offset, Whereabouts.LEVEL)

    def apply_marks(self) -> None:
        """Remove the timers that a waiting mark takes back, as the release will."""
        slots = self._marks.slots
        if not slots:
            return
        victims = set()
        precision_ms = self._files.precision_ms
        for row, due_ms in enumerate(self.found.due_ms):
            own_slot = (due_ms - 1) // precision_ms * precision_ms
            if own_slot in slots and self._is_marked(self.found.offset[row]):
                victims.add(row)
        self.found.recalled = len(victims)
        self.found.drop(victims)

    def _is_marked(self, offset: int) -> bool:
        message = self._files.record(offset)
        request = None if message is None else parse_request(message.properties)
        if message is None or request is None:
            return False
        return self._marks.hit(request, message.properties, offset)

    def _take(self, message: MessageRecord, slot_ms: int | None) -> None:
        properties, offset = message.properties, message.commit_log_offset
        request = parse_request(properties)
        if request is None:
            self._unreadable(offset, "the message lacks its slot, topic or queue")
            return
        if request.deletes is not None:
            self._marks.add(request, Mark.of(properties, offset))
            self.found.marks += 1
            return
        due_ms = release_due_ms(
            properties,
            message.store_timestamp,
            request.out_ms,
            self._files.precision_ms,
            MESSAGE_STEP_MS,
        )
        where = Whereabouts.QUEUED
        if slot_ms is not None:
            where = Whereabouts.HOP if request.out_ms > slot_ms else Whereabouts.WHEEL
        self.found.add(due_ms, root_offset(properties, offset), request.real_topic, offset, where)

    def _message(self, offset: int, size: int) -> MessageRecord | None:
        record = self._files.record(offset)
        if record is None or record.topic != TIMER_TOPIC or record.size != size:
            return None
        return record

    def _unreadable(self, offset: int, text: str) -> None:
        expired = self._files.commit_log is not None and offset < self._files.commit_log.min_offset
        severity = Severity.NOTE if expired else Severity.DAMAGE
        text = "the message has left the commit log" if expired else text
        self.found.note(severity, "commitlog", offset, text)
