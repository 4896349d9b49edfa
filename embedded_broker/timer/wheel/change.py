"""How the wheel's timers are taken back, or get another time.

Answers: which slot a moved copy takes, and what its mark is. Must not know: requests, connections,
and what the wheel makes of both.

A mark of RocketMQ's removes every copy of its id in its slot. Ours names its one victim, but a real
broker that opens this store does not read that, so a copy stays out of slots that hold a mark of
its id: it goes to the next one, and leaves at its own time all the same.

Read on: `timer/change.py` for the order of writing, `timer/recall.py` for marks and for how the
copies of an id are found, `engine.py` for who calls.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from embedded_broker.store.inner import InnerMessage
from embedded_broker.timer.change import Changes, moved_copy
from embedded_broker.timer.recall import (
    PendingCopy,
    find_copies,
    mark_message,
    slots_with_marks,
)
from embedded_broker.timer.request import parse_request, victim_root
from embedded_broker.timer.wheel.state import TimerState
from rocketmq_py.clock import Clock
from rocketmq_py.protocol.delay import timer_out_ms
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop

__all__ = ["WheelChanges", "slot_for"]

_LOOPBACK: Final = b"\x7f\x00\x00\x01\x00\x00\x00\x00"


class WheelChanges(Changes[PendingCopy]):
    """Recalls and moves in a wheel; the loaded slots are complete at every call."""

    def __init__(self, state: TimerState, clock: Clock) -> None:
        super().__init__(state.store, clock)
        self._state = state

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

    def _copies(self, unique_key: str, topic: str | None = None) -> list[PendingCopy]:
        return find_copies(self._state, unique_key, topic)

    def _replacement(self, copy: PendingCopy, unique_key: str, due_ms: int) -> InnerMessage | None:
        state = self._state
        record = state.store.record(copy.offset_py)
        if record is None:
            return None
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
        return moved_copy(record, root=copy.root, due_ms=due_ms, out_ms=out_ms)

    def _mark(self, copy: PendingCopy) -> InnerMessage:
        return mark_message(copy, now_ms=self._clock.now_ms, born_host=_LOOPBACK)


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
