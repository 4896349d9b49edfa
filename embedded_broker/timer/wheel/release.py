"""Release of one due timer: into its topic, or on to the next part of a delay beyond the wheel.

Answers: what a delivered and a rolled copy look like, and when a mark removes a message instead.
Must not know: slots and files. After `TimerDequeuePutMessageService` and `convert` of the original.

Read on: `due_heap.py` for where due timers come from, `batch.py` for many of them at once,
`timer/delivery.py` for what happens when a put fails, `recovery.py` for how the copies made here
prove after a crash what was released.
"""

from heapq import heappop
from typing import Final

from embedded_broker.clocks.timeline import Budget
from embedded_broker.errors import StoreError
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.copies import stored_parts
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.delivery import Delivery, Release, released_copy
from embedded_broker.timer.recall import Mark
from embedded_broker.timer.request import delete_key, is_rootless
from embedded_broker.timer.stage import Stage
from embedded_broker.timer.wheel.batch import Batch
from embedded_broker.timer.wheel.change import marked_by
from embedded_broker.timer.wheel.due_heap import KIND_AT, NOT_LATE, EntryKind, Waiting
from embedded_broker.timer.wheel.plain_timer import Destinations, plain_due_ms
from embedded_broker.timer.wheel.state import TIMER_TOPIC_FIELD, TimerState
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop

_CARRIED_MOST: Final = 32


