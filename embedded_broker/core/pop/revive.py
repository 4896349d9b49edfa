"""Revive service: which popped messages are hidden, until when, and how they come back.

RocketMQ's PopReviveService, without rounds: what a pop took comes back at its own millisecond of
the message clock, as a new message in the retry topic of its group, unless it was acked. Check
points and acks lie in the revive topic and get there by timer (`revive_log.py`), as the original
writes them; so a real broker and this one can take over from each other, and what is open is known
from the store alone. Two things are only in memory, to be exact: a check point that this process
wrote knows its acks at once and needs not wait for theirs to arrive; one that it finds waits two
seconds longer, as the original does.

A check point is done when all its messages are acked, revived or gone. The committed offset of
CID_RMQ_SYS_REVIVE_GROUP stays before the first that is not. Must not know: requests, consumers.
Runs under the door. Read on: `service.py` and `acks.py`, who write.
"""

from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from attrs import define, field

from embedded_broker.clocks.timeline import Alarm, Budget, Deadline
from embedded_broker.core.environment import Environment
from embedded_broker.core.pop.revive_log import (
    PopKey,
    ack_message,
    check_point_message,
    key_of,
    read_entry,
    revive_topic,
    revived,
)
from embedded_broker.core.put_reasons import reason_of
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.store.message_run import Arrivals
from embedded_broker.store.put_values import InnerMessage, PutResult
from embedded_broker.tables.broker_tables import Tables
from embedded_broker.tables.offsets.table import NOT_STORED
from embedded_broker.tables.peer import Peer
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.pop import Ack, CheckPoint
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import REVIVE_GROUP
from rocketmq_py.protocol.pop_handles import normal_topic

logger = get_logger(__name__)

WHAT: Final = "pop revive"
GRACE_MS: Final = 2000
"""So long a check point that was found in the store waits for acks that may still arrive."""
RETRY_MS: Final = 1000
"""A message that the store did not take is put again after so much session time."""
RETRY_QUEUES: Final = 1


@define(slots=True, eq=False)
class _Point:
    """A check point that is not done; bit i of `done` says that message i is."""

    point: CheckPoint
    offsets: list[int]
    revive_queue: int
    is_known: bool
    """Whether this process wrote it, and so has heard of every ack."""
    is_put_off: bool = False
    """Whether the consumer itself chose when it comes back: it is done with it until then."""
    holder: Peer | None = None
    """The connection that the messages were given to."""
    revive_offset: int = NOT_STORED
    done: int = 0

    @property
    def is_done(self) -> bool:
        return self.done == (1 << len(self.offsets)) - 1

    @property
    def is_in_hand(self) -> bool:
        """Whether a consumer that may still live was given it, and says nothing of it yet."""
        is_gone = self.holder is not None and self.holder.closed
        return self.is_known and not self.is_put_off and not is_gone

    def open_offsets(self) -> Iterator[tuple[int, int]]:
        """Give index and queue offset of what is not done."""
        for index, offset in enumerate(self.offsets):
            if not self.done >> index & 1:
                yield index, offset


class _Progress(NamedTuple):
    """The last entry of each revive queue that is done; durable once the log is up to an end."""

    offsets: dict[int, int]
    log_end: int


