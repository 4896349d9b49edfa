"""The messages that wait at the delay levels: in due order, and counted by topic.

Answers: which of them come next after a given place, and how many go to one topic. Must not know:
how a level delivers. A level is a queue in the order of arrival, so a message behind one that is
due later waits for that one; its due time here says so. Where a page began is kept for each level:
the next one need not begin with the first message. Counting keeps one small number for each
waiting message; what waited before this life is read once, when somebody asks.

Read on: `service.py` for the levels, `timer/listing.py` for what is given.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple, Protocol

from attrs import define, field

from embedded_broker.clocks.timeline import Budget
from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.store.message_run import Arrivals
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.listing import BEFORE_ALL, ListPosition, Pending, Source, Wanted
from rocketmq_py.clock import Clock
from rocketmq_py.protocol.message_codec import MessageRecord, RecordHead
from rocketmq_py.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from rocketmq_py.protocol.properties import Prop

_TRIM_FROM: Final = 4096

_Entry = tuple[int, int]
"""Due time, commit-log offset."""
_Head = tuple[int, int, int]
"""The same, and the level."""


class Levels(Protocol):
    """What a walk asks the levels; `levels.ScheduleMessageService` is one."""

    def waiting_from(self) -> Mapping[int, int]:
        """Give the first queue offset of each level that still waits."""

    def level_deliver_ms(self, level: int, store_timestamp: int) -> int:
        """Give the time of delivery of a message stored now or then."""

    def head_due_ms(self, level: int) -> int | None:
        """Give when the first message of a level goes."""


class LevelStart(NamedTuple):
    """Where a listing behind a place began in the queue of a level, for the next page."""

    after: ListPosition
    head_ms: int | None
    """When the first message of all left."""
    number: int
    due_ms: int
    """When the message before that leaves."""


class LevelSource(Source):
    """What waits at the levels, for one walk; queues are in order already."""

    def __init__(
        self, store: MessageStore, clock: Clock, levels: Levels, starts: dict[int, LevelStart]
    ) -> None:
        super().__init__(store)
        self._store = store
        self._clock = clock
        self._levels = levels
        self._starts = starts

    def turns(self, wanted: Wanted) -> Iterator[Pending | None]:
        """Merge the levels."""
        waiting = sorted(self._levels.waiting_from())
        rows = {level: self._row(level, wanted.after) for level in waiting}
        heads: list[_Head] = []
        for level, row in rows.items():
            first = yield from self._next_of(row)
            if first is not None:
                heads.append((*first, level))
        heapify(heads)
        while heads and heads[0][0] < wanted.before_ms:
            due_ms, offset_py, level = heads[0]
            yield self._pending(due_ms, offset_py, level)
            following = yield from self._next_of(rows[level])
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (*following, level))

    @staticmethod
    def _next_of(row: Iterator[_Entry | None]) -> Generator[None, None, _Entry | None]:
        """Give the next of a level."""
        for entry in row:
            if entry is not None:
                return entry
            yield
        return None

    def _row(self, level: int, after: ListPosition) -> Iterator[_Entry | None]:
        """Give (due, offset) of what waits at a level behind a place; None for the others."""
        queue = self._store.consume_queue(SCHEDULE_TOPIC, level - 1)
        first = self._levels.waiting_from().get(level, 0)
        head_ms = self._levels.head_due_ms(level)
        known = self._starts.get(level)
        is_noted = after == BEFORE_ALL  # who asks for the first one goes through no pages
        index, due_ms = first, 0
        if (
            known is not None
            and known.after <= after
            and first <= known.number
            # A head that is tried again keeps back what was before the place.
            and (head_ms is None or head_ms == known.head_ms or head_ms < known.after.due_ms)
        ):
            index, due_ms = known.number, known.due_ms
        while queue is not None and index < queue.max_offset:
            entry, before_ms = queue.entry(index), due_ms
            index += 1
            if entry is None:
                continue
            offset_py, _, deliver_ms = entry
            if not due_ms and head_ms is not None:
                due_ms = head_ms
            else:
                turn_ms = max(due_ms, self._clock.now_ms)
                if deliver_ms > self._levels.level_deliver_ms(level, turn_ms):
                    deliver_ms = turn_ms  # too far off for the level when its turn comes
                due_ms = max(due_ms, deliver_ms)
            if (due_ms, offset_py) <= after:
                yield None
                continue
            if not is_noted:
                self._starts[level] = LevelStart(after, head_ms, index - 1, before_ms)
                is_noted = True
            yield due_ms, offset_py
        if not is_noted:
            self._starts[level] = LevelStart(after, head_ms, index, due_ms)

    def _pending(self, due_ms: int, offset_py: int, level: int) -> Pending | None:
        """Describe a message, if it waits still and goes anywhere."""
        record = self._record(offset_py)
        if record is None or record.queue_offset < self._levels.waiting_from().get(level, 0):
            return None
        if record.properties.get(Prop.REAL_TOPIC, HALF_TOPIC) == HALF_TOPIC:
            return None
        return Pending(
            due_ms=due_ms,
            root=offset_py,
            accepted_ms=record.store_timestamp,
            stored=RecordHead.of(record),
            reader=lambda stored: self._record(stored.commit_log_offset),
        )

    def _record(self, offset_py: int) -> MessageRecord | None:
        record = self._store.record(offset_py)
        return None if record is None or record.topic != SCHEDULE_TOPIC else record


@define(slots=True, eq=False)
class _Row:
    """The topics of one level's messages, as numbers, from queue offset `first` on."""

    first: int
    topics: array[int] = field(factory=lambda: array("i"))
    older_from: int = 0
    older: array[int] = field(factory=lambda: array("i"))
    """What waited before this life, as far as it was read: from `older_from` up to `first`."""

    @property
    def read_to(self) -> int:
        """The first queue offset of a former life that was not read."""
        return self.older_from + len(self.older)


