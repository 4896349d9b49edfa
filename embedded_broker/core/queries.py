"""Message queries: by place in the log, by id, or by key.

RocketMQ's QueryMessageProcessor, and what tests ask beyond it. Ids and keys are found through the
store's key index, which knows a record by its topic and key, so an id is looked for in every topic;
a store without index (``messageIndexEnable`` off) is read through. What may take long is done in
turns: the door is given back in between. Must not know: headers, what the records mean for a
consumer. Read on: ``embedded_broker/store/key_index.py``, ``embedded_broker/api/views/trace.py``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from attrs import define

from embedded_broker.clocks.timeline import Budget
from embedded_broker.core.environment import Environment
from embedded_broker.core.guards import Caller
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.door import Door
from embedded_broker.tables.topics.table import TopicTable
from rocketmq_py.protocol.handles import decode_offset_id
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.properties import Prop

_RECORDS_MAX: Final = 100_000
"""Most records looked at for one id or key in one topic, the newest."""

_Item = TypeVar("_Item")
_Seen = TypeVar("_Seen")


class Hits(NamedTuple):
    """Whole records with a key, oldest first, and how far the index has come."""

    records: list[memoryview]
    last_stored_ms: int
    log_end: int


class Found(NamedTuple):
    """The records with an id, oldest first, and in which topics only the index still knows it."""

    records: list[MessageRecord]
    gone_from: list[str]


def in_turns(
    door: Door, items: Iterable[_Item], look: Callable[[_Item], _Seen | None]
) -> list[_Seen]:
    """Look at every item inside the door, which is given back whenever its time is used up.

    What ``look`` makes None is left out. Called outside the door.
    """
    seen: list[_Seen] = []
    waiting = iter(items)
    while True:
        with door.quiet:
            budget = Budget()
            for item in waiting:
                found = look(item)
                if found is not None:
                    seen.append(found)
                if budget.exhausted():
                    break
            else:
                return seen


@define(eq=False, kw_only=True)
class Queries:
    """Finds stored records. The first four are for requests, the others are called outside."""

    _env: Environment
    _topics: TopicTable
    _timer_topic: str

    @property
    def takes_long(self) -> bool:
        """Whether ``places`` must not be called under the door."""
        return self._env.store.index_takes_long

    def places(
        self, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int, *, unique: bool
    ) -> list[int]:
        """Find records by key as the index does: those that share the key's hash are among them.

        ``unique`` says that the key is a UNIQ_KEY. Then the number of hits is the broker's
        (defaultQueryMaxNum), and at most maxMsgsNumBatch in any case (MessageStore.query). The
        range is on store time. Called under the door or, if it takes long, outside.
        """
        most = self._env.store.hits_max(max_num, unique=unique)
        return self._env.store.offsets_of(topic, key, most, begin_ms, end_ms)

    def hits(self, topic: str, key: str, places: Sequence[int]) -> Hits:
        """Show the records of a topic with a key at some places; refuses when there is none."""
        store = self._env.store
        carrying = [at for at in places if _carries(store.queued(at), topic, key)]
        found = store.records_at(carrying)
        if not found:
            raise Refused(Reason.NOT_FOUND, "can not find message, maybe time range not correct")
        return Hits(found, store.last_store_timestamp, store.log.max_offset)

    def at(self, offset: int, caller: Caller) -> memoryview:
        """Show the record that begins at a commit-log offset.

        Refuses when none does, and when its topic is not the caller's to read.
        """
        record, view = self._env.store.queued(offset), self._env.store.read(offset)
        if record is None or view is None:
            raise Refused(Reason.FAILED, f"can not find message by the offset, {offset}")
        caller.demand_to_read(record)
        return view

    def named(self, offset_id: str) -> MessageRecord | None:
        """Give the record that an offset id names; a unique id looks the same and names none."""
        try:
            _, _, log_offset = decode_offset_id(offset_id)
        except ValueError:
            return None
        with self._env.door.quiet:
            record = self._env.store.record(log_offset)
        if record is None or record.offset_msg_id != offset_id.upper():
            return None
        return record

    def of_topic(
        self, topic: str, queues: int, begin: int = 0, end: int | None = None
    ) -> tuple[int, list[MessageRecord]]:
        """Count the messages of a topic's first queues, and give some of them.

        Those from number ``begin`` on to before ``end``, in the order in which they were stored;
        only these are read. What is removed meanwhile is left out.
        """

        def places() -> Iterator[tuple[int, int]]:
            for queue_id in range(queues):
                offset = self._env.store.min_offset(topic, queue_id)
                while offset < self._env.store.max_offset(topic, queue_id):
                    yield queue_id, offset
                    queue = self._env.store.queues.get((topic, queue_id))
                    offset = offset + 1 if queue is None else queue.end_of(offset)

        def look(place: tuple[int, int]) -> tuple[int, int, tuple[int, int]] | None:
            """Give where a record lies, how many messages it has, and its place in the queue."""
            queue, offset = self._env.store.queues.get((topic, place[0])), place[1]
            entry = None if queue is None else queue.entry(offset)
            if queue is None or entry is None or self._env.store.read(entry[0]) is None:
                return None
            return entry[0], queue.end_of(offset) - offset, place

        wanted: list[tuple[slice, tuple[int, int]]] = []
        count = 0
        for _, size, place in sorted(in_turns(self._env.door, places(), look)):
            first, last = max(begin - count, 0), size if end is None else min(end - count, size)
            if first < last:
                wanted.append((slice(first, last), place))
            count += size
        found = in_turns(
            self._env.door, wanted, lambda one: self._env.store.messages(topic, *one[1])[one[0]]
        )
        return count, [record for some in found for record in some]

    def with_id(self, unique_id: str) -> Found:
        """Find every record with this UNIQ_KEY, in all topics."""
        with self._env.door.quiet:
            topics = {*self._topics.names(), *(topic for topic, _ in self._env.store.queues)}
        topics.add(self._timer_topic)
        return self._find(
            topics, unique_id, lambda one: one.properties.get(Prop.UNIQ_KEY) == unique_id
        )

    def with_key(self, topic: str, key: str) -> list[MessageRecord]:
        """Find the records of a topic with this key or unique id, oldest first."""
        return self._find({topic}, key, lambda record: _carries(record, topic, key)).records

    def _find(self, topics: set[str], key: str, carries: Callable[[MessageRecord], bool]) -> Found:
        """Ask the index for a key in some topics, and leave out what only shares its hash."""
        if not self.bring_index_up():
            return Found(self._read_through(carries), [])

        def look(topic: str) -> tuple[str, list[int]]:
            return topic, self._env.store.offsets_of(topic, key, _RECORDS_MAX)

        def read(offset: int) -> MessageRecord | None:
            record = self._env.store.record(offset)
            return record if record is not None and carries(record) else None

        hits = in_turns(self._env.door, sorted(topics), look)
        with self._env.door.quiet:
            low = self._env.store.log.min_offset
        gone_from = [topic for topic, offsets in hits if any(at < low for at in offsets)]
        offsets = {at for _, offsets in hits for at in offsets if at >= low}
        return Found(in_turns(self._env.door, sorted(offsets), read), gone_from)

    def bring_index_up(self) -> bool:
        """Index what was stored since the last time; False for a store without index.

        The long part happens outside the door, as when the flusher does it: the index has a lock.
        """
        index = self._env.store.index
        if index is None:
            return False
        with self._env.door.quiet:
            end = self._env.store.log.max_offset
        index.catch_up(end)
        return True

    def _read_through(self, wanted: Callable[[MessageRecord], bool]) -> list[MessageRecord]:
        """Find records without an index: every record of the log is looked at."""
        with self._env.door.quiet:
            position, end = self._env.store.log.min_offset, self._env.store.log.max_offset
        found: list[MessageRecord] = []
        while position < end:
            with self._env.door.quiet:
                budget = Budget()
                before = position
                for record in self._env.store.scan(position):
                    position = record.commit_log_offset + record.size
                    if wanted(record):
                        found.append(record)
                    if budget.exhausted():
                        break
                else:
                    return found
            if position == before:
                return found
        return found


def _carries(record: MessageRecord | None, topic: str, key: str) -> bool:
    """Say whether a record is one of a topic with a key, and does not only share its hash."""
    if record is None or record.topic != topic:
        return False
    properties = record.properties
    return key in properties.get(Prop.KEYS, "").split() or properties.get(Prop.UNIQ_KEY) == key
