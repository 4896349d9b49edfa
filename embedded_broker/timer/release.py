"""The last step: what is due goes into its topic, or hops back into the timer topic.

Answers: what a delivered and a rolled copy look like, when a mark removes a message instead, and
what happens when a put fails. Must not know: slots and files. After
`TimerDequeuePutMessageService`, `convert` and `doPut` of the original.

Read on: `front.py` for where due timers come from, `recovery.py` for how the copies made here
prove after a crash what was released.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from embedded_broker.config import BrokerConfig
from embedded_broker.store.inner import InnerMessage, PutStatus
from embedded_broker.timeline import Budget
from embedded_broker.timer.front import NOT_LATE, Kind, Mark, Waiting
from embedded_broker.timer.recall import find_copies
from embedded_broker.timer.request import delete_key, victim_root
from embedded_broker.timer.services import Stage
from embedded_broker.timer.state import TimerState
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop

__all__ = ["Release", "TimerDequeuePutMessageService"]

_ATTEMPTS: Final = 3


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
        properties = record.properties
        topic = properties[Prop.REAL_TOPIC]
        if entry.queue_offset != NOT_LATE and Prop.TIMER_SRC_OFFSET in properties:
            return self._was_marked(entry, record)
        marks = state.front.marks(entry.out_ms)
        if not marks:
            return False
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

    def _was_marked(self, entry: Waiting, record: MessageRecord) -> bool:
        """Look a rolled copy up that comes after its time: its mark may be behind the reader."""
        topic = record.properties[Prop.REAL_TOPIC]
        for copy in find_copies(self.state, record.properties.get(Prop.UNIQ_KEY, ""), topic):
            if copy.root == entry.root and copy.marked_by is not None:
                if copy.marked_by < entry.root:
                    self.state.metrics.add(topic, -1, record.store_timestamp)
                return True
        return False

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
