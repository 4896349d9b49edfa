"""How waiting timers of a sliced store are taken back, or get another time.

Answers: which messages are put for that. A recall puts a mark. A move puts a copy with the new
time and a mark that removes the old one, in one write, so nothing between them is lost; if a power
loss takes the mark alone, the copy is the last message of the inbound queue and says whom it
replaces, and the mark is written again. A time that is past is the last second that is over: such
a copy is late when it arrives and leaves with the next step. Must not know: requests, connections.

Read on: `../change.py` for what a copy looks like, `copies.py` for how those of an id are found.
"""

from __future__ import annotations

import logging

from embedded_broker.errors import StoreError
from embedded_broker.store.inner import InnerMessage, PutStatus
from embedded_broker.timer.change import MoveOutcome, moved_copy
from embedded_broker.timer.recall import RecallOutcome
from embedded_broker.timer.request import parse_request, victim_root
from embedded_broker.timer.sliced.copies import (
    SliceCopy,
    find_copies,
    is_moved,
    mark_message,
)
from embedded_broker.timer.sliced.record import SECOND_MS
from embedded_broker.timer.sliced.state import SliceState
from rocketmq_py.clock import Clock
from rocketmq_py.protocol.delay import timer_out_ms
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.properties import Prop

__all__ = ["SliceChanges"]

_LOG = logging.getLogger(__name__)


class SliceChanges:
    """Recalls and moves of the timers of one store."""

    def __init__(self, state: SliceState, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self.unfinished: MessageRecord | None = None
        """A moved copy whose mark is missing: `finish` it before anything is fired."""

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

    def finish(self) -> bool:
        """Remove what the unfinished copy replaces; False when the store takes no message."""
        moved = self.unfinished
        if moved is None:
            return True
        victim = victim_root(moved.properties)
        for copy in find_copies(self._state, moved.properties.get(Prop.UNIQ_KEY, "")):
            waits = copy.source == victim and copy.marked_by is None and copy.waits
            if waits and not self._put(self._mark(copy)):
                return False
        self.unfinished = None
        return True

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

        Raises StoreError when the disk refuses; the timers not yet moved wait as before.
        """
        outcome = MoveOutcome.UNKNOWN
        for copy in find_copies(self._state, unique_key, topic):
            if copy.marked_by is not None:
                continue
            if not copy.waits:
                if outcome is MoveOutcome.UNKNOWN:
                    outcome = MoveOutcome.ALREADY_DUE
                continue
            if not self._put_pair(self._moved(copy, due_ms), self._mark(copy)):
                raise StoreError(f"timer {unique_key!r} keeps its time: the store takes no message")
            outcome = MoveOutcome.MOVED
        return outcome

    def _moved(self, copy: SliceCopy, due_ms: int) -> InnerMessage:
        now_ms = self._clock.now_ms
        if due_ms <= now_ms:
            due_ms = now_ms // SECOND_MS * SECOND_MS
        out_ms = timer_out_ms(due_ms, SECOND_MS)
        moved = moved_copy(copy.record, root=copy.source, due_ms=due_ms, out_ms=out_ms)
        moved.topic, moved.queue_id = self._state.inbound
        return moved

    def _mark(self, copy: SliceCopy) -> InnerMessage:
        return mark_message(self._state, copy, now_ms=self._clock.now_ms)

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
