"""What a pop gets: messages of any queue, hidden from its group until they are acked or come back.

RocketMQ's PopMessageProcessor, PeekMessageProcessor and NotificationProcessor. A pop walks the
queues of a topic, beginning anywhere, and in a fifth of the cases what came back first; else that
fills up. Each queue that gives something gets a check point (`revive.py`), or for an ordered pop a
block (`ordered.py`), and the group's offset moves on at once: what is hidden does not depend on it.
A pop that finds nothing waits at all these queues (`core/waiters.py`), at those of the retry topic
as well; there the original looks only when a waiting time ends. Must not know: headers, handles.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from struct import Struct
from typing import Final, NamedTuple

from attrs import define, evolve, field

from embedded_broker.clocks.session import Session
from embedded_broker.core.filters import Filter, Filters
from embedded_broker.core.pop.checks import PopChecks
from embedded_broker.core.pop.ordered import OrderedPops
from embedded_broker.core.pop.revive import ReviveService
from embedded_broker.core.pop.revive_log import PopKey, check_invisible
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.statistics import Statistics
from embedded_broker.core.waiters import Waiter, Waiters
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.pull import GetResult, GetStatus
from embedded_broker.tables.offsets.deliveries import DeliveryLog
from embedded_broker.tables.offsets.orders import OrderBlock, spans_of
from embedded_broker.tables.offsets.table import NOT_STORED, OffsetTable
from embedded_broker.tables.peer import Peer
from embedded_broker.tables.topics.table import TopicTable
from rocketmq_py.clock import Clock
from rocketmq_py.protocol.bodies.pop import CheckPoint
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.message_codec import decode_record, encode_neighbours
from rocketmq_py.protocol.names import is_retry_topic
from rocketmq_py.protocol.pop_handles import (
    ORDERED_REVIVE_QUEUE,
    OrderCount,
    PopHandle,
    PopPortion,
    pop_retry_topic,
    retry_flag,
)
from rocketmq_py.protocol.properties import Prop, encode_properties

logger = logging.getLogger(__name__)

ANY_QUEUE: Final = -1
LOOKS_AT_ONCE: Final = 16
"""So many pieces of a queue without a wanted message are passed in one hold of the door."""
_WRONG_OFFSET: Final = frozenset({GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY})
_PASSED_OVER: Final = frozenset({GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING})
_RECORD_HEAD: Final = Struct(">i16xq")
"""Size and queue offset of a record."""


@define(slots=True, eq=False)
class Pop:
    """What is asked for: at most `max_count` messages of a queue, or of any.

    A new group begins with the first message there is, or with `from_last` at the end. `expression`
    is of tags unless `expression_type` says otherwise; None means every message. `wait_ms`: how
    long to wait for a message, 0 not at all. Ordered pops of one `attempt_id` get the same block.
    """

    peer: Peer
    group: str
    topic: str
    queue_id: int
    max_count: int
    invisible_ms: int
    wait_ms: int = 0
    from_last: bool = False
    expression: str | None = None
    expression_type: str | None = None
    is_ordered: bool = False
    attempt_id: str | None = None


@define(slots=True, eq=False)
class Popped:
    """What was found: records, from which queues, and how many messages are left.

    Nothing was found without `portions`; `is_full` says that there were too many to wait as well.
    """

    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    left: int = 0
    buffers: list[memoryview | bytes] = field(factory=list)
    count: int = 0
    portions: list[PopPortion] = field(factory=list)
    order_counts: list[OrderCount] = field(factory=list)
    is_full: bool = False
    has_passed: bool = False
    """Whether messages were passed over that nobody wants, and more may follow."""


class Notice(NamedTuple):
    """Whether a pop would find something; `is_full`: there were too many to wait for that."""

    has_message: bool
    is_full: bool = False


Reply = Callable[[Popped | Refused], None]
"""Told once how a pop ended that had to wait."""


@define(eq=False, kw_only=True)
class Taking:
    """Hands out messages and hides them. Used under the door."""

    _config: BrokerConfig
    _clock: Clock
    _session: Session
    _random: Random
    _store: MessageStore
    _topics: TopicTable
    _offsets: OffsetTable
    _deliveries: DeliveryLog
    _statistics: Statistics
    _checks: PopChecks
    _filters: Filters
    waiters: Waiters
    revive: ReviveService
    ordered: OrderedPops
    heir: "Taking | None" = field(default=None, init=False)
    """The state that is asked from now on, after a reset."""

    # --- pop -------------------------------------------------------------------------------

    def pop(self, pop: Pop, reply: Reply) -> Popped | None:
        """Give messages, or say that there are none; None: `reply` is told later."""
        popped, wanted = self._look(pop)
        if popped.count or pop.wait_ms <= 0:
            return popped
        answer = partial(self._look_again, pop, reply)
        waiter = Waiter(pop.peer, pop.group, self._places(pop), wanted, answer)
        waiter.place = _place(pop.group, pop.topic, pop.queue_id)
        if not self._has_room(waiter.place) or not self.waiters.add(waiter, pop.wait_ms):
            popped.is_full = True
            return popped
        if popped.has_passed:
            self._go_on_soon(pop)
        return None

    def waiting(self, group: str, topic: str, queue_id: int, peer: Peer) -> int:
        """Say how many pops of a group wait that named this queue, or any."""
        self._checks.broker("peeking")
        self._checks.source(topic, queue_id, group, peer)
        return self.waiters.count_at(_place(group, topic, queue_id))

    def _has_room(self, place: str) -> bool:
        config, waiters = self._config, self.waiters
        return waiters.count_at(place) <= config.int("popPollingSize") and len(
            waiters
        ) < config.int("maxPopPollingSize")

    def _look(self, pop: Pop) -> tuple[Popped, Filter | None]:
        """Check a pop and take what there is."""
        checks = self._checks
        checks.broker("pop")
        checks.count(pop.max_count)
        checks.timers()
        topic = checks.source(pop.topic, pop.queue_id, pop.group, pop.peer)
        wanted = self._wanted(pop)
        revive_queue = ORDERED_REVIVE_QUEUE if pop.is_ordered else self.revive.next_queue()
        popped = Popped(self._clock.now_ms, pop.invisible_ms, revive_queue)
        check_invisible(pop.invisible_ms, popped.pop_time_ms)
        for name, queue_id in self._walk(pop, topic, popped):
            self._take_from(name, queue_id, pop, popped, wanted)
        return popped, wanted

    def _wanted(self, pop: Pop) -> Filter | None:
        if not pop.expression:
            return None
        try:
            return self._filters.of(pop.expression_type, pop.expression)
        except Refused as refused:
            remark = f"parse the consumer's subscription failed: {refused.remark}"
            raise Refused(Reason.SUBSCRIPTION_PARSE_FAILED, remark) from refused

    def _walk(self, pop: Pop, topic: TopicConfig, popped: Popped) -> Iterator[tuple[str, int]]:
        """Give the queues in the order in which a pop looks at them.

        In one answer messages of one retry topic only can be told apart from the others, so a
        broker with both kinds chooses one.
        """
        turn = self._random.randrange(100)
        retries_first = turn < self._config.int("popFromRetryProbability")
        retry_topic = self._retry_topic(pop, turn)
        if retries_first and not pop.is_ordered:
            yield from self._queues(retry_topic, turn)
        if pop.queue_id < 0:
            yield from self._queues(topic.topic_name, turn)
        else:
            yield topic.topic_name, pop.queue_id
        if not retries_first and not pop.is_ordered and popped.count < pop.max_count:
            yield from self._queues(retry_topic, turn)

    def _retry_topic(self, pop: Pop, turn: int) -> str:
        v2 = self._config.flag("enableRetryTopicV2")
        if v2 and self._config.flag("retrieveMessageFromPopRetryTopicV1") and turn % 2 == 0:
            v2 = False
        return pop_retry_topic(pop.topic, pop.group, v2=v2)

    def _queues(self, name: str, turn: int) -> Iterator[tuple[str, int]]:
        topic = self._topics.get(name)
        queues = 0 if topic is None else topic.read_queue_nums
        for number in range(queues):
            yield name, (turn + number) % queues

    # --- one queue -------------------------------------------------------------------------

    def _take_from(
        self, topic: str, queue_id: int, pop: Pop, popped: Popped, wanted: Filter | None
    ) -> None:
        """Take what one queue has for a pop that has room for more."""
        store, group = self._store, pop.group
        offset = self._begin(topic, queue_id, pop)
        if pop.is_ordered and self.ordered.is_blocked(group, topic, queue_id, pop.attempt_id):
            return
        room = pop.max_count - popped.count
        if room <= 0 or not self._has_name(topic, queue_id, offset, pop, popped):
            popped.left += max(store.max_offset(topic, queue_id) - offset, 0)
            return
        found = store.get(topic, queue_id, offset, room, wanted=wanted)
        if found.status in _WRONG_OFFSET:
            offset = found.next_begin_offset
            self._offsets.commit(group, topic, queue_id, offset)
            found = store.get(topic, queue_id, offset, room, wanted=wanted)
        if found.count:
            offsets = [at for buffer in found.buffers for at in _queue_offsets(buffer)]
            portion = PopPortion(topic, queue_id, offset, offsets)
            if not self._hide(portion, found, pop, popped):
                popped.left += max(found.max_offset - offset, 0)
                return
            popped.portions.append(portion)
            popped.count += found.count
            popped.buffers += self._records(portion, found, pop, popped)
        elif found.status in _PASSED_OVER:
            self._offsets.commit(group, topic, queue_id, found.next_begin_offset)
            popped.has_passed |= found.next_begin_offset < found.max_offset
        popped.left += max(found.max_offset - found.next_begin_offset, 0)
        self._statistics.note_pull(group, topic, found.count, found.size)
        self._deliveries.handed_out(
            group, topic, queue_id, offset, max(found.next_begin_offset, offset), found.count
        )

    def _begin(self, topic: str, queue_id: int, pop: Pop) -> int:
        """Give the offset at which a group goes on; a new group's is chosen and committed."""
        group = pop.group
        offset = self._offsets.query(group, topic, queue_id)
        reset = self._offsets.take_reset(group, topic, queue_id)
        if reset is not None:
            self.ordered.table.clear(group, topic, queue_id)
            self._offsets.commit(group, topic, queue_id, reset)
            return reset
        if offset == NOT_STORED:
            offset = self._first(topic, queue_id, pop)
            self._offsets.commit(group, topic, queue_id, offset)
        return offset

    def _first(self, topic: str, queue_id: int, pop: Pop) -> int:
        """Give where a new group begins; at the end still with the last message (getInitOffset).

        A queue whose first message was never removed is read from the begin even then, unless
        initPopOffsetByCheckMsgInMem is off: all of it is in memory.
        """
        low = self._store.min_offset(topic, queue_id)
        if not pop.from_last or is_retry_topic(topic):
            return low
        high = self._store.max_offset(topic, queue_id)
        if low <= 0 < high and self._config.flag("initPopOffsetByCheckMsgInMem"):
            return 0
        return max(high - 1, 0)

    def _has_name(self, topic: str, queue_id: int, offset: int, pop: Pop, popped: Popped) -> bool:
        """Whether a check point that begins here would have a name of its own.

        On a clock that stands still a second pop from the same offset has the time of the first. It
        is then a millisecond later, unless the time is that of other messages already.
        """
        if pop.is_ordered:
            return True
        name = PopKey(
            topic, pop.group, queue_id, offset, popped.pop_time_ms, self.revive.broker_name
        )
        while self.revive.is_taken(name):
            if popped.portions:
                return False
            popped.pop_time_ms += 1
            popped.invisible_ms -= 1
            name = name._replace(pop_time_ms=popped.pop_time_ms)
        return True

    def _hide(self, portion: PopPortion, found: GetResult, pop: Pop, popped: Popped) -> bool:
        """Hide what was found; False if that failed and other messages are hidden already.

        Refused when it failed and nothing is: then nothing is handed out at all.
        """
        topic, queue_id, start, offsets = portion
        if pop.is_ordered:
            block = OrderBlock(
                pop_time_ms=popped.pop_time_ms,
                invisible_ms=popped.invisible_ms,
                spans=spans_of(offsets),
                last_ms=popped.pop_time_ms,
                attempt_id=pop.attempt_id,
            )
            block = self.ordered.hand_out(pop.group, topic, queue_id, block)
            popped.order_counts += _counts(topic, queue_id, block)
            self._offsets.commit(pop.group, topic, queue_id, start)
            return True
        point = CheckPoint(
            broker_name=self.revive.broker_name,
            group=pop.group,
            diffs=[offset - start for offset in offsets],
            invisible_ms=popped.invisible_ms,
            count=len(offsets),
            pop_time_ms=popped.pop_time_ms,
            queue_id=queue_id,
            start_offset=start,
            topic=topic,
        )
        try:
            self.revive.hide(point, popped.revive_queue)
        except Refused:
            if popped.portions:
                return False
            raise
        self._offsets.commit(pop.group, topic, queue_id, found.next_begin_offset)
        return True

    def _records(
        self, portion: PopPortion, found: GetResult, pop: Pop, popped: Popped
    ) -> list[memoryview | bytes]:
        """Give the records as they are handed out.

        What came back has its first topic again, and its handle: the client could not make it.
        """
        is_own = portion.topic == pop.topic
        if is_own or self._config.flag("popResponseReturnActualRetryTopic"):
            return [*found.buffers]
        handle = PopHandle(
            portion.start_offset,
            popped.pop_time_ms,
            popped.invisible_ms,
            popped.revive_queue,
            retry_flag(portion.topic),
            self.revive.broker_name,
            portion.queue_id,
        )
        return [
            _renamed(record, pop.topic, handle)
            for buffer in found.buffers
            for record in _split(buffer)
        ]

    # --- waiting ---------------------------------------------------------------------------

    def _places(self, pop: Pop) -> Mapping[tuple[str, int], int]:
        """Give the queues at which a pop waits, whatever lies there."""
        topic = self._topics.get(pop.topic)
        queues = 0 if topic is None else topic.read_queue_nums
        wanted = range(queues) if pop.queue_id < 0 else [pop.queue_id]
        places = {(pop.topic, queue_id): 0 for queue_id in wanted}
        if not pop.is_ordered:
            for v2 in (False, True):
                name = pop_retry_topic(pop.topic, pop.group, v2=v2)
                retries = self._topics.get(name)
                for queue_id in range(1 if retries is None else retries.read_queue_nums):
                    places[name, queue_id] = 0
        return places

    def _go_on_soon(self, pop: Pop) -> None:
        """Ask a pop again after others had their turn: it has only passed messages over."""
        queue_id = max(pop.queue_id, 0)
        self._session.after(
            0, lambda: self.waiters.wake(pop.group, pop.topic, queue_id, is_over=False), "pop"
        )

    def _look_again(self, pop: Pop, reply: Reply, is_over: bool) -> bool:
        """Answer a pop that waited; false when nothing was found, and it may wait on."""
        outcome: Popped | Refused | None
        try:
            if self.heir is not None:
                outcome = self.heir.pop(pop, reply)
            else:
                outcome, _ = self._look(pop)
                for _ in range(LOOKS_AT_ONCE):
                    if outcome.count or not outcome.has_passed:
                        break
                    outcome, _ = self._look(pop)
                if not outcome.count and not is_over:
                    if outcome.has_passed:
                        self._go_on_soon(pop)
                    return False
        except Refused as refused:
            outcome = refused
        except Exception as error:
            # Whoever happens to leave the door must not suffer; the consumer hears of it.
            logger.exception("a parked pop of %s failed", pop.topic)
            outcome = Refused(Reason.FAILED, f"{type(error).__name__}: {error}")
        if outcome is not None:
            reply(outcome)
        return True

    # --- peek and notification -------------------------------------------------------------

    def peek(self, pop: Pop) -> Popped:
        """Give what a pop would get, without taking it."""
        checks = self._checks
        checks.broker("peeking")
        topic = checks.source(pop.topic, pop.queue_id, pop.group, pop.peer)
        peeked = Popped(0, 0, 0)
        for name, queue_id in self._walk(pop, topic, peeked):
            offset = self._next(pop.group, name, queue_id)
            peeked.left += max(self._store.max_offset(name, queue_id) - offset, 0)
            room = pop.max_count - peeked.count
            if room <= 0:
                continue
            found = self._store.get(name, queue_id, offset, room)
            if found.status in _WRONG_OFFSET:
                found = self._store.get(name, queue_id, found.next_begin_offset, room)
            peeked.buffers += found.buffers
            peeked.count += found.count
        return peeked

    def has_message(self, pop: Pop) -> bool:
        """Say whether a pop would find a message, wanted or not."""
        checks = self._checks
        checks.broker("peeking")
        topic = checks.source(pop.topic, pop.queue_id, pop.group, pop.peer)
        return any(
            self._store.max_offset(name, queue_id) > self._next(pop.group, name, queue_id)
            and not (
                pop.is_ordered
                and self.ordered.is_blocked(pop.group, name, queue_id, pop.attempt_id)
            )
            for name, queue_id in self._walk(pop, topic, Popped(0, 0, 0))
        )

    def notify(self, pop: Pop, reply: Callable[[Notice | Refused], None]) -> Notice | None:
        """Say whether there is a message; None: `reply` is told when there is, or in the end."""
        if self.has_message(pop):
            return Notice(has_message=True)
        if pop.wait_ms <= 0:
            return Notice(has_message=False)

        def answer(is_over: bool) -> bool:
            try:
                there = (self.heir or self).has_message(pop)
            except Refused as refused:
                reply(refused)
                return True
            if there or is_over:
                reply(Notice(has_message=there))
            return there or is_over

        waiter = Waiter(pop.peer, pop.group, self._places(pop), None, answer)
        if self._has_room("") and self.waiters.add(waiter, pop.wait_ms):
            return None
        return Notice(has_message=False, is_full=True)

    def _next(self, group: str, topic: str, queue_id: int) -> int:
        offset = self._offsets.query(group, topic, queue_id)
        return self._store.min_offset(topic, queue_id) if offset == NOT_STORED else offset


