"""Transaction service: which are open, when a producer is asked, and how they end.

RocketMQ's TransactionalMessageServiceImpl and TransactionalMessageCheckService, without rounds: a
half message is due at its own time on the message clock, `transactionTimeOut` after it was stored
(or after its own CHECK_IMMUNITY_TIME_IN_SECONDS, if that is positive), then every
`transactionCheckInterval`. A check stores the half message again and sends request 39 to one live
producer of its group; after `transactionCheckMax` of them it is parked in
TRANS_CHECK_MAX_TIME_TOPIC. Ages count from store time, not from the sender's clock.

What is open is known from the store alone: half messages behind the committed offset of
CID_RMQ_SYS_TRANS without a removal mark. Offsets and marks are the original's, so a real broker
and this one can take over from each other. Must not know: requests, who sent what. Runs under the
door.

Read on: `half.py` for the messages, `ending.py` for how they end.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final, NamedTuple

from attrs import define, field

from embedded_broker.clocks.clock import BrokerClock
from embedded_broker.clocks.timeline import UNRANKED, Alarm, Budget, Deadline
from embedded_broker.core.client_calls import CheckTransaction, ClientCalls
from embedded_broker.core.environment import Environment
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.statistics import Histogram
from embedded_broker.core.transactions.half import (
    check_body,
    check_times,
    copy_for_check,
    custom_immunity_ms,
    immune_offset,
    parked,
    removal_mark,
    removed_offsets,
    replaced_offset,
    resumed,
)
from embedded_broker.store.message_run import Arrival, Arrivals
from embedded_broker.store.put_values import InnerMessage, PutResult, PutStatus
from embedded_broker.store.queue_names import destination
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.peer import Peer
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.codes import MQVersion
from rocketmq_py.protocol.handles import encode_offset_id
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    TRANS_GROUP,
)
from rocketmq_py.protocol.properties import Prop

logger = get_logger(__name__)

WHAT: Final = "transaction check"
HOUR_MS: Final = 3_600_000
PROGRESS_EVERY_MARKS: Final = 256
"""Removal marks between two points to which the committed offset of the marks can move."""
MARKS_AT_ONCE: Final = 256
"""Removal marks that are missing and written by one call, at most: the door waits for them."""
SWEEP_FROM: Final = 64
FINISHED_BOUNDS_S: Final = (5, 60, 600, 3600, 12 * 3600, 24 * 3600)


class OpenHalf(NamedTuple):
    """A half message without an end: where it lies, how often its producer was asked."""

    offset_py: int
    checks: int
    stored_ms: int
    immunity_ms: int | None
    since_ms: int
    """When its first copy was stored, as far as this process knows."""
    unique_key: str


class Progress(NamedTuple):
    """Everything before these two queue offsets is done; durable once the log is up to an end."""

    half_offset: int
    mark_offset: int
    log_end: int


@define(eq=False, kw_only=True, slots=False)
class TransactionalMessageService:
    """The open transactions of one broker; a `DeadlineSource`.

    Make it when the store and the tables are loaded, then `load`. `end_jump` is to be called when a
    jump of the clock has ended, and `save_last_progress` before the offsets are written to their
    file for the last time. `counters` says how often something happened: ``checked``, ``no
    producer``, ``parked``, ``unreadable``, ``put failed``.
    """

    _env: Environment
    _tables: Tables
    _calls: ClientCalls
    counters: Counter[str] = field(factory=Counter, init=False)
    finished: Histogram = field(init=False)
    """How long producers took to end their transactions."""
    alarm: Alarm = field(factory=Alarm, init=False)
    _open: OrderedDict[int, OpenHalf] = field(factory=OrderedDict, init=False)
    _keys: dict[str, int] = field(factory=dict, init=False)
    """The open half message of each UNIQ_KEY, the latest of several."""
    _heap: list[tuple[int, int]] = field(factory=list, init=False)
    _asked_in_jump: list[int] = field(factory=list, init=False)
    _asks_in_jump: bool = field(default=False, init=False)
    _known_as: dict[int, int] = field(factory=dict, init=False)
    _unmarked: dict[int, int] = field(factory=dict, init=False)
    """Open half messages that have ended though their mark found no room, and the offset for it.

    Nobody is asked about these again: what was delivered would be delivered twice.
    """
    _since_ms: int | None = field(default=None, init=False)
    _turn: int = field(default=0, init=False)
    _mark_points: deque[tuple[int, int]] = field(factory=deque, init=False)
    _marks_seen: int = field(default=0, init=False)
    _highest_marked: int = field(default=-1, init=False)
    _captured: Progress | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.finished = Histogram(FINISHED_BOUNDS_S)
        self._read_settings(frozenset())

    # --- life ------------------------------------------------------------------------------

    def load(self) -> None:
        """Find the open transactions in the store, and listen from now on."""
        found = self._read_halves(self._read_marks())
        for offset, half in found.items():
            self._note(offset, half)
            self._push(self._due_ms(half), offset)
        self._known_as = {old: new for old, new in self._known_as.items() if new in found}
        self._env.store.listen(HALF_TOPIC, self._on_arrival)
        self._env.config.on_change(self._read_settings)
        self._env.session.every(
            self._env.config.int("flushConsumerOffsetInterval"), self._save_progress
        )

    def _read_halves(self, removed: set[int]) -> dict[int, OpenHalf]:
        """Give the half messages that have neither a removal mark nor a newer copy."""
        store = self._env.store
        found: dict[int, OpenHalf] = {}
        queue = store.consume_queue(HALF_TOPIC, 0)
        if queue is None:
            return found
        for offset, (offset_py, _, _) in queue.iterate(self._committed(HALF_TOPIC)):
            record = store.record(offset_py)
            if record is None:
                continue
            properties, stored_ms = record.properties, record.store_timestamp
            former = replaced_offset(properties)
            if former is not None:
                found.pop(former, None)
            first = immune_offset(properties)
            if first is not None:
                found.pop(self._known_as.get(first, first), None)
                self._known_as[first] = offset
            if offset not in removed and first not in removed:
                found[offset] = _open_half(offset_py, stored_ms, properties, stored_ms)
        return found

    def count(self) -> int:
        """How many transactions are open."""
        return len(self._open) - len(self._unmarked)

    def needed_offset(self) -> int | None:
        """Give the commit-log offset of the oldest open half message; None without any."""
        return next((half.offset_py for half in self._open.values()), None)

    # --- half messages come in -------------------------------------------------------------

    def _on_arrival(self, arrivals: Arrivals) -> None:
        if arrivals.topic == HALF_TOPIC and arrivals.queue_id == 0:
            for arrival in arrivals.each():
                self._note_half(arrival)

    def _note_half(self, arrival: Arrival) -> None:
        """Note a half message, a producer's or a copy that a check made."""
        stored_ms = arrival.store_timestamp
        half = _open_half(
            arrival.commit_log_offset,
            stored_ms,
            arrival.properties,
            stored_ms if self._since_ms is None else self._since_ms,
        )
        self._note(arrival.queue_offset, half)
        if self._asks_in_jump:
            self._asked_in_jump.append(arrival.queue_offset)
        else:
            self._push(self._due_ms(half), arrival.queue_offset)

    def _note(self, offset: int, half: OpenHalf) -> None:
        self._open[offset] = half
        if half.unique_key:
            self._keys[half.unique_key] = offset

    def _forget(self, offset: int) -> None:
        """Forget a half message that has ended, or has a newer copy."""
        half = self._open.pop(offset, None)
        if half is not None and self._keys.get(half.unique_key) == offset:
            del self._keys[half.unique_key]

    def _due_ms(self, half: OpenHalf) -> int:
        if half.checks:
            return half.stored_ms + self._interval_ms
        wait_ms = self._timeout_ms if half.immunity_ms is None else half.immunity_ms
        return half.stored_ms + wait_ms

    def _push(self, due_ms: int, offset: int) -> None:
        heap = self._heap
        if len(heap) > SWEEP_FROM and len(heap) > 2 * len(self._open):
            heap[:] = [entry for entry in heap if entry[1] in self._open]
            heapify(heap)
        heappush(heap, (due_ms, offset))
        self.alarm.ring(due_ms)

    # --- half messages end -----------------------------------------------------------------

    def find(self, commit_log_offset: int) -> MessageRecord | None:
        """Read the half message at an offset; None when no half message begins there."""
        record = self._env.store.queued(commit_log_offset)
        return record if record is not None and record.topic == HALF_TOPIC else None

    def find_open(self, unique_key: str) -> MessageRecord | None:
        """Read the open half message with this UNIQ_KEY; None when there is none."""
        offset = self._keys.get(unique_key)
        if offset is None or not self._waits(offset):
            return None
        return self.find(self._open[offset].offset_py)

    def resume(self, commit_log_offset: int, demand: Callable[[MessageRecord], None]) -> None:
        """Ask again about a half message that was given up; refuses what is none.

        ``demand`` refuses one that somebody has no right to.
        """
        record = self._env.store.queued(commit_log_offset)
        if record is None or destination(record.properties) is None:
            raise Refused(
                Reason.FAILED, f"no half message is at commit log offset {commit_log_offset}"
            )
        demand(record)
        if not self._put(resumed(record)).ok:
            raise Refused(Reason.FAILED, f"Put message back to {HALF_TOPIC} failed.")

    def is_open(self, queue_offset: int) -> bool:
        """Say whether the half message at this offset still waits for its end."""
        return self._waits(self._known_as.get(queue_offset, queue_offset))

    def _waits(self, offset: int) -> bool:
        return offset in self._open and offset not in self._unmarked

    def remove(self, queue_offset: int) -> None:
        """End a half message by a removal mark; one that cannot be stored is stored later."""
        current = self._known_as.get(queue_offset, queue_offset)
        if self._waits(current):
            age_ms = self._env.clock.now_ms - self._open[current].since_ms
            self.finished.observe(age_ms / 1000)
        self._end(current, queue_offset)

    def _end(self, current: int, queue_offset: int) -> None:
        if self._mark(queue_offset):
            self._write_missing_marks()
        elif current in self._open:
            self._unmarked[current] = queue_offset

    def _write_missing_marks(self) -> None:
        """Write the marks that found no room, now that there may be some."""
        for queue_offset in [*islice(self._unmarked.values(), MARKS_AT_ONCE)]:
            if not self._mark(queue_offset):
                return

    def _mark(self, queue_offset: int) -> bool:
        """Store the removal mark of a half message; False when that failed."""
        offsets = [queue_offset]
        if queue_offset in self._known_as:
            offsets.append(self._known_as[queue_offset])
        mark = removal_mark(
            tuple(offsets),
            with_separator=self._env.profile.version >= MQVersion.V5_0_0,
            now_ms=self._env.clock.now_ms,
            born_host=self._env.store.store_host,
        )
        self._tables.topics.ensure(OP_HALF_TOPIC, 1)
        result = self._put(mark)
        if not result.ok:
            return False
        self._known_as.pop(queue_offset, None)
        for offset in offsets:
            self._forget(offset)
            self._unmarked.pop(offset, None)
        self._pass_mark(result.queue_offset, max(offsets))
        return True

    # --- time ------------------------------------------------------------------------------

    def next_deadline(self) -> Deadline | None:
        """When the next producer is asked about its transaction."""
        if self._asked_in_jump and not self._jumping:
            self.end_jump()
        heap = self._heap
        while heap and not self._waits(heap[0][1]):
            heappop(heap)
        return Deadline(heap[0][0], WHAT) if heap else None

    def head_rank(self, due_ms: int) -> int:
        """Give the commit-log offset of the half message that is asked about first."""
        heap = self._heap
        half = self._open.get(heap[0][1]) if heap and heap[0][0] == due_ms else None
        return UNRANKED if half is None else half.offset_py

    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:  # noqa: ARG002
        """Ask about what is due, in due order; gives the number of checks and parked messages."""
        fired = 0
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            offset = heappop(heap)[1]
            half = self._open.get(offset)
            if half is None or offset in self._unmarked:
                continue
            fired += self._check(offset, half, now_ms)
            if budget.exhausted():
                break
        return fired

    def _check(self, offset: int, half: OpenHalf, now_ms: int) -> bool:
        """Ask about one transaction, or give it up; a put that fails is tried again later."""
        record = self.find(half.offset_py)
        if record is None:
            self.counters["unreadable"] += 1
            logger.warning("half message %d is no longer in the log: it is given up", offset)
            self._forget(offset)
            return False
        if half.checks >= self._check_max or self._age_ms(half, now_ms) > self._reserved_ms:
            return self._park(offset, record, now_ms)
        group = record.properties.get(Prop.PGROUP, "")
        where = destination(record.properties)
        producer = self._next_producer(group, HALF_TOPIC if where is None else where[0])
        copy = copy_for_check(record)
        # Within one jump of the clock a live producer is asked once: it could not have answered.
        self._asks_in_jump = producer is not None and self._jumping
        self._since_ms = half.since_ms
        try:
            result = self._put(copy)
        finally:
            self._asks_in_jump, self._since_ms = False, None
        if not result.ok:
            self._push(now_ms + self._interval_ms, offset)
            return False
        self._forget(offset)
        if producer is None:
            self.counters["no producer"] += 1
            return True
        self.counters["checked"] += 1
        self._ask(producer, copy, result)
        return True

    def _ask(self, producer: Peer, copy: InnerMessage, result: PutResult) -> None:
        """Send request 39 about the copy that was just stored."""
        store_host = self._env.store.store_host
        call = CheckTransaction(
            queue_offset=result.queue_offset,
            commit_log_offset=result.commit_log_offset,
            unique_key=copy.properties.get(Prop.UNIQ_KEY),
            offset_id=encode_offset_id(store_host, result.commit_log_offset),
            topic=HALF_TOPIC,
            broker_name=self._env.broker_name,
            record=check_body(
                copy,
                queue_offset=result.queue_offset,
                commit_log_offset=result.commit_log_offset,
                at_ms=result.store_timestamp,
                store_host=store_host,
            ),
        )
        self._calls.ask(producer, call)

    def _next_producer(self, group: str, topic: str) -> Peer | None:
        """Choose a live producer of the group, each in turn (getAvailableChannel).

        Only one whose account may send to the topic: the half message is shown to it.
        """
        live = [
            member.connection
            for member in self._tables.producers.members(group)
            if not member.connection.closed and member.may_publish(topic)
        ]
        if not live:
            return None
        self._turn += 1
        return live[self._turn % len(live)]

    def _park(self, offset: int, record: MessageRecord, now_ms: int) -> bool:
        self._tables.topics.ensure(TRANS_CHECK_MAX_TIME_TOPIC, 1)
        if not self._put(parked(record)).ok:
            self._push(now_ms + self._interval_ms, offset)
            return False
        self._end(offset, offset)
        self.counters["parked"] += 1
        logger.warning(
            "transaction %s of group %s was not ended after %d checks. It was moved to %s",
            record.msg_id,
            record.properties.get(Prop.PGROUP),
            check_times(record.properties),
            TRANS_CHECK_MAX_TIME_TOPIC,
        )
        return True

    def _put(self, msg: InnerMessage) -> PutResult:
        result = self._env.store.put(msg)
        if result.status is not PutStatus.PUT_OK:
            self.counters["put failed"] += 1
            logger.warning("%s: put failed: %s %s", msg.topic, result.status.name, result.remark)
        return result

    def _age_ms(self, half: OpenHalf, now_ms: int) -> int:
        """Give how old the first copy is; a jump of a test's clock makes nothing old."""
        clock = self._env.clock
        if isinstance(clock, BrokerClock):
            return clock.aged_ms(half.since_ms)
        return now_ms - half.since_ms

    @property
    def _jumping(self) -> bool:
        clock = self._env.clock
        return isinstance(clock, BrokerClock) and clock.jumping

    def end_jump(self) -> None:
        """Let what was asked during a jump be asked again, an interval from now at the earliest."""
        asked, self._asked_in_jump = self._asked_in_jump, []
        now_ms = self._env.clock.now_ms
        for offset in asked:
            half = self._open.get(offset)
            if half is not None:
                due_ms = self._due_ms(half)
                self._push(due_ms if due_ms > now_ms else now_ms + self._interval_ms, offset)

    def _read_settings(self, _changed: frozenset[str]) -> None:
        config = self._env.config
        self._timeout_ms = config.int("transactionTimeOut")
        self._interval_ms = config.int("transactionCheckInterval")
        self._check_max = config.int("transactionCheckMax")
        self._reserved_ms = config.int("fileReservedTime") * HOUR_MS
        held = set(self._asked_in_jump)
        self._heap = [
            (self._due_ms(half), offset)
            for offset, half in self._open.items()
            if offset not in held
        ]
        heapify(self._heap)
        self.alarm.ring()

    # --- how far everything is done ----------------------------------------------------------

    def _committed(self, topic: str) -> int:
        """Give where to begin reading a queue: the committed offset, within what there is."""
        low = self._env.store.min_offset(topic, 0)
        offset = self._tables.offsets.query(TRANS_GROUP, topic, 0)
        return max(low, min(offset, self._env.store.max_offset(topic, 0)))

    def _read_marks(self) -> set[int]:
        removed: set[int] = set()
        queue = self._env.store.consume_queue(OP_HALF_TOPIC, 0)
        if queue is None:
            return removed
        for offset, (offset_py, _, _) in queue.iterate(self._committed(OP_HALF_TOPIC)):
            record = self._env.store.record(offset_py)
            ended = [] if record is None else removed_offsets(record)
            removed.update(ended)
            self._pass_mark(offset, max(ended, default=-1))
        return removed

    def _pass_mark(self, mark_offset: int, highest: int) -> None:
        """Remember now and then how high the half messages of all marks so far reach."""
        self._highest_marked = max(self._highest_marked, highest)
        self._marks_seen += 1
        if self._marks_seen % PROGRESS_EVERY_MARKS == 0:
            self._mark_points.append((mark_offset + 1, self._highest_marked))

    def _progress(self) -> Progress:
        store = self._env.store
        half_offset = next(iter(self._open), store.max_offset(HALF_TOPIC, 0))
        mark_offset = self._committed(OP_HALF_TOPIC)
        if not self._open:
            self._mark_points.clear()
            mark_offset = store.max_offset(OP_HALF_TOPIC, 0)
        while self._mark_points and self._mark_points[0][1] < half_offset:
            mark_offset = max(mark_offset, self._mark_points.popleft()[0])
        return Progress(half_offset, mark_offset, store.log.max_offset)

    def _save_progress(self) -> None:
        """Commit what was done when last asked, if that is durable by now; then look again."""
        self._write_missing_marks()
        captured = self._captured
        if captured is not None:
            if self._env.store.flushed_offset < captured.log_end:
                return
            self._commit(captured)
        self._captured = self._progress()

    def save_last_progress(self) -> None:
        """Commit everything that is done, durable or not: the store closes."""
        self._write_missing_marks()
        self._commit(self._progress())

    def _commit(self, progress: Progress) -> None:
        offsets = self._tables.offsets
        for topic, offset in (
            (HALF_TOPIC, progress.half_offset),
            (OP_HALF_TOPIC, progress.mark_offset),
        ):
            known = offsets.query(TRANS_GROUP, topic, 0)
            if offset > max(known, 0):
                offsets.commit(TRANS_GROUP, topic, 0, offset)


def _open_half(
    offset_py: int, stored_ms: int, properties: Mapping[str, str], since_ms: int
) -> OpenHalf:
    return OpenHalf(
        offset_py,
        check_times(properties),
        stored_ms,
        custom_immunity_ms(properties),
        since_ms,
        properties.get(Prop.UNIQ_KEY, ""),
    )
