"""The seven services of the timer store, as stages that are stepped instead of threads that poll.

Answers: what each part of the pipeline does with one message. Must not know: in which order they
run; that is the engine's. The classes have the names of the original's threads
(`org.apache.rocketmq.store.timer.TimerMessageStore`)::

    timer topic -> EnqueueGet -> EnqueuePut -> wheel + timer log
    wheel + timer log -> DequeueGet -> DequeueGetMessage -> front -> DequeuePutMessage -> topics

Read on: `engine.py` for the order and why it never loses or doubles a message, `front.py` for
what is in memory between the two halves.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import ClassVar, Final, NamedTuple

from embedded_broker.config import BrokerConfig
from embedded_broker.store.consume_queue import ConsumeQueue
from embedded_broker.store.inner import InnerMessage, PutStatus
from embedded_broker.timeline import Budget
from embedded_broker.timer.front import Kind, Mark, Waiting
from embedded_broker.timer.request import (
    TimerRequest,
    delete_key,
    parse_request,
    root_offset,
    victim_root,
)
from embedded_broker.timer.state import NEVER_ENQUEUED_MS, TimerState
from embedded_broker.timer.timer_log import (
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    TimerLogRecord,
)
from embedded_broker.timer.wheel import NO_SLOT
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.tag_hash import java_hash

__all__ = [
    "Queued",
    "Release",
    "Stage",
    "TimerDequeueGetMessageService",
    "TimerDequeueGetService",
    "TimerDequeuePutMessageService",
    "TimerDequeueWarmService",
    "TimerEnqueueGetService",
    "TimerEnqueuePutService",
    "TimerFlushService",
]

_CHECK_BUDGET_EVERY: Final = 16
_ATTEMPTS: Final = 3
_INT32_MAX: Final = 2**31 - 1


class Stage:
    """One service: can be held, and says how much waits for it and for how long."""

    name: ClassVar[str] = ""

    def __init__(self, state: TimerState) -> None:
        self.state = state
        self.paused = False

    def pause(self) -> None:
        """Let this service do nothing until `resume`."""
        self.paused = True

    def resume(self) -> None:
        """Let this service work again."""
        self.paused = False

    @property
    def queue_depth(self) -> int:
        """How many items wait for this service."""
        return 0

    def lag_ms(self, now_ms: int) -> int:  # noqa: ARG002 - most services cannot lag
        """For how long the oldest of them has been waiting."""
        return 0


# --- into the wheel --------------------------------------------------------------------------


class Queued(NamedTuple):
    """A message of the timer topic that is not in the wheel yet."""

    queue_offset: int
    offset_py: int
    size_py: int
    store_timestamp: int
    properties: dict[str, str]
    request: TimerRequest


class TimerEnqueueGetService(Stage):
    """Reads the timer topic's queue, entry by entry; what cannot be read is counted and passed."""

    name = "TimerEnqueueGetService"

    def __init__(self, state: TimerState) -> None:
        super().__init__(state)
        self._ahead: Queued | None = None

    @property
    def queue(self) -> ConsumeQueue:
        """The timer topic's one queue."""
        queue = self.state.store.consume_queue(TIMER_TOPIC, 0, create=True)
        assert queue is not None  # noqa: S101 - create=True always gives one
        return queue

    @property
    def queue_depth(self) -> int:
        """Entries between the pointer and the queue's end."""
        queue = self.state.store.queues.get((TIMER_TOPIC, 0))
        return 0 if queue is None else max(0, queue.max_offset - self.state.curr_queue_offset)

    def lag_ms(self, now_ms: int) -> int:
        """Age of the next entry's message."""
        queued = self.peek()
        return 0 if queued is None else max(0, now_ms - queued.store_timestamp)

    def peek(self) -> Queued | None:
        """Give the next message without moving; None at the end of the queue."""
        state = self.state
        ahead = self._ahead
        if ahead is not None and ahead.queue_offset == state.curr_queue_offset:
            return ahead
        queue = self.queue
        state.curr_queue_offset = max(state.curr_queue_offset, queue.min_offset)
        while state.curr_queue_offset < queue.max_offset:
            found = self._read(queue, state.curr_queue_offset)
            if found is not None:
                self._ahead = found
                return found
            state.curr_queue_offset += 1
        return None

    def _read(self, queue: ConsumeQueue, queue_offset: int) -> Queued | None:
        state = self.state
        entry = queue.entry(queue_offset)
        if entry is None:
            return None
        offset, size, _ = entry
        if offset in state.already_logged:
            state.already_logged.discard(offset)
            return None
        if offset in state.front.done:
            return None
        record = state.timer_record(offset, size)
        if record is None:
            state.lost["unreadable"] += 1
            return None
        request = parse_request(record.properties)
        if request is None:
            state.lost["malformed"] += 1
            return None
        return Queued(
            queue_offset, offset, size, record.store_timestamp, record.properties, request
        )