class TimerDequeuePutMessageService(Stage[TimerState]):
    """Puts due messages into their topics, and hops back into the timer topic."""

    name = "TimerDequeuePutMessageService"

    def __init__(self, state: TimerState, config: BrokerConfig, destinations: Destinations) -> None:
        super().__init__(state)
        self.destinations = destinations
        self.delivery = Delivery(
            state.store, config, state.lost, soon_ms=500 * state.precision_ms // 1000
        )
        self.released = 0
        self.rolled = 0
        self.recalled = 0

    @property
    def counters(self) -> dict[str, int]:
        """Messages delivered, hops made, timers that a mark removed, messages given up."""
        return {
            "released": self.released,
            "rolled": self.rolled,
            "recalled": self.recalled,
            "dropped": self.state.lost.total(),
        }

    @property
    def copies_at_once(self) -> bool:
        """Whether nobody wants to see the messages that are released on their way."""
        return self.delivery.is_at_home and self.state.store.takes_copies

    def note_copies(self, number: int) -> None:
        """Count messages that were delivered in one write of another's."""
        self.released += number
        self.delivery.retry_wait_ms = 0
        self.delivery.done_with_one()

    @property
    def queue_depth(self) -> int:
        """Timers in memory, due or soon due."""
        return len(self.state.due_heap.heap)

    def lag_ms(self, now_ms: int) -> int:
        """How long the first timer is overdue."""
        due_ms = self.state.due_heap.next_due_ms
        return 0 if due_ms is None else max(0, now_ms - due_ms)

    def release(self, limit_ms: int, now_ms: int, reach_ms: int, budget: Budget) -> Release:
        """Act on every entry due up to `limit_ms`; says how that ended.

        Timers whose hop is over but whose time lies within `reach_ms` are carried, not rolled.
        """
        due_heap = self.state.due_heap
        if not self.delivery.look_for_answers():
            return Release.BLOCKED
        while (due_ms := due_heap.next_due_ms) is not None and due_ms <= limit_ms:
            is_carrying = reach_ms > now_ms and due_heap.heap[0][KIND_AT] == EntryKind.ROLL
            if not (
                (is_carrying and self._carry_together(limit_ms, reach_ms, budget))
                or self._act_together(limit_ms, now_ms, reach_ms, budget)
            ):
                entry = due_heap.pop()
                try:
                    is_done = self._act(entry, now_ms, reach_ms)
                except StoreError:
                    due_heap.add(entry)
                    raise
                if not is_done:
                    due_heap.add(entry)
                    return Release.BLOCKED
            self.delivery.done_with_one()
            if budget.exhausted():
                return Release.OUT_OF_TIME
        return Release.DRAINED

    def roll_carried(self, slot_ms: int, now_ms: int) -> bool:
        """Put the timers that were carried past a hop back into the timer topic after all."""
        due_heap = self.state.due_heap
        taken = due_heap.carried(slot_ms)
        try:
            while taken:
                entry = taken[-1]
                record = self.state.timer_record(entry.offset_py, entry.size_py)
                if record is not None and not self._roll(entry, record, now_ms):
                    break
                due_heap.finish(taken.pop())
        finally:
            for one in taken:
                due_heap.add(one)
        if taken:
            return False
        due_heap.let_go(slot_ms)
        return True

    def _act(self, entry: Waiting, now_ms: int, reach_ms: int) -> bool:
        """Do what the entry asks for; False when the put must be tried again."""
        state = self.state
        record = state.timer_record(entry.offset_py, entry.size_py)
        if record is None:
            state.lost["unreadable"] += 1
        elif entry.kind <= EntryKind.CARRIED:
            is_asked = self.delivery.waits_for(entry.offset_py)
            if not is_asked and self._is_recalled(entry, record):
                self.recalled += 1
                state.due_heap.note_removed(entry)
            elif not self._release(entry, record, now_ms):
                return False
        elif self._carry(entry, record, reach_ms):
            return True
        elif not self._roll(entry, record, now_ms):
            return False
        state.due_heap.finish(entry)
        return True

    # --- many in one write -------------------------------------------------------------------

    def _act_together(self, limit_ms: int, now_ms: int, reach_ms: int, budget: Budget) -> bool:
        """Act on the first entries in one write; False when `_act` has to look at the first one."""
        if not self.copies_at_once:
            return False
        batch = Batch(self.state, self.destinations, reach_ms)
        batch.take_due(limit_ms, now_ms, budget)
        if not batch.gone or not batch.write():
            return False
        batch.keep()
        self.released += len(batch.gone) - batch.rolled
        self.rolled += batch.rolled
        return True

    def _carry_together(self, limit_ms: int, reach_ms: int, budget: Budget) -> bool:
        """Carry the first entries past their hops; False if `_act` has to look at the first."""
        state = self.state
        due_heap, log = state.due_heap, state.store.log
        precision_ms, step_ms = state.precision_ms, state.release_precision_ms
        heap, carried = due_heap.heap, 0
        while heap and carried < _CARRIED_MOST:
            due_ms, _, offset_py, size_py, _, _, _, kind, _ = heap[0]
            if due_ms > limit_ms or kind != EntryKind.ROLL:
                break
            parts = stored_parts(log, offset_py, size_py, TIMER_TOPIC_FIELD)
            plain = None if parts is None else self.destinations.read(parts[1], parts[2], offset_py)
            if plain is None or (due_ms := plain_due_ms(plain, precision_ms, step_ms)) > reach_ms:
                break
            due_heap.carry(heappop(heap), due_ms)
            carried += 1
            if budget.exhausted():
                break
        return carried > 0

    def _is_recalled(self, entry: Waiting, record: MessageRecord) -> bool:
        state = self.state
        properties = record.properties
        topic = properties[Prop.REAL_TOPIC]
        came_behind = entry.queue_offset != NOT_LATE or entry.slot_ms > entry.out_ms
        if came_behind and Prop.TIMER_SRC_OFFSET in properties:
            return self._was_marked(entry, record)
        marks = state.due_heap.marks(entry.out_ms)
        if not marks:
            return False
        key = delete_key(topic, properties.get(Prop.UNIQ_KEY, ""))
        rootless = is_rootless(properties)
        hits = [mark for mark in marks.get(key, ()) if mark.names(entry.root) or rootless]
        if not hits:
            return False
        if all(mark.root < entry.root for mark in hits):
            # A mark that came later took the victim out of the count when it came.
            state.metrics.add(topic, -1, record.store_timestamp)
        return True

    def _was_marked(self, entry: Waiting, record: MessageRecord) -> bool:
        """Look a rolled copy up whose mark is not in memory, or named an earlier copy of it."""
        mark = marked_by(self.state, record.properties, entry.root)
        if mark is not None and mark < entry.root:
            topic = record.properties[Prop.REAL_TOPIC]
            self.state.metrics.add(topic, -1, record.store_timestamp)
        return mark is not None

    def _carry(self, entry: Waiting, record: MessageRecord, reach_ms: int) -> bool:
        """Keep an entry in memory past its hop when its time is within reach."""
        state = self.state
        properties = record.properties
        if entry.kind == EntryKind.ROLL:
            due_ms = state.due_ms(
                properties, record.store_timestamp, entry.out_ms, state.release_precision_ms
            )
            if due_ms > reach_ms:
                return False
            state.due_heap.carry(entry, due_ms)
            return True
        if entry.out_ms >= reach_ms:
            return False
        mark = Mark.of(properties, entry.offset_py)
        key, end_ms = properties[Prop.TIMER_DEL_UNIQKEY], state.mark_end_ms(entry.out_ms)
        state.due_heap.carry_mark(entry, key, mark, end_slot_ms=end_ms)
        return True

    def _release(self, entry: Waiting, record: MessageRecord, now_ms: int) -> bool:
        """Deliver: the copy names its source, which is also the proof that it was delivered."""
        topic, queue_id = record.properties[Prop.REAL_TOPIC], record.properties[Prop.REAL_QID]
        message = released_copy(
            record, topic, int(queue_id), enqueue_ms=entry.enqueue_ms, now_ms=now_ms
        )
        stored = self.delivery.put(message, entry.offset_py)
        if stored is None:
            return False
        self.state.metrics.add(topic, -1, now_ms)
        self.released += stored
        if self.delivery.escape is not None:
            self.state.due_heap.note_removed(entry)  # the copy that proves it lies elsewhere
        return True

    def _roll(self, entry: Waiting, record: MessageRecord, now_ms: int) -> bool:
        """Put the message back into the timer topic, on its way to a later slot."""
        state = self.state
        properties = record.properties
        is_new_root = entry.kind != EntryKind.ROLL_MARK and is_rootless(properties)
        # From here on it has a root, and marks that name an earlier copy would miss it.
        if is_new_root and self._was_marked(entry, record):
            self.recalled += 1
            state.due_heap.note_removed(entry)
            return True
        times = properties.get(Prop.TIMER_ROLL_TIMES, "0")
        if entry.kind != EntryKind.ROLL_MARK:
            # Exact whatever the release precision: the files never depend on it.
            due_ms = state.due_ms(properties, record.store_timestamp, entry.out_ms, 1)
            properties[Prop.TIMER_DUE_MS] = str(due_ms)
        properties[Prop.TIMER_ROLL_TIMES] = str(int(times) + 1 if times.isdecimal() else 1)
        properties[Prop.TIMER_ENQUEUE_MS] = str(entry.enqueue_ms)
        properties[Prop.TIMER_DEQUEUE_MS] = str(now_ms)
        properties[Prop.TIMER_SRC_OFFSET] = str(entry.offset_py)
        properties[Prop.TIMER_ROOT_OFFSET] = str(entry.root)
        topic = properties[Prop.REAL_TOPIC]
        message = InnerMessage.copy_of(record, TIMER_TOPIC, 0, properties)
        stored = self.delivery.put(message, entry.offset_py)
        if stored is None:
            return False
        if entry.kind != EntryKind.ROLL_MARK:
            state.metrics.add(topic, -1, now_ms)
        self.rolled += stored
        return True
