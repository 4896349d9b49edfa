"""Out of memory into the messages' own topics: the last step of a timer.

Answers: what a released copy looks like, when a mark removes a timer instead, and what happens
when a put fails. The copy names the commit-log offset of its source: one append is both the
delivery and the proof, after a crash, that it happened. Must not know: slices that are not in
memory, when a second begins.

Read on: `../put_verdict.py` for the answers of a put, `recovery.py` for the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from embedded_broker.clocks.timeline import UNRANKED, Budget
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.inner import InnerMessage
from embedded_broker.timer.request import delete_key, parse_request
from embedded_broker.timer.slices.cells import Mark, SliceWheel
from embedded_broker.timer.slices.copies import is_moved
from embedded_broker.timer.slices.record import SECOND_MS, glance, source_of
from embedded_broker.timer.slices.state import SliceState
from embedded_broker.timer.stage import Stage
from embedded_broker.timer.wheel.put_verdict import (
    ATTEMPTS,
    DONE,
    HOPELESS,
    SOON_BETTER,
    UNKNOWN_ERROR_WAIT_MS,
    Release,
)
from embedded_broker.timer.wheel.state import NEVER_ENQUEUED_MS
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.message_codec import MessageRecord, decode_record
from rocketmq_py.protocol.properties import Prop

__all__ = ["SliceFireService", "released_copy"]


class SliceFireService(Stage[SliceState]):
    """Releases what is due.

    A put that fails is tried again after `retry_wait_ms`; meanwhile nothing else is released, so
    the order stays.
    """

    name = "SliceFireService"

    def __init__(self, state: SliceState, config: BrokerConfig) -> None:
        super().__init__(state)
        self._config = config
        self._attempts = 0
        self.retry_wait_ms = 0
        """How long to wait before the next release; 0 when nothing failed."""
        self.released = 0
        self.recalled = 0

    @property
    def counters(self) -> dict[str, int]:
        """Messages delivered, timers that a mark removed, messages given up."""
        return {
            "released": self.released,
            "recalled": self.recalled,
            "dropped": self.state.lost.total(),
        }

    @property
    def queue_depth(self) -> int:
        """Timers of the first second that holds any, and late ones."""
        state = self.state
        wheel = state.current
        second = None if wheel is None else wheel.next_second
        waiting = 0 if wheel is None or second is None else wheel.count(second)
        return len(state.late) + waiting

    def lag_ms(self, now_ms: int) -> int:
        """For how long the first timer is overdue."""
        state = self.state
        in_memory = None if state.current is None else state.current.next_second
        known = [one for one in (state.late.next_second, in_memory) if one is not None]
        return max(0, now_ms - min(known) * SECOND_MS) if known else 0

    def fire_cell(self, wheel: SliceWheel, second: int, now_ms: int, budget: Budget) -> Release:
        """Release the timers of a second in the order in which they came."""
        state = self.state
        cell = wheel.cell(second)
        if cell is None:
            return Release.DRAINED
        if not state.fired:
            cell.arrange()
        while len(cell):
            position, kept = cell.peek()
            record = self._record(wheel.number, position, kept)
            if record is None:
                state.lost["unreadable"] += 1
            elif record.commit_log_offset not in state.fired and not self._act(
                record, self._marks(second, cell.marks), record.store_timestamp, now_ms
            ):
                return Release.BLOCKED
            cell.pop()
            state.changes += 1
            self._attempts = 0
            if record is not None:
                state.fired.add(record.commit_log_offset)
            if budget.exhausted():
                return Release.OUT_OF_TIME
        return Release.DRAINED

    def head_rank(self, wheel: SliceWheel, second: int) -> int:
        """Give the source of the first timer of a second; UNRANKED when there is none."""
        cell = wheel.cell(second) if wheel.next_second == second else None
        if cell is None or not len(cell):
            return UNRANKED
        if not self.state.fired:
            cell.arrange()
        position, kept = cell.peek()
        view = self.state.log.read(wheel.number, position) if kept is None else memoryview(kept)
        return UNRANKED if view is None else source_of(view)

    def fire_late(self, limit_second: int, now_ms: int, budget: Budget) -> Release:
        """Release what came after its second was over, up to a second."""
        state = self.state
        late = state.late
        while late and late.peek().second <= limit_second:
            entry = late.peek()
            record = state.store.record(entry.source)
            marks = self._marks(entry.second, late.marks(entry.second))
            if record is None or record.topic != state.topic:
                state.lost["unreadable"] += 1
            elif entry.source not in state.done and not self._act(
                record, marks, NEVER_ENQUEUED_MS, now_ms
            ):
                return Release.BLOCKED
            late.pop()
            state.changes += 1
            self._attempts = 0
            if budget.exhausted():
                return Release.OUT_OF_TIME
        if not late:
            late.forget_marks()
        return Release.DRAINED

    def _marks(self, second: int, marks: Mapping[str, list[Mark]]) -> Mapping[str, Iterable[Mark]]:
        """Give the marks of a second with those that a hold keeps in the inbound queue."""
        kept_out = self.state.kept_out
        if not kept_out or second not in kept_out:
            return marks
        more = kept_out[second]
        return {key: [*marks.get(key, ()), *more.get(key, ())] for key in {*marks, *more}}

    def _record(self, number: int, position: int, kept: bytes | None) -> MessageRecord | None:
        view = self.state.log.read(number, position) if kept is None else memoryview(kept)
        if view is None:
            return None
        try:
            return decode_record(view)
        except RecordError:
            seen = glance(view)
            if seen is not None:
                now_ms = self.state.store.last_store_timestamp
                self.state.metrics.add(seen.topic, -1, now_ms)
            return None

    def _act(
        self,
        record: MessageRecord,
        marks: Mapping[str, Iterable[Mark]],
        enqueue_ms: int,
        now_ms: int,
    ) -> bool:
        """Release a message unless it was taken back; False when the put must be tried again."""
        source, properties = record.commit_log_offset, record.properties
        if source in self.state.done:
            return True
        request = parse_request(properties)
        if request is None:
            self.state.lost["malformed"] += 1
            return True
        topic = request.real_topic
        if marks and self._is_recalled(source, properties, topic, marks, now_ms):
            self.recalled += 1
            return True
        message = released_copy(record, topic, request.real_queue_id, enqueue_ms, now_ms)
        stored = self._put(message)
        if stored is None:
            return False
        self.state.metrics.add(topic, -1, now_ms)
        self.released += stored
        return True

    def _is_recalled(
        self,
        source: int,
        properties: dict[str, str],
        topic: str,
        marks: Mapping[str, Iterable[Mark]],
        now_ms: int,
    ) -> bool:
        key = delete_key(topic, properties.get(Prop.UNIQ_KEY, ""))
        moved = is_moved(properties)
        hits = [mark for mark in marks.get(key, ()) if mark.hits(source, is_moved=moved)]
        if not hits:
            return False
        if all(mark.source < source for mark in hits):
            # A mark that came later took the victim out of the count when it came.
            self.state.metrics.add(topic, -1, now_ms)
        return True

    def _put(self, message: InnerMessage) -> bool | None:
        """Put and judge the answer: True stored, False given up and counted, None try again."""
        status = self.state.store.put(message).status
        if status in DONE:
            return True
        self._attempts += 1
        if status in HOPELESS:
            return self._drop("refused")
        if status in SOON_BETTER:
            if self._attempts >= ATTEMPTS and not self._config.flag("timerEnableRetryUntilSuccess"):
                return self._drop("gave up")
            self.retry_wait_ms = SECOND_MS // 2
            return None
        if self._config.flag("timerSkipUnknownError"):
            return self._drop("unknown error")
        self.retry_wait_ms = UNKNOWN_ERROR_WAIT_MS
        return None

    def _drop(self, reason: str) -> bool:
        self.state.lost[reason] += 1
        return False


def released_copy(
    record: MessageRecord, topic: str, queue_id: int, enqueue_ms: int, now_ms: int
) -> InnerMessage:
    """Make the message that a release puts; everything but its place is the same."""
    properties = dict(record.properties)
    added = {
        Prop.TIMER_ENQUEUE_MS: str(enqueue_ms),
        Prop.TIMER_DEQUEUE_MS: str(now_ms),
        Prop.TIMER_SRC_OFFSET: str(record.commit_log_offset),
    }
    encoded: bytes | None = None
    before = record.properties_bytes
    if added.keys().isdisjoint(properties) and before.endswith(b"\x02"):
        tail = "".join([f"{name}\x01{value}\x02" for name, value in added.items()])
        encoded = before + tail.encode()
    properties.update(added)
    return InnerMessage(
        topic,
        queue_id,
        record.body,
        properties,
        record.flag,
        record.sys_flag,
        record.born_timestamp,
        record.born_host,
        record.reconsume_times,
        properties_bytes=encoded,
    )