class TimerEnqueuePutService(Stage):
    """Links a message into the wheel, or hands it over if its slot is past."""

    name = "TimerEnqueuePutService"

    def lag_ms(self, now_ms: int) -> int:
        """How far the write pointer is behind the clock's slot."""
        return max(0, self.state.floor(now_ms) - self.state.curr_write_ms)

    def put(self, queued: Queued, now_ms: int) -> int | None:
        """Take one message. None when done, else the slot that is in the way.

        That is a passed slot whose timers a clock jump carries: its place in the wheel is needed
        after a crash. A shorter hop avoids it, but for the slot at the write pointer, which may
        be used only after they were rolled (`TimerDequeuePutMessageService.roll_carried`).
        """
        state = self.state
        request = queued.request
        slot_ms = request.out_ms
        if slot_ms < state.curr_read_ms:
            if self._take_late(queued, now_ms):
                return None
            slot_ms = state.curr_read_ms
        magic = MAGIC_DEFAULT if request.deletes is None else MAGIC_DEFAULT | MAGIC_DELETE
        hop_ms = self._hop(slot_ms)
        in_way_ms = self._slot_in_way(hop_ms)
        while in_way_ms is not None:
            hop_ms -= state.precision_ms
            if hop_ms < state.curr_write_ms:
                return in_way_ms
            in_way_ms = self._slot_in_way(hop_ms)
        if hop_ms != slot_ms:
            slot_ms = hop_ms
            magic |= MAGIC_ROLL
        wheel = state.wheel
        slot = wheel.get_slot(slot_ms)
        write_ms = min(state.curr_write_ms, slot_ms)
        pos = state.log.append_record(
            slot.last_pos,
            magic,
            write_ms,
            slot_ms - write_ms,
            queued.offset_py,
            queued.size_py,
            java_hash(request.real_topic),
        )
        loaded = slot_ms in state.front.loaded
        wheel.put_slot(
            slot_ms,
            pos if slot.first_pos < 0 else slot.first_pos,
            pos,
            slot.num + (1 if request.deletes is None else -1),
            slot.magic,
            waiting=not loaded,
        )
        if loaded:
            state.take(
                magic,
                slot_ms,
                write_ms,
                queued.offset_py,
                queued.size_py,
                queued.properties,
                request,
                queued.store_timestamp,
            )
        return None

    def _slot_in_way(self, slot_ms: int) -> int | None:
        """Give the held slot whose place in the wheel this slot would take."""
        state = self.state
        other_ms = state.wheel.stored_time_ms(slot_ms)
        if other_ms == slot_ms:
            return None
        if other_ms in state.front.held:
            return other_ms
        if other_ms >= state.curr_read_ms:
            raise AssertionError(
                f"slot {slot_ms} would replace slot {other_ms}, which is still to be read "
                f"(read pointer {state.curr_read_ms})"
            )
        return None

    def _hop(self, slot_ms: int) -> int:
        """Give the slot where a message stops on its way: its own one if that is near enough.

        As `TimerMessageStore.doEnqueue`, but a hop that equals the target is none. A record also
        never lands on a place of the wheel whose old slot is still to be read: with a clock that
        was set back while slots were behind, it takes a shorter hop.
        """
        state = self.state
        precision_ms, window = state.precision_ms, state.roll_window
        write_ms = state.curr_write_ms
        behind = slot_ms - write_ms - window * precision_ms
        if behind >= 0:
            if behind < window // 3 * precision_ms:
                slot_ms = write_ms + window // 2 * precision_ms
            else:
                slot_ms = write_ms + window * precision_ms
        return min(slot_ms, state.curr_read_ms + (state.wheel.slots_total - 1) * precision_ms)

    def _take_late(self, queued: Queued, now_ms: int) -> bool:
        """Hand over a message whose slot is past and whose time has come."""
        state = self.state
        request, properties = queued.request, queued.properties
        root = root_offset(properties, queued.offset_py)
        if request.deletes is not None:
            if request.out_ms + state.precision_ms > now_ms:
                return False
            mark = Mark(root, victim_root(properties))
            state.front.add_late_mark(request.out_ms, request.deletes, mark, queued.queue_offset)
            return True
        due_ms = state.due_ms(
            properties, queued.store_timestamp, request.out_ms, state.release_precision_ms
        )
        if due_ms > now_ms:
            return False
        state.front.add_late(
            Waiting(
                due_ms,
                root,
                queued.offset_py,
                queued.size_py,
                request.out_ms,
                request.out_ms,
                NEVER_ENQUEUED_MS,
                Kind.RELEASE,
                queued.queue_offset,
            )
        )
        return True