class LevelTally:
    """How many messages of each topic wait at the levels.

    `offsets` gives the next queue offset of every level that has delivered or holds something.
    """

    def __init__(self, store: MessageStore, offsets: Callable[[], Mapping[int, int]]) -> None:
        self._store = store
        self._offsets = offsets
        self._rows: dict[int, _Row] = {}
        self._numbers: dict[str, int] = {}
        self._counts: list[int] = []

    def on_arrival(self, arrivals: Arrivals) -> None:
        """Count messages that were just accepted."""
        if arrivals.topic != SCHEDULE_TOPIC:
            return
        level = arrivals.queue_id + 1
        row = self._row(level, arrivals.queue_offset)
        for arrival in arrivals.each():
            number = self._number(arrival.properties.get(Prop.REAL_TOPIC, ""))
            row.topics.append(number)
            self._counts[number] += 1
        if len(row.topics) >= _TRIM_FROM and not len(row.topics) % _TRIM_FROM:
            self._leave(row, self._offsets().get(level, 0))

    def work(self, budget: Budget) -> bool:
        """Read what waited before this life; True when nothing is left of it."""
        for level, offset in self._offsets().items():
            queue = self._store.consume_queue(SCHEDULE_TOPIC, level - 1)
            if queue is None:
                continue
            row = self._row(level, queue.max_offset)
            if offset < row.first and not self._read_older(row, queue, offset, budget):
                return False
        return True

    def count(self, topic: str) -> int:
        """How many wait for this topic; exact once `work` has said True."""
        for level, offset in self._offsets().items():
            row = self._rows.get(level)
            if row is not None:
                self._leave(row, offset)
        number = self._numbers.get(topic)
        return 0 if number is None else self._counts[number]

    def _row(self, level: int, first: int) -> _Row:
        row = self._rows.get(level)
        if row is None:
            row = self._rows[level] = _Row(first)
        return row

    def _number(self, topic: str) -> int:
        number = self._numbers.get(topic)
        if number is None:
            number = self._numbers[topic] = len(self._counts)
            self._counts.append(0)
        return number

    def _read_older(self, row: _Row, queue: ConsumeQueue, offset: int, budget: Budget) -> bool:
        if not row.older:
            row.older_from = offset
        while row.read_to < row.first:
            entry = queue.entry(row.read_to)
            record = None if entry is None else self._store.record(entry[0])
            topic = "" if record is None else record.properties.get(Prop.REAL_TOPIC, "")
            row.older.append(self._number(topic))
            if budget.exhausted():
                return False
        for number in row.older:
            self._counts[number] += 1
        row.topics = row.older + row.topics
        row.first, row.older = row.older_from, array("i")
        return True

    def _leave(self, row: _Row, offset: int) -> None:
        """Take what a level has delivered out of the counts."""
        gone = min(max(0, offset - row.first), len(row.topics))
        for number in row.topics[:gone]:
            self._counts[number] -= 1
        if gone:
            del row.topics[:gone]
            row.first += gone
