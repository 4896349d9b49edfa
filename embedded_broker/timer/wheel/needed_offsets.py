"""Which commit-log offsets waiting timers still need.

Answers: below which offset no message of a waiting timer lies, so that older files of the log may
go. Must not know: which files are old, who removes them. A slot's records lie in the timer log in
the order in which their messages lie in the commit log, so the first of each slot is enough.

Read on: `embedded_broker/lifecycle/aging.py`, who asks, `timer/interface.py` for what engines
offer.
"""

from __future__ import annotations

from collections.abc import Iterator

from embedded_broker.timer.wheel.slots import NO_SLOT
from embedded_broker.timer.wheel.state import TimerState
from rocketmq_py.protocol.names import TIMER_TOPIC

__all__ = ["WheelNeededOffsets"]


class WheelNeededOffsets:
    """The offsets of one wheel; every step is made under the door."""

    def __init__(self, state: TimerState) -> None:
        self._state = state

    def ahead(self) -> Iterator[int]:
        """Give an offset for each slot that is not loaded; may be gone through in turns.

        What enters the wheel meanwhile lies behind the log's end at the begin. What is loaded
        meanwhile is among `now`, which is to be asked last.
        """
        state = self._state
        at_ms = state.curr_read_ms
        while (slot_ms := state.wheel.waiting_after(at_ms, state.curr_read_ms)) is not None:
            offset = self._oldest(slot_ms)
            if offset is not None:
                yield offset
            at_ms = slot_ms + state.precision_ms

    def now(self) -> list[int]:
        """Give the offsets of what is loaded, on its way, or not enqueued yet.

        Where copies of what was released lie does not count: if such a copy is old enough to go,
        so is its source, which lies before it.
        """
        state, due_heap = self._state, self._state.due_heap
        found = [entry.offset_py for entry in due_heap]
        for slot_ms in (*due_heap.loaded, *due_heap.held):
            offset = self._oldest(slot_ms)
            if offset is not None:
                found.append(offset)
        queue = state.store.consume_queue(TIMER_TOPIC, 0)
        entry = None if queue is None else queue.entry(state.curr_queue_offset)
        if entry is not None:
            found.append(entry[0])
        for at in [one for one in due_heap.kept_for if one < state.curr_queue_offset]:
            del due_heap.kept_for[at]
        return [*found, *due_heap.kept_for.values()]

    def _oldest(self, slot_ms: int) -> int | None:
        """Give the offset of a slot's first record that the timer log still has."""
        slot = self._state.wheel.get_slot(slot_ms)
        if slot is NO_SLOT:
            return None
        first = self._state.log.read(slot.first_pos) if slot.first_pos >= 0 else None
        if first is not None and first.slot_ms == slot_ms:
            return first.offset_py
        oldest = None
        for _, record in self._state.log.chain(slot.last_pos, slot_ms):
            oldest = record.offset_py
        return oldest