# --- out of the wheel ------------------------------------------------------------------------


class TimerDequeueGetMessageService(Stage):
    """Reads the messages of a loaded slot: when each is due, and which ones are marks."""

    name = "TimerDequeueGetMessageService"

    def __init__(self, state: TimerState) -> None:
        super().__init__(state)
        self._records: deque[tuple[int, TimerLogRecord]] = deque()

    @property
    def queue_depth(self) -> int:
        """Records of loaded slots that are not read yet."""
        return len(self._records)

    def hand_over(self, slot_ms: int, newest_first: list[TimerLogRecord]) -> None:
        """Take the records of a slot; one message counts once, done ones do not."""
        done = self.state.front.done
        seen: set[int] = set()
        for record in reversed(newest_first):
            offset = record.offset_py
            if offset not in seen and offset not in done:
                seen.add(offset)
                self._records.append((slot_ms, record))

    def run(self, budget: Budget) -> bool:
        """Read until the budget is used up; True when nothing is left."""
        records = self._records
        count = 0
        while records:
            self._read(*records.popleft())
            count += 1
            if not count % _CHECK_BUDGET_EVERY and budget.exhausted():
                return not records
        return True

    def _read(self, slot_ms: int, record: TimerLogRecord) -> None:
        state = self.state
        message = state.timer_record(record.offset_py, record.size_py)
        if message is None:
            state.lost["unreadable"] += 1
            return
        request = parse_request(message.properties)
        if request is None or java_hash(request.real_topic) != record.topic_hash:
            state.lost["malformed"] += 1
            return
        state.take(
            record.magic,
            slot_ms,
            record.write_time_ms,
            record.offset_py,
            record.size_py,
            message.properties,
            request,
            message.store_timestamp,
        )


