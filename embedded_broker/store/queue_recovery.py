"""Recovery of consume queues: how their entries and the records of the log are made to agree.

Answers, record by record: whether its queue has its entry, which entries no record has confirmed,
and which records name a queue to which they do not belong. Topic, queue and number of a record have
no check sum. A queue's entry cannot be wrong about its queue, so it shows which records are. Must
not know: what is done about it. Read on: `recovery.py`, which reads the log.
"""

from collections.abc import Callable
from typing import Final

from attrs import define, field, frozen

from embedded_broker.store.commit_log import CommitLog, Parts
from embedded_broker.store.consume_queue import ConsumeQueue, Entry
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.inner_batch import inner_count, unwrap
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import SCHEDULE_TOPIC
from rocketmq_py.protocol.sysflag import (
    INNER_BATCH,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)

NOT_QUEUED: Final = frozenset({TRANSACTION_PREPARED, TRANSACTION_ROLLBACK})
"""Transaction kinds whose records no queue shows."""

_REMEMBERED_MAX: Final = 100_000
_RECORD_LEAST: Final = 91
_SHARED_RECORDS: Final = "%LMQ%"  # queues whose entries are those of another topic's records
_Key = tuple[str, int]


class EntriesMissing(Exception):  # noqa: N818 - caught by who reads: read from further back
    """Entries of records before those that are read are missing."""


@frozen
class Misnamed:
    """A record that names another queue than the one that has its entry."""

    offset: int
    size: int
    what: str


@define
class _Seen:
    """What was seen of one queue: entries from `begin` on; `agreed` of them are as they should be.

    `last_offset` is the place in the log of the last record that agreed.
    """

    begin: int
    agreed: int = 0
    last_offset: int = -1


@frozen
class _Disputed:
    """A record whose number in its queue another record's entry has."""

    key: _Key
    number: int
    entry: Entry
    stored_ms: int
    count: int


