"""The last step: what is due goes into its topic, or hops back into the timer topic.

Answers: what a delivered and a rolled copy look like, and when a mark removes a message instead.
Must not know: slots and files. After `TimerDequeuePutMessageService` and `convert` of the original.

Read on: `due_heap.py` for where due timers come from, `timer/delivery.py` for what happens when a
put fails, `recovery.py` for how the copies made here prove after a crash what was released.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

from embedded_broker.clocks.timeline import Budget
from embedded_broker.errors import StoreError
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.copies import Copies, stored_parts
from embedded_broker.store.inner import InnerMessage
from embedded_broker.timer.delivery import Delivery, Release, released_copy
from embedded_broker.timer.recall import Mark
from embedded_broker.timer.request import delete_key, is_rootless
from embedded_broker.timer.stage import Stage
from embedded_broker.timer.wheel.change import find_copies
from embedded_broker.timer.wheel.due_heap import KIND_AT, NOT_LATE, Entry, Kind, Waiting
from embedded_broker.timer.wheel.plain_timer import NEVER_ROLLED, ROLL_NOTE, Places, plain_due_ms
from embedded_broker.timer.wheel.state import TIMER_TOPIC_FIELD, TimerState
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop, decode_properties
from rocketmq_py.protocol.tag_hash import tags_code

__all__ = ["TimerDequeuePutMessageService", "code_of"]


_TOGETHER_MOST: Final = 32
_TOGETHER_BYTES: Final = 256 * 1024
_TIMER_QUEUE: Final = (TIMER_TOPIC, 0)
_TAGS: Final = b"TAGS\x01"


class TimerDequeuePutMessageService(Stage[TimerState]):
    """Puts due messages into their topics, and hops back into the timer topic."""

    name = "TimerDequeuePutMessageService"

    def __init__(self, state: TimerState, config: BrokerConfig, places: Places) -> None:
        super().__init__(state)
        self.places = places
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

    def release(
        self, limit_ms: int, now_ms: int, reach_ms: int, budget: Budget
    ) -> tuple[int, Release]:
        """Act on every entry due up to `limit_ms`; gives the number of messages delivered.

        Timers whose hop is over but whose time lies within `reach_ms` are carried, not rolled.
        """
        due_heap = self.state.due_heap
        before = self.released
        if not self.delivery.look_for_answers():
            return 0, Release.BLOCKED
        while (due_ms := due_heap.next_due_ms) is not None and due_ms <= limit_ms:
            is_carrying = reach_ms > now_ms and due_heap.heap[0][KIND_AT] == Kind.ROLL
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
                    return self.released - before, Release.BLOCKED
            self.delivery.done_with_one()
            if budget.exhausted():
                return self.released - before, Release.OUT_OF_TIME
        return self.released - before, Release.DRAINED

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
        elif entry.kind <= Kind.CARRIED:
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
        """Act on the first entries in one write; False when `_act` has to look at the first one.

        Taken are timers that nobody wants to see on their way, no mark and no put hook: releases,
        and hops after the first, whose properties our own roll wrote.
        """
        state = self.state
        due_heap, store = state.due_heap, state.store
        if not self.copies_at_once:
            return False
        copies = Copies(
            store.log.max_offset,
            store_host=store.store_host,
            store_timestamp=store.clock.now_ms,
        )
        heap = due_heap.heap
        taken: list[Entry] = []
        topics: dict[str, int] = {}
        rolled = 0
        bytes_end = copies.end + _TOGETHER_BYTES
        while heap and len(taken) < _TOGETHER_MOST and copies.end < bytes_end:
            entry = heap[0]
            due_ms, _, offset_py, size_py, out_ms, slot_ms, enqueue_ms, kind, queue_offset = entry
            if due_ms > limit_ms or kind > Kind.ROLL or queue_offset != NOT_LATE:
                break
            if kind == Kind.ROLL:
                if not self._hop_whole(copies, entry, now_ms, reach_ms):
                    break
                rolled += 1
            elif due_heap.marks(out_ms) or slot_ms > out_ms:
                break
            else:
                topic = self._copy_whole(copies, offset_py, size_py, enqueue_ms, now_ms)
                if topic is None:
                    break
                topics[topic] = topics.get(topic, 0) + 1
            taken.append(heappop(heap))
            if budget.exhausted():
                break
        if not taken:
            return False
        if not store.put_copies(copies):
            for entry in taken:
                heappush(heap, entry)
            return False
        for entry in taken:
            if entry[KIND_AT] == Kind.CARRIED:
                due_heap.finish(Waiting(*entry))
        for topic, number in topics.items():
            state.metrics.add(topic, -number, now_ms)
        self.released += len(taken) - rolled
        self.rolled += rolled
        return True

    def _carry_together(self, limit_ms: int, reach_ms: int, budget: Budget) -> bool:
        """Carry the first entries past their hops; False if `_act` has to look at the first."""
        state = self.state
        due_heap, log = state.due_heap, state.store.log
        precision_ms, step_ms = state.precision_ms, state.release_precision_ms
        heap, carried = due_heap.heap, 0
        while heap and carried < _TOGETHER_MOST:
            due_ms, _, offset_py, size_py, _, _, _, kind, _ = heap[0]
            if due_ms > limit_ms or kind != Kind.ROLL:
                break
            parts = stored_parts(log, offset_py, size_py, TIMER_TOPIC_FIELD)
            plain = None if parts is None else self.places.read(parts[1], parts[2], offset_py)
            if plain is None or (due_ms := plain_due_ms(plain, precision_ms, step_ms)) > reach_ms:
                break
            due_heap.carry(heappop(heap), due_ms)
            carried += 1
            if budget.exhausted():
                break
        return carried > 0

    def _hop_whole(self, copies: Copies, entry: Entry, now_ms: int, reach_ms: int) -> bool:
        """Add the copy of a timer that hops on as `_roll` makes it; False if it cannot.

        The counts stay: one timer leaves the wheel and the same one comes back.
        """
        _, root, offset_py, size_py, out_ms, _, enqueue_ms, _, _ = entry
        state = self.state
        parts = stored_parts(state.store.log, offset_py, size_py, TIMER_TOPIC_FIELD)
        if parts is None or size_py > state.store.body_size_max:
            return False
        source, before, stored = parts
        plain = self.places.read(before, stored, offset_py)
        queue = state.store.queues.get(_TIMER_QUEUE)
        if plain is None or plain[4] == NEVER_ROLLED or queue is None or plain[1] != out_ms:
            return False
        if plain_due_ms(plain, state.precision_ms, state.release_precision_ms) <= reach_ms:
            return False  # it is carried
        properties = (
            b"%b\x02TIMER_DUE_MS\x01%d\x02TIMER_ROLL_TIMES\x01%d\x02TIMER_ENQUEUE_MS\x01%d\x02"
            b"TIMER_DEQUEUE_MS\x01%d\x02TIMER_SRC_OFFSET\x01%d\x02TIMER_ROOT_OFFSET\x01%d\x02"
        ) % (
            before[: before.find(ROLL_NOTE)],
            plain_due_ms(plain, state.precision_ms, 1),
            plain[4] + 1,
            enqueue_ms,
            now_ms,
            offset_py,
            root,
        )
        return copies.add(source, properties, queue, TIMER_TOPIC_FIELD, code_of(before))

    def _copy_whole(
        self, copies: Copies, offset_py: int, size_py: int, enqueue_ms: int, now_ms: int
    ) -> str | None:
        """Add the copy of a timer as `_release` makes it; its topic, or None if it cannot."""
        store = self.state.store
        parts = stored_parts(store.log, offset_py, size_py, TIMER_TOPIC_FIELD)
        if parts is None or size_py > store.body_size_max:
            return None
        source, before, _ = parts
        if (
            before[-1:] != b"\x02"
            # What a release replaces (a rolled copy has it), and a delay level.
            or b"QUEUE_MS\x01" in before
            or b"TIMER_SRC_OFFSET\x01" in before
            or b"DELAY\x01" in before
        ):
            return None
        end = before[before.rfind(b"\x02REAL_TOPIC\x01") :]
        place = self.places.at(end)
        if place is None:
            return None
        topic, queue_id, field, _ = place
        queue = store.queues.get((topic, queue_id)) or store.consume_queue(
            topic, queue_id, create=True
        )
        if queue is None:
            return None
        properties = (
            b"%bTIMER_ENQUEUE_MS\x01%d\x02TIMER_DEQUEUE_MS\x01%d\x02TIMER_SRC_OFFSET\x01%d\x02"
            % (before, enqueue_ms, now_ms, offset_py)
        )
        return topic if copies.add(source, properties, queue, field, code_of(before)) else None

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
        if entry.kind == Kind.ROLL:
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
        return True

    def _roll(self, entry: Waiting, record: MessageRecord, now_ms: int) -> bool:
        """Put the message back into the timer topic, on its way to a later slot."""
        state = self.state
        properties = record.properties
        is_new_root = entry.kind != Kind.ROLL_MARK and is_rootless(properties)
        # From here on it has a root, and marks that name an earlier copy would miss it.
        if is_new_root and self._was_marked(entry, record):
            self.recalled += 1
            state.due_heap.note_removed(entry)
            return True
        times = properties.get(Prop.TIMER_ROLL_TIMES, "0")
        if entry.kind != Kind.ROLL_MARK:
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
        if entry.kind != Kind.ROLL_MARK:
            state.metrics.add(topic, -1, now_ms)
        self.rolled += stored
        return True


def code_of(properties: bytes) -> int:
    """Give the tags code of a message whose properties these are."""
    return tags_code(decode_properties(properties).get(Prop.TAGS)) if _TAGS in properties else 0