class TimerDequeueGetService(Stage):
    """Keeps the slot at the read pointer and the next one loaded."""

    name = "TimerDequeueGetService"

    def __init__(self, state: TimerState, reader: TimerDequeueGetMessageService) -> None:
        super().__init__(state)
        self._reader = reader
        self._walks: deque[tuple[int, int, list[TimerLogRecord]]] = deque()

    @property
    def queue_depth(self) -> int:
        """Slots whose chain is not walked yet."""
        return len(self._walks)

    def lag_ms(self, now_ms: int) -> int:
        """How far the read pointer is behind the clock's slot."""
        return max(0, self.state.floor(now_ms) - self.state.curr_read_ms)

    @property
    def is_loading(self) -> bool:
        """Whether something of a loaded slot is still to be read."""
        return bool(self._walks) or self._reader.queue_depth > 0

    def open_window(self) -> None:
        """Begin to load what the read pointer reaches; from now on arrivals join it directly."""
        state = self.state
        front, wheel = state.front, state.wheel
        for slot_ms in (state.curr_read_ms, state.curr_read_ms + state.precision_ms):
            if slot_ms in front.loaded:
                continue
            front.loaded[slot_ms] = state.scan_pos_of(slot_ms)
            wheel.leave(slot_ms)
            slot = wheel.get_slot(slot_ms)
            if slot is not NO_SLOT:
                self._walks.append((slot_ms, slot.last_pos, []))

    def load(self, budget: Budget) -> bool:
        """Walk the chains and read the messages; True when the loaded slots are complete."""
        walks = self._walks
        while walks:
            slot_ms, position, records = walks.popleft()
            for found, record in self.state.log.chain(position, slot_ms):
                records.append(record)
                if not len(records) % _CHECK_BUDGET_EVERY and budget.exhausted():
                    if 0 <= record.prev_pos < found:
                        walks.appendleft((slot_ms, record.prev_pos, records))
                        return False
                    break
            if not records or records[-1].prev_pos != -1:
                self.state.lost["broken chain"] += 1
            self._reader.hand_over(slot_ms, records)
        return self._reader.run(budget)

    def move(self, read_ms: int) -> None:
        """Move the read pointer to a later slot and load what it reaches."""
        self.state.front.leave_before(read_ms)
        self.state.curr_read_ms = read_ms
        self.open_window()


class Release(Enum):
    """How a run of releases ended."""

    DRAINED = auto()
    OUT_OF_TIME = auto()
    BLOCKED = auto()


_DONE: Final = frozenset(
    {
        PutStatus.PUT_OK,
        # The message lies in the log; putting it again would double it.
        PutStatus.FLUSH_DISK_TIMEOUT,
        PutStatus.FLUSH_SLAVE_TIMEOUT,
        PutStatus.SLAVE_NOT_AVAILABLE,
    }
)
_HOPELESS: Final = frozenset(
    {
        PutStatus.MESSAGE_ILLEGAL,
        PutStatus.PROPERTIES_SIZE_EXCEEDED,
        PutStatus.WHEEL_TIMER_NOT_ENABLE,
        PutStatus.WHEEL_TIMER_MSG_ILLEGAL,
    }
)
_SOON_BETTER: Final = frozenset(
    {
        PutStatus.SERVICE_NOT_AVAILABLE,
        PutStatus.OS_PAGE_CACHE_BUSY,
        PutStatus.CREATE_MAPPED_FILE_FAILED,
    }
)
_UNKNOWN_ERROR_WAIT_MS: Final = 50