@define(eq=False, repr=False)
class QueueRecovery:
    """Sees every record from `start` on, in order. `clean`: the queues were complete."""

    _queues: dict[_Key, ConsumeQueue]
    _queue_for: Callable[[str, int], ConsumeQueue]
    _batch_queue_for: Callable[[str, int], ConsumeQueue]
    _tags_code: Callable[[str, bytes, int], int]
    _start: int
    _whole: bool
    _clean: bool
    _log: CommitLog
    added: int = field(default=0, init=False)
    next_offsets: dict[_Key, int] = field(factory=dict, init=False)
    _seen: dict[_Key, _Seen] = field(factory=dict, init=False)
    _appended: set[int] = field(factory=set, init=False)
    _disputed: dict[int, _Disputed] = field(factory=dict, init=False)
    _impossible: dict[int, Misnamed] = field(factory=dict, init=False)

    def see(self, parts: Parts) -> None:
        """Make sure that a record has its entry. Raises ``EntriesMissing``."""
        offset, size, topic, queue_id, number, flag, stored, properties = parts
        if not 0 <= number * _RECORD_LEAST <= offset and not self._may_have(parts):
            return
        find = self._batch_queue_for if flag & INNER_BATCH else self._queue_for
        queue = find(topic, queue_id)
        key = topic, queue_id
        seen = self._seen.get(key)
        if not queue.first_offset <= number <= queue.max_offset:
            if not self._whole:
                raise EntriesMissing
            if number < queue.first_offset and seen is None:
                # Its oldest files are gone though the log still has their messages.
                queue.clear()
        if seen is None:
            begin = min(queue.first_from(self._start), number)
            seen = self._seen[key] = _Seen(begin)
        entry = offset, size, self._tags_code(topic, properties, stored)
        found = queue.entry(number)
        count = self._count(queue, parts, found) if queue.is_batch else 1
        if found != entry or not queue.agrees(number, stored, count):
            if found is not None and found[0] != offset and len(self._disputed) < _REMEMBERED_MAX:
                self._disputed[offset] = _Disputed(key, number, entry, stored, count)
                return
            if number >= queue.first_offset or not queue.max_offset:
                self._place(queue, number, entry, found, stored, count)
        seen.agreed += count
        seen.last_offset = offset
        self.next_offsets[key] = number + count

    def _count(self, queue: ConsumeQueue, parts: Parts, found: Entry | None) -> int:
        """Say how many messages a record of a batch queue counts.

        Properties have no check sum, nor has an entry. Where the two disagree the body, which has
        one, says who is right.
        """
        offset, size, _, _, number, _, _, properties = parts
        count = inner_count(properties)
        if found is None or found[:2] != (offset, size):
            return count
        told = queue.end_of(number) - number
        if told == count:
            return count
        record = self._log.record(offset)
        return told if record is not None and _body_count(record) == told else count

    def _may_have(self, parts: Parts) -> bool:
        """Whether a record can have a number below 0, or one before which so many do not fit.

        It can when its queue has it under this number; a high one also when records of the queue
        may count several messages. Else a bit of the number has changed.
        """
        offset, size, topic, queue_id, number, flag, _, _ = parts
        queue = self._queues.get((topic, queue_id))
        entry = None if queue is None else queue.entry(number)
        if entry is not None and entry[:2] == (offset, size):
            return True
        if number >= 0 and (flag & INNER_BATCH or (queue is not None and queue.is_batch)):
            return number <= offset  # nothing is known of more: no entry, and no damage
        what = f"the record names number {number} of {topic} queue {queue_id}"
        self._impossible[offset] = Misnamed(offset, size, what)
        return False

    def _place(
        self,
        queue: ConsumeQueue,
        number: int,
        entry: Entry,
        found: Entry | None,
        stored_ms: int,
        count: int,
    ) -> None:
        if number < queue.max_offset and not (self._whole or queue.fits(number, count)):
            raise EntriesMissing
        # The code of a delay level says when its message was to go, by the levels of that time.
        trusted = self._clean and queue.topic == SCHEDULE_TOPIC
        if not queue.place(number, *entry, trusted=trusted, stored_ms=stored_ms, count=count):
            return
        self.added += 1
        if found is None and len(self._appended) < _REMEMBERED_MAX:
            self._appended.add(entry[0])

    def settle(self, log: CommitLog, end: int) -> list[Misnamed]:
        """Decide whose the disputed numbers are; gives the records that name another queue.

        What the queues got from such records is taken out again, and entries of nothing are
        blanked.
        """
        found = dict(self._impossible)
        for key, queue in self._queues.items():
            for number, entry in self._doubtful(key, queue, end):
                if entry[0] in self._impossible:
                    continue  # it goes with its record
                wrong = self._judge(log, key, number, entry)
                if wrong is not None:
                    found[wrong.offset] = wrong
        for offset, one in sorted(self._disputed.items()):
            if offset not in found:
                self._give(log, offset, one)
        return [found[offset] for offset in sorted(found)]

    def _doubtful(self, key: _Key, queue: ConsumeQueue, end: int) -> list[tuple[int, Entry]]:
        """Give the entries of a queue if some of them were not met as they should be."""
        seen = self._seen.get(key)
        begin = queue.first_from(self._start) if seen is None else seen.begin
        agreed = 0 if seen is None else seen.agreed
        if queue.max_offset - begin == agreed or key[0].startswith(_SHARED_RECORDS):
            return []
        return [
            (number, entry)
            for number, entry in queue.iterate(begin)
            if entry[1] > 0 and self._start <= entry[0] < end
        ]

    def _judge(self, log: CommitLog, key: _Key, number: int, entry: Entry) -> Misnamed | None:
        """Look at an entry of a doubtful queue: its record names this queue, another, or none."""
        offset, size, _ = entry
        record = log.record(offset)
        queue = self._queues[key]
        if record is None:
            queue.blank(number)
            return None
        named = record.topic, record.queue_id
        if record.sys_flag & TRANSACTION_MASK in NOT_QUEUED:
            what = "belongs to a transaction and to no queue"
        elif named == key and record.queue_offset == number:
            return None
        elif offset in self._appended:
            what = f"names {named[0]} queue {named[1]} and number {record.queue_offset}"
            self._take_back(named, record.queue_offset)
        elif offset in self._disputed and (
            named != key or self._holds_its_own(log, queue, record.queue_offset)
        ):
            what = f"names {named[0]} queue {named[1]} and number {record.queue_offset}"
        else:
            queue.blank(number)
            return None
        what = f"the record {what}, but {key[0]} queue {key[1]} has it as {number}"
        return Misnamed(offset, size, what)

    def _holds_its_own(self, log: CommitLog, queue: ConsumeQueue, number: int) -> bool:
        """Whether the entry of a number is of a record that names it: not so in swapped files."""
        entry = queue.entry(number)
        record = None if entry is None else log.record(entry[0])
        return record is not None and (record.topic, record.queue_id, record.queue_offset) == (
            queue.topic,
            queue.queue_id,
            queue.begin_of(number),
        )

    def _take_back(self, key: _Key, number: int) -> None:
        """Undo the entry that a misnamed record got in the queue that it names."""
        queue = self._queues[key]
        queue.blank(number)
        if queue.is_blank:
            queue.clear()
            self.next_offsets[key] = 0
        elif self.next_offsets.get(key) == queue.end_of(number):
            while number > queue.first_offset and queue.entry(number - 1) is None:
                number -= 1
            self.next_offsets[key] = number

    def _give(self, log: CommitLog, offset: int, one: _Disputed) -> None:
        """Let the later of two records have the number: a topic may have begun again at 0."""
        queue, seen = self._queues[one.key], self._seen[one.key]
        holder = queue.entry(one.number)
        if holder and holder[0] > offset and self._holds_its_own(log, queue, one.number):
            return
        self._place(queue, one.number, one.entry, holder, one.stored_ms, one.count)
        if offset > seen.last_offset:
            seen.last_offset = offset
            self.next_offsets[one.key] = one.number + one.count


def _body_count(record: MessageRecord) -> int:
    """Say how many messages the body of a record holds; 0 if it cannot be read."""
    try:
        return len(unwrap(record))
    except RocketMQError:
        return 0
