"""Fire: out of memory into the messages' own topics, the last step of a timer.

Answers: which timers of a second leave, in which order, and when a mark removes one instead. The
copy names the commit-log offset of its source: one append is both the delivery and the proof, after
a crash, that it happened. Must not know: slices that are not in memory, when a second begins.

Read on: `../delivery.py` for the copy and the answers of a put, `recovery.py` for the proof.
"""

from embedded_broker.clocks.timeline import UNRANKED, Budget
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.timer.delivery import NEVER_ENQUEUED_MS, Delivery, Release, released_copy
from embedded_broker.timer.request import parse_request
from embedded_broker.timer.slices.cells import SliceWheel
from embedded_broker.timer.slices.marks import MarksByKey, hits_among
from embedded_broker.timer.slices.record import SECOND_MS, glance, source_of
from embedded_broker.timer.slices.state import SliceState
from embedded_broker.timer.stage import Stage
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.message_codec import MessageRecord, decode_record


class SliceFireService(Stage[SliceState]):
    """Releases what is due."""

    name = "SliceFireService"

    def __init__(self, state: SliceState, config: BrokerConfig) -> None:
        super().__init__(state)
        self.delivery = Delivery(state.store, config, state.lost, soon_ms=SECOND_MS // 2)
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
            record = self._record(wheel.number, cell.peek())
            marks = wheel.marks.at(second), state.kept_out.at(second)
            if record is None:
                state.lost["unreadable"] += 1
            elif record.commit_log_offset not in state.fired and not self._act(
                record, marks, record.store_timestamp, now_ms
            ):
                return Release.BLOCKED
            cell.pop()
            state.changes += 1
            self.delivery.done_with_one()
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
        view = self.state.log.read(wheel.number, cell.peek())
        return UNRANKED if view is None else source_of(view)

    def fire_late(self, limit_second: int, now_ms: int, budget: Budget) -> Release:
        """Release what came after its second was over, up to a second."""
        state = self.state
        late = state.late
        while late and late.peek().second <= limit_second:
            entry = late.peek()
            record = state.store.record(entry.source)
            marks = late.marks(entry.second), state.kept_out.at(entry.second)
            if record is None or record.topic != state.topic:
                state.lost["unreadable"] += 1
            elif entry.source not in state.done and not self._act(
                record, marks, NEVER_ENQUEUED_MS, now_ms
            ):
                return Release.BLOCKED
            late.pop()
            state.changes += 1
            self.delivery.done_with_one()
            if budget.exhausted():
                return Release.OUT_OF_TIME
        if not late:
            late.forget_marks()
        return Release.DRAINED

    def _record(self, number: int, position: int) -> MessageRecord | None:
        view = self.state.log.read(number, position)
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
        marks: tuple[MarksByKey, ...],
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
        hits = hits_among(marks, source, properties) if any(marks) else []
        if hits:
            if all(mark.root < source for mark in hits):
                # A mark that came later took the victim out of the count when it came.
                self.state.metrics.add(topic, -1, now_ms)
            self.recalled += 1
            return True
        message = released_copy(
            record, topic, request.real_queue_id, enqueue_ms=enqueue_ms, now_ms=now_ms
        )
        stored = self.delivery.put(message, source)
        if stored is None:
            return False
        self.state.metrics.add(topic, -1, now_ms)
        self.released += stored
        return True