class TimerDequeuePutMessageService(Stage):
    """Puts due messages into their topics, and hops back into the timer topic.

    A put that fails is tried again after `retry_wait_ms`; meanwhile nothing else is released, so
    the order stays and nothing piles up in memory.
    """

    name = "TimerDequeuePutMessageService"

    def __init__(self, state: TimerState, config: BrokerConfig) -> None:
        super().__init__(state)
        self._config = config
        self._attempts = 0
        self.retry_wait_ms = 0
        """How long to wait before the next `release`; 0 when nothing failed."""
        self.released = 0
        self.rolled = 0
        self.recalled = 0

    @property
    def queue_depth(self) -> int:
        """Timers in memory, due or soon due."""
        return len(self.state.front.heap)

    def lag_ms(self, now_ms: int) -> int:
        """How long the first timer is overdue."""
        due_ms = self.state.front.next_due_ms
        return 0 if due_ms is None else max(0, now_ms - due_ms)

    def release(
        self, limit_ms: int, now_ms: int, reach_ms: int, budget: Budget
    ) -> tuple[int, Release]:
        """Act on every entry due up to `limit_ms`; gives the number of messages delivered.

        Timers whose hop is over but whose time lies within `reach_ms` are carried, not rolled.
        """
        front = self.state.front
        before = self.released
        self.retry_wait_ms = 0
        while (due_ms := front.next_due_ms) is not None and due_ms <= limit_ms:
            entry = front.pop()
            if not self._act(entry, now_ms, reach_ms):
                front.add(entry)
                return self.released - before, Release.BLOCKED
            self._attempts = 0
            if budget.exhausted():
                return self.released - before, Release.OUT_OF_TIME
        return self.released - before, Release.DRAINED

    def roll_carried(self, slot_ms: int, now_ms: int) -> bool:
        """Put the timers that were carried past a hop back into the timer topic after all."""
        front = self.state.front
        taken = front.carried(slot_ms)
        while taken:
            entry = taken.pop()
            record = self.state.timer_record(entry.offset_py, entry.size_py)
            if record is None or self._roll(entry, record, now_ms):
                front.finish(entry)
                continue
            for one in (entry, *taken):
                front.add(one)
            return False
        front.let_go(slot_ms)
        return True

    def _act(self, entry: Waiting, now_ms: int, reach_ms: int) -> bool:
        """Do what the entry asks for; False when the put must be tried again."""
        state = self.state
        record = state.timer_record(entry.offset_py, entry.size_py)
        if record is None:
            state.lost["unreadable"] += 1
        elif entry.kind <= Kind.CARRIED:
            if self._is_recalled(entry, record):
                self.recalled += 1
                state.front.note_removed(entry)
            elif not self._release(entry, record, now_ms):
                return False
        elif self._carry(entry, record, reach_ms):
            return True
        elif not self._roll(entry, record, now_ms):
            return False
        state.front.finish(entry)
        return True

    def _is_recalled(self, entry: Waiting, record: MessageRecord) -> bool:
        state = self.state
        marks = state.front.marks(entry.out_ms)
        if not marks:
            return False
        properties = record.properties
        topic = properties[Prop.REAL_TOPIC]
        key = delete_key(topic, properties.get(Prop.UNIQ_KEY, ""))
        # A real broker's rolled copy does not say where its first copy lies.
        rootless = Prop.TIMER_ROLL_TIMES in properties and Prop.TIMER_ROOT_OFFSET not in properties
        hits = [
            mark
            for mark in marks.get(key, ())
            if mark.victim_root is None or mark.victim_root == entry.root or rootless
        ]
        if not hits:
            return False
        if all(mark.root < entry.root for mark in hits):
            # A mark that came later took the victim out of the count when it came.
            state.metrics.add(topic, -1, record.store_timestamp)
        return True

    def _carry(self, entry: Waiting, record: MessageRecord, reach_ms: int) -> bool:
        """Keep an entry in memory past its hop when its time is within reach."""
        state = self.state
        properties = record.properties
        if entry.kind is Kind.ROLL:
            due_ms = state.due_ms(
                properties, record.store_timestamp, entry.out_ms, state.release_precision_ms
            )
            if due_ms > reach_ms:
                return False
            state.front.carry(entry, due_ms)
            return True
        if entry.out_ms >= reach_ms:
            return False
        mark = Mark(entry.root, victim_root(properties))
        key, end_ms = properties[Prop.TIMER_DEL_UNIQKEY], state.mark_end_ms(entry.out_ms)
        state.front.carry_mark(entry, key, mark, end_slot_ms=end_ms)
        return True

    def _release(self, entry: Waiting, record: MessageRecord, now_ms: int) -> bool:
        """Deliver: the copy names its source, which is also the proof that it was delivered."""
        properties = record.properties
        topic = properties[Prop.REAL_TOPIC]
        added = {
            Prop.TIMER_ENQUEUE_MS: str(entry.enqueue_ms),
            Prop.TIMER_DEQUEUE_MS: str(now_ms),
            Prop.TIMER_SRC_OFFSET: str(entry.offset_py),
        }
        encoded: bytes | None = None
        before = record.properties_bytes
        if added.keys().isdisjoint(properties) and before.endswith(b"\x02"):
            tail = "".join([f"{name}\x01{value}\x02" for name, value in added.items()])
            encoded = before + tail.encode()
        properties.update(added)
        message = _copy(record, topic, int(properties[Prop.REAL_QID]))
        message.properties_bytes = encoded
        stored = self._put(message)
        if stored is None:
            return False
        self.state.metrics.add(topic, -1, now_ms)
        self.released += stored
        return True

    def _roll(self, entry: Waiting, record: MessageRecord, now_ms: int) -> bool:
        """Put the message back into the timer topic, on its way to a later slot."""
        state = self.state
        properties = record.properties
        times = properties.get(Prop.TIMER_ROLL_TIMES, "0")
        if entry.kind is not Kind.ROLL_MARK:
            # Exact whatever the release precision: the files never depend on it.
            due_ms = state.due_ms(properties, record.store_timestamp, entry.out_ms, 1)
            properties[Prop.TIMER_DUE_MS] = str(due_ms)
        properties[Prop.TIMER_ROLL_TIMES] = str(int(times) + 1 if times.isdecimal() else 1)
        properties[Prop.TIMER_ENQUEUE_MS] = str(entry.enqueue_ms)
        properties[Prop.TIMER_DEQUEUE_MS] = str(now_ms)
        properties[Prop.TIMER_SRC_OFFSET] = str(entry.offset_py)
        properties[Prop.TIMER_ROOT_OFFSET] = str(entry.root)
        topic = properties[Prop.REAL_TOPIC]
        stored = self._put(_copy(record, TIMER_TOPIC, 0))
        if stored is None:
            return False
        if entry.kind is not Kind.ROLL_MARK:
            state.metrics.add(topic, -1, now_ms)
        self.rolled += stored
        return True

    def _put(self, message: InnerMessage) -> bool | None:
        """Put and judge the answer as `TimerMessageStore.doPut`.

        True when it is stored, False when it is given up and counted, None to try again later.
        """
        result = self.state.store.put(message)
        status = result.status
        if status in _DONE:
            return True
        self._attempts += 1
        if status in _HOPELESS:
            return self._drop("refused")
        if status in _SOON_BETTER:
            if self._attempts >= _ATTEMPTS and not self._config.flag(
                "timerEnableRetryUntilSuccess"
            ):
                return self._drop("gave up")
            self.retry_wait_ms = 500 * self.state.precision_ms // 1000
            return None
        if self._config.flag("timerSkipUnknownError"):
            return self._drop("unknown error")
        self.retry_wait_ms = _UNKNOWN_ERROR_WAIT_MS
        return None

    def _drop(self, reason: str) -> bool:
        self.state.lost[reason] += 1
        return False


def _copy(record: MessageRecord, topic: str, queue_id: int) -> InnerMessage:
    """Make the message that a release or roll puts: everything but its place is the same."""
    return InnerMessage(
        topic,
        queue_id,
        record.body,
        record.properties,
        record.flag,
        record.sys_flag,
        record.born_timestamp,
        record.born_host,
        record.reconsume_times,
    )


class TimerDequeueWarmService(Stage):
    """Nothing, as in the original, whose warm-up call is commented out."""

    name = "TimerDequeueWarmService"


class TimerFlushService(Stage):
    """Marks the flush in the table of stages; the work is `flush.TimerFlush`."""

    name = "TimerFlushService"