@define(eq=False, kw_only=True, slots=False)
class ReviveService:
    """The hidden messages of one broker; a `DeadlineSource`.

    Make it when the store and the tables are loaded, then `load`. `save_last_progress` is to be
    called before the offsets are written to their file for the last time. `counters` says how often
    something happened: ``revived``, ``gone``, ``put failed``.
    """

    _env: Environment
    _tables: Tables
    counters: Counter[str] = field(factory=Counter, init=False)
    alarm: Alarm = field(factory=Alarm, init=False)
    _points: dict[PopKey, _Point | None] = field(factory=dict, init=False)
    """None: it is done, and has not arrived in the revive topic yet."""
    _heap: list[tuple[int, int, PopKey]] = field(factory=list, init=False)
    _waiting: dict[int, dict[int, PopKey]] = field(factory=dict, init=False)
    """Check points that arrived and are not done, by queue and offset of the revive topic."""
    _order: Iterator[int] = field(factory=count, init=False)
    _turns: Iterator[int] = field(factory=count, init=False)
    _captured: _Progress | None = field(default=None, init=False)
    _loaded_ms: int = field(default=0, init=False)
    """When a store was loaded that held something."""

    @property
    def topic(self) -> str:
        """The revive topic."""
        return revive_topic(self._env.cluster_name)

    def load(self) -> None:
        """Find what is hidden in the store, and listen from now on."""
        is_new = not self._env.store.log.max_offset
        self._loaded_ms = 0 if is_new else self._env.clock.now_ms
        for queue_id in range(self.queues):
            queue = self._env.store.consume_queue(self.topic, queue_id)
            if queue is None:
                continue
            done = self._tables.offsets.query(REVIVE_GROUP, self.topic, queue_id)
            for offset, (at, _, _) in queue.iterate(max(done + 1, queue.min_offset)):
                record = self._env.store.record(at)
                if record is not None:
                    self._note(record, queue_id, offset)
        self._env.store.delay_topics.add(self.topic)
        self._env.store.listen(self.topic, self._on_arrival)
        self._env.session.every(
            self._env.config.int("flushConsumerOffsetInterval"), self._save_progress
        )

    @property
    def queues(self) -> int:
        """How many queues the revive topic has; 0 where there is none."""
        topic = self._tables.topics.get(self.topic)
        return 0 if topic is None else topic.write_queue_nums

    def next_queue(self) -> int:
        """Choose the revive queue of a pop, each in turn."""
        return next(self._turns) % max(self.queues, 1)

    # --- pops and acks come in -------------------------------------------------------------

    def is_taken(self, key: PopKey) -> bool:
        """Say whether a check point of this name is open, or on its way to the revive topic."""
        return key in self._points

    def holds(self, key: PopKey, offset: int) -> bool:
        """Say whether a message is hidden by the check point of this name.

        Of a pop before the last start that is not known until the check point arrives: it counts.
        """
        if key not in self._points:
            return key.pop_time_ms <= self._loaded_ms
        found = self._points[key]
        return found is not None and any(offset == at for _, at in found.open_offsets())

    def hide(
        self,
        point: CheckPoint,
        revive_queue: int,
        *,
        put_off: bool = False,
        holder: Peer | None = None,
    ) -> None:
        """Store a check point; refused when that fails, and then nothing is hidden.

        `put_off` is a message whose consumer wants it to come back later, `holder` the connection
        that gets the messages.
        """
        key = key_of(point)
        self._points[key] = _Point(
            point, point.offsets(), revive_queue, is_known=True, is_put_off=put_off, holder=holder
        )
        message = check_point_message(
            point, self.topic, revive_queue, self._env.clock.now_ms, self._env.store.store_host
        )
        try:
            self._put(message, "not handed out")
        except Refused:
            del self._points[key]
            raise
        self._push(point.revive_ms, key)

    def ack(self, ack: Ack, revive_queue: int, revive_ms: int) -> None:
        """Store an ack; what belongs to no open check point comes too late and changes nothing.

        ``revive_ms`` is when the check point is due. Refused when the ack cannot be stored.
        """
        message = ack_message(
            ack,
            revive_ms,
            self.topic,
            revive_queue,
            self._env.clock.now_ms,
            self._env.store.store_host,
        )
        self._put(message, "not acked")
        self._mark(ack)

    def hidden(self, group: str | None = None) -> Iterator[tuple[str, str, int, int, int]]:
        """Give group, topic, queue and offset of what is hidden, and until when."""
        for one in self._points.values():
            if one is not None and group in {None, one.point.group}:
                for _, offset in one.open_offsets():
                    point = one.point
                    yield point.group, point.topic, point.queue_id, offset, point.revive_ms

    def is_hidden(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Say whether a group was given a message that it has not acked."""
        return any(one[1:4] == (topic, queue_id, offset) for one in self.hidden(group))

    def in_hand(self, group: str) -> Iterator[tuple[str, int, int]]:
        """Give topic, queue and offset of what a group was given and says nothing of yet.

        What was found in the store after a restart is left out: who knows whether its consumer
        still lives. So is what a connection had that is closed.
        """
        for one in self._points.values():
            if one is not None and one.point.group == group and one.is_in_hand:
                for _, offset in one.open_offsets():
                    yield one.point.topic, one.point.queue_id, offset

    def needed_offsets(self) -> Iterator[int]:
        """Give the commit-log offset of the first hidden message of each check point."""
        for one in list(self._points.values()):
            first = None if one is None else next(one.open_offsets(), None)
            if one is None or first is None:
                continue
            queue = self._env.store.consume_queue(one.point.topic, one.point.queue_id)
            entry = None if queue is None else queue.entry(first[1])
            if entry is not None:
                yield entry[0]

    def _put(self, message: InnerMessage, what: str) -> PutResult:
        result = self._env.store.put(message)
        reason, remark = reason_of(result, self._env.config)
        if not result.ok:
            self.counters["put failed"] += 1
            raise Refused(reason or Reason.FAILED, f"{what}: {remark}")
        return result

    def _mark(self, ack: Ack) -> None:
        key = key_of(ack)
        found = self._points.get(key)
        if found is None:
            return
        for offset in [ack.offset] if ack.offsets is None else ack.offsets:
            if offset in found.offsets:
                found.done |= 1 << found.offsets.index(offset)
        if found.is_done:
            self._finish(key, found)

    # --- the revive topic ------------------------------------------------------------------

    def _on_arrival(self, arrivals: Arrivals) -> None:
        for number, (at, _, _) in enumerate(arrivals.entries, arrivals.queue_offset):
            record = self._env.store.record(at)
            if record is not None:
                self._note(record, arrivals.queue_id, number)

    def _note(self, record: MessageRecord, revive_queue: int, revive_offset: int) -> None:
        """Note what has come to the revive topic."""
        entry = read_entry(record, self._env.broker_name)
        if isinstance(entry, Ack):
            self._mark(entry)
        elif entry is not None:
            self._arrive(entry, revive_queue, revive_offset)

    def _arrive(self, point: CheckPoint, revive_queue: int, revive_offset: int) -> None:
        """Note that a check point is in the revive topic: from now on it may fall due."""
        key = key_of(point)
        if key in self._points:
            found = self._points[key]
            if found is None:
                del self._points[key]
                return
            if found.revive_offset != NOT_STORED:
                return  # the same once more
        else:
            offsets = point.offsets()
            found = self._points[key] = _Point(point, offsets, revive_queue, is_known=False)
            found.done = point.bits & (1 << len(offsets)) - 1
        # Of a check point of the same name that a crash has left behind it may be another queue.
        found.revive_queue, found.revive_offset = revive_queue, revive_offset
        self._waiting.setdefault(revive_queue, {})[revive_offset] = key
        if found.is_done:
            self._finish(key, found)
        elif not found.is_known:
            self._push(point.revive_ms + GRACE_MS, key)

    def _finish(self, key: PopKey, found: _Point) -> None:
        """Be done with a check point; one that has not arrived is remembered until it does."""
        if found.revive_offset == NOT_STORED:
            self._points[key] = None
            return
        del self._points[key]
        del self._waiting[found.revive_queue][found.revive_offset]

    # --- time ------------------------------------------------------------------------------

    def _push(self, due_ms: int, key: PopKey) -> None:
        heappush(self._heap, (due_ms, next(self._order), key))
        self.alarm.ring(due_ms)

    def next_deadline(self) -> Deadline | None:
        """When the next messages come back."""
        heap = self._heap
        while heap and self._points.get(heap[0][2]) is None:
            heappop(heap)
        return Deadline(heap[0][0], WHAT) if heap else None

    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:  # noqa: ARG002
        """Let come back what is due, in due order; gives the number of messages."""
        fired = 0
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            key = heappop(heap)[2]
            found = self._points.get(key)
            if found is not None:
                fired += self._revive(key, found)
            if budget.exhausted():
                break
        return fired

    def _revive(self, key: PopKey, found: _Point) -> int:
        """Put what was not acked into the retry topic; a put that fails is tried again later.

        Of a batch that is one record (BatchCQ topics) every message comes back by itself: only
        topics of that kind hold such records.
        """
        point = found.point
        topic = normal_topic(point.topic, point.group)
        is_wanted = topic in self._tables.topics and point.group in self._tables.groups
        fired = 0
        for index, offset in list(found.open_offsets()) if is_wanted else ():
            records = self._env.store.messages(point.topic, point.queue_id, offset)
            if not records:
                self.counters["gone"] += 1
            elif all(self._put_back(record, point) for record in records):
                fired += 1
            else:
                self._env.session.after(
                    RETRY_MS, lambda: self._push(self._env.clock.now_ms, key), WHAT
                )
                return fired
            found.done |= 1 << index
        self._finish(key, found)
        return fired

    def _put_back(self, record: MessageRecord, point: CheckPoint) -> bool:
        v2 = self._env.config.flag("enableRetryTopicV2")
        copy = revived(record, point, self._env.store.store_host, v2=v2)
        self._tables.topics.ensure(copy.topic, RETRY_QUEUES)
        if self._tables.offsets.query(point.group, copy.topic, 0) == NOT_STORED:
            # Says that the group's messages lie there: access control asks (`RetryOwners`).
            self._tables.offsets.commit(
                point.group, copy.topic, 0, max(self._env.store.min_offset(copy.topic, 0), 0)
            )
        result = self._env.store.put(copy)
        if not result.ok:
            self.counters["put failed"] += 1
            logger.warning("%s: put failed: %s %s", copy.topic, result.status.name, result.remark)
            return False
        self.counters["revived"] += 1
        return True

    # --- how far everything is done ----------------------------------------------------------

    def _progress(self) -> _Progress:
        offsets = {}
        for queue_id in range(self.queues):
            first = next(iter(self._waiting.get(queue_id, ())), None)
            end = self._env.store.max_offset(self.topic, queue_id)
            offsets[queue_id] = (end if first is None else first) - 1
        return _Progress(offsets, self._env.store.log.max_offset)

    def _save_progress(self) -> None:
        """Commit what was done when last asked, if that is durable by now; then look again."""
        captured = self._captured
        if captured is not None:
            if self._env.store.flushed_offset < captured.log_end:
                return
            self._commit(captured)
        self._captured = self._progress()

    def save_last_progress(self) -> None:
        """Commit everything that is done, durable or not: the store closes."""
        self._commit(self._progress())

    def _commit(self, progress: _Progress) -> None:
        for queue_id, offset in progress.offsets.items():
            if offset > self._tables.offsets.query(REVIVE_GROUP, self.topic, queue_id):
                self._tables.offsets.commit(REVIVE_GROUP, self.topic, queue_id, offset)
