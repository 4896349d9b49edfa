"""How a pending timer is given another time.

Answers: what is stored when a timer is recalled, or moved to another time. Must not know: requests,
connections, and what the wheel makes of it. A recall stores a mark that removes the timer. A move
stores a copy with the new time, then the mark that removes the old one, both in one write: nothing
is lost in between. If a power loss takes the mark alone, the copy is the last message of the timer
topic and says whom it replaces, so `finish` stores the mark again.

A mark of RocketMQ's removes every copy of its id in its slot. Ours names its one victim, but a real
broker that opens this store does not read that, so a copy stays out of slots that hold a mark of
its id: it goes to the next one, and leaves at its own time all the same.

Read on: `recall.py` for marks and for how the copies of an id are found, `engine.py` for who calls.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from enum import Enum
from typing import Final

from embedded_broker.errors import StoreError
from embedded_broker.store.inner import InnerMessage, PutStatus
from embedded_broker.timer.recall import (
    PendingCopy,
    RecallOutcome,
    find_copies,
    mark_message,
    slots_with_marks,
)
from embedded_broker.timer.request import parse_request, victim_root
from embedded_broker.timer.state import TimerState
from rocketmq_py.clock import Clock
from rocketmq_py.protocol.delay import timer_out_ms
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop

__all__ = ["MoveOutcome", "TimerChanges", "moved_copy", "slot_for"]

_LOG = logging.getLogger(__name__)
_LOOPBACK: Final = b"\x7f\x00\x00\x01\x00\x00\x00\x00"


class MoveOutcome(Enum):
    """What became of a wish to change the time of a timer."""

    MOVED = "moved"
    ALREADY_DUE = "already due"
    UNKNOWN = "unknown"


_OF_ONE_COPY: Final = frozenset(
    {
        Prop.TIMER_ROLL_TIMES,
        Prop.TIMER_ROOT_OFFSET,
        Prop.TIMER_SRC_OFFSET,
        Prop.TIMER_ENQUEUE_MS,
        Prop.TIMER_DEQUEUE_MS,
    }
)


class TimerChanges:
    """Recalls and moves of the timers of one store; the loaded slots are complete at every call."""

    def __init__(self, state: TimerState, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self.unfinished: MessageRecord | None = None
        """A moved copy whose mark is missing: `finish` when messages are accepted."""

    def look_for_unfinished(self) -> None:
        """Find out whether the last life ended between a moved copy and its mark."""
        state = self._state
        queue = state.store.consume_queue(TIMER_TOPIC, 0)
        entry = None if queue is None else queue.entry(queue.max_offset - 1)
        record = None if entry is None else state.timer_record(entry[0], entry[1])
        request = None if record is None else parse_request(record.properties)
        if record is None or request is None or request.deletes is not None:
            return
        is_first_copy = Prop.TIMER_ROOT_OFFSET not in record.properties
        if is_first_copy and victim_root(record.properties) is not None:
            self.unfinished = record

    def recall(self, unique_key: str, topic: str | None) -> RecallOutcome:
        """Take back every waiting timer with this id; exact, until the release itself."""
        outcome = RecallOutcome.UNKNOWN
        for copy in find_copies(self._state, unique_key, topic):
            if copy.marked_by is not None:
                continue
            if not copy.waits:
                if outcome is RecallOutcome.UNKNOWN:
                    outcome = RecallOutcome.ALREADY_DUE
                continue
            if self._put(self._mark(copy)):
                outcome = RecallOutcome.RECALLED
        return outcome

    def move(self, unique_key: str, due_ms: int, topic: str | None) -> MoveOutcome:
        """Give every waiting timer with this id another time; a past one is now.

        Raises StoreError when the disk refuses; the timer then waits as before.
        """
        state = self._state
        outcome = MoveOutcome.UNKNOWN
        for copy in find_copies(state, unique_key, topic):
            if copy.marked_by is not None:
                continue
            record = state.store.record(copy.offset_py)
            if not copy.waits or record is None:
                if outcome is MoveOutcome.UNKNOWN:
                    outcome = MoveOutcome.ALREADY_DUE
                continue
            now_ms = self._clock.now_ms
            marked, removes_all = slots_with_marks(state, unique_key)
            marked.add(copy.request.out_ms)
            if due_ms <= now_ms:
                # A slot that is behind the reader: it leaves as what comes too late does. Where
                # releasing is held, or after a crash, the marks of that slot may still work.
                out_ms = state.floor(now_ms) - state.precision_ms
                while out_ms in marked:
                    out_ms -= state.precision_ms
                due_ms = out_ms + state.precision_ms
            else:
                out_ms = slot_for(due_ms, state.precision_ms, marked, removes_all)
            moved = moved_copy(record, root=copy.root, due_ms=due_ms, out_ms=out_ms)
            if not self._put_pair(moved, self._mark(copy)):
                raise StoreError(f"timer {unique_key!r} keeps its time: the store takes no message")
            outcome = MoveOutcome.MOVED
        return outcome

    def finish(self) -> None:
        """Remove what the unfinished copy replaces, unless that has happened."""
        moved = self.unfinished
        if moved is None:
            return
        victim = victim_root(moved.properties)
        for copy in find_copies(self._state, moved.properties.get(Prop.UNIQ_KEY, "")):
            waits = copy.root == victim and copy.marked_by is None and copy.waits
            if waits and not self._put(self._mark(copy)):
                return
        self.unfinished = None

    def _mark(self, copy: PendingCopy) -> InnerMessage:
        return mark_message(copy, now_ms=self._clock.now_ms, born_host=_LOOPBACK)

    def _put_pair(self, moved: InnerMessage, mark: InnerMessage) -> bool:
        """Store both in one write, or one after the other if no file has room for both."""
        store = self._state.store
        result = store.put_all([moved, mark])[0]
        if result.status is not PutStatus.MESSAGE_ILLEGAL:
            return result.ok
        result = store.put(moved)
        if not result.ok:
            return False
        if not self._put(mark):
            self.unfinished = store.record(result.commit_log_offset)
        return True

    def _put(self, message: InnerMessage) -> bool:
        result = self._state.store.put(message)
        if not result.ok:
            _LOG.warning("the mark of a timer was not stored: %s", result.remark)
        return result.ok


def slot_for(
    due_ms: int, precision_ms: int, marked: Collection[int], removes_all: Collection[int]
) -> int:
    """Choose the slot of a copy that is due at `due_ms`.

    `marked` are the slots with any mark of its id, `removes_all` those whose mark removes every
    copy here, too. Its own slot is best, then the next one: both are read in time for it. A slot
    whose marks spare it here comes before a later one, where it would be late.
    """
    own_ms = timer_out_ms(due_ms, precision_ms)
    both = (own_ms, own_ms + precision_ms)
    for taken in (marked, removes_all):
        for slot_ms in both:
            if slot_ms not in taken:
                return slot_ms
    slot_ms = both[1]
    while slot_ms in marked:
        slot_ms += precision_ms
    return slot_ms


def moved_copy(record: MessageRecord, *, root: int, due_ms: int, out_ms: int) -> InnerMessage:
    """Build the copy of a timer that is due at another time; `root` is the old one's.

    It begins a life of its own: its rolls are counted anew.
    """
    properties = {
        name: value for name, value in record.properties.items() if name not in _OF_ONE_COPY
    }
    properties[Prop.TIMER_OUT_MS] = str(out_ms)
    properties[Prop.TIMER_DUE_MS] = str(due_ms)
    properties[Prop.TIMER_DEL_OFFSET] = str(root)
    return InnerMessage(
        record.topic,
        0,
        record.body,
        properties,
        record.flag,
        record.sys_flag,
        record.born_timestamp,
        record.born_host,
        record.reconsume_times,
    )