def _place(group: str, topic: str, queue_id: int) -> str:
    """Name where pops of a group wait together (KeyBuilder.buildPollingKey)."""
    return f"{topic}@{group}@{max(queue_id, ANY_QUEUE)}"


def _split(buffer: memoryview) -> Iterator[memoryview]:
    """Give the records that lie back to back in a buffer."""
    begin = 0
    while begin < len(buffer):
        size, _ = _RECORD_HEAD.unpack_from(buffer, begin)
        yield buffer[begin : begin + size]
        begin += size


def _queue_offsets(buffer: memoryview) -> Iterator[int]:
    for record in _split(buffer):
        yield _RECORD_HEAD.unpack_from(record)[1]


def _renamed(data: memoryview, topic: str, handle: PopHandle) -> bytes:
    """Write a record anew under another topic, with its handle as a property."""
    record = decode_record(data, check_crc=False)
    own = handle._replace(offset=record.queue_offset)
    properties = {Prop.POP_CK: own.text()} | record.properties
    item = (record.flag, record.born_timestamp, record.body, encode_properties(properties), 0)
    renamed, _ = encode_neighbours(
        [item],
        evolve(record, topic=topic),
        record.queue_offset,
        record.commit_log_offset,
        record.store_timestamp,
        record.store_host,
    )
    return renamed


def _counts(topic: str, queue_id: int, block: OrderBlock) -> list[OrderCount]:
    """Give how often messages of a block were handed out before; of the least often for all."""
    handed = block.handed or {}
    counts = [OrderCount(topic, queue_id, offset, number) for offset, number in handed.items()]
    least = min(handed.values(), default=0) if len(handed) == len(block.spans) else 0
    return [*counts, OrderCount(topic, queue_id, None, least)]
