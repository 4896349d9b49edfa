"""How waiting timers of a sliced store are taken back, or get another time.

Answers: which messages are put for that. A time that is past is the last second that is over: such
a copy is late when it arrives and leaves with the next step. Must not know: requests, connections.

Read on: `../change.py` for the order of writing, `copies.py` for how those of an id are found.
"""

from __future__ import annotations

from embedded_broker.store.inner import InnerMessage
from embedded_broker.timer.change import Changes, moved_copy
from embedded_broker.timer.request import parse_request
from embedded_broker.timer.slices.copies import (
    SliceCopy,
    find_copies,
    is_moved,
    mark_message,
)
from embedded_broker.timer.slices.record import SECOND_MS
from embedded_broker.timer.slices.state import SliceState
from rocketmq_py.clock import Clock
from rocketmq_py.protocol.delay import timer_out_ms

__all__ = ["SliceChanges"]


class SliceChanges(Changes[SliceCopy]):
    """Recalls and moves of the timers of one sliced store."""

    def __init__(self, state: SliceState, clock: Clock) -> None:
        super().__init__(state.store, clock)
        self._state = state

    def look_for_unfinished(self) -> None:
        """Find out whether the last life ended between a moved copy and its mark."""
        state = self._state
        queue = state.queue
        entry = None if queue is None else queue.entry(queue.max_offset - 1)
        record = None if entry is None else state.store.record(entry[0])
        if record is None or record.topic != state.topic:
            return
        if parse_request(record.properties) is not None and is_moved(record.properties):
            self.unfinished = record

    def _copies(self, unique_key: str, topic: str | None = None) -> list[SliceCopy]:
        return find_copies(self._state, unique_key, topic)

    def _replacement(self, copy: SliceCopy, unique_key: str, due_ms: int) -> InnerMessage:  # noqa: ARG002 - marks name their victim here
        now_ms = self._clock.now_ms
        if due_ms <= now_ms:
            due_ms = now_ms // SECOND_MS * SECOND_MS
        out_ms = timer_out_ms(due_ms, SECOND_MS)
        moved = moved_copy(copy.record, root=copy.root, due_ms=due_ms, out_ms=out_ms)
        moved.topic, moved.queue_id = self._state.inbound
        return moved

    def _mark(self, copy: SliceCopy) -> InnerMessage:
        return mark_message(self._state, copy, now_ms=self._clock.now_ms)
