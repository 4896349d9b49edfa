"""The first half of the pipeline: from the timer topic into the wheel.

Answers: which slot a message goes to, when it hops instead, and when it is too late for the wheel.
Must not know: the order of the stages, clocks. After `TimerEnqueueGetService`,
`TimerEnqueuePutService` and `doEnqueue` of the original.

Read on: `dequeue.py` for the way out, `engine.py` for who steps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from embedded_broker.store.consume_queue import ConsumeQueue, Entry
from embedded_broker.timer.delivery import NEVER_ENQUEUED_MS
from embedded_broker.timer.recall import Mark
from embedded_broker.timer.request import (
    TimerRequest,
    parse_request,
    root_offset,
    topic_hash,
)
from embedded_broker.timer.run import TimerRun
from embedded_broker.timer.stage import Stage
from embedded_broker.timer.wheel.change import keep_passed_marks
from embedded_broker.timer.wheel.due_heap import Kind, Waiting
from embedded_broker.timer.wheel.hop_index import home_slot
from embedded_broker.timer.wheel.slots import NO_SLOT
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.timer_log import (
    ELSEWHERE,
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_EARLY,
    MAGIC_ROLL,
    RECORD_SIZE,
)
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop

__all__ = ["Queued", "TimerEnqueueGetService", "TimerEnqueuePutService"]


_TIMER_QUEUE: Final = (TIMER_TOPIC, 0)


class Queued(NamedTuple):
    """A message of the timer topic that is not in the wheel yet."""

    queue_offset: int
    offset_py: int
    size_py: int
    store_timestamp: int
    properties: dict[str, str]
    request: TimerRequest


class TimerEnqueueGetService(Stage[TimerState]):
    """Reads the timer topic's queue, entry by entry; what cannot be read is counted and passed."""

    name = "TimerEnqueueGetService"

    def __init__(self, state: TimerState) -> None:
        super().__init__(state)
        self._ahead: Queued | None = None
        self.read = 0
        self.skipped = 0

    @property
    def counters(self) -> dict[str, int]:
        """Entries read from the queue when something was behind, and those passed over.

        A message that enters the wheel as it arrives is read by nobody.
        """
        return {"read": self.read, "skipped": self.skipped}

    @property
    def queue(self) -> ConsumeQueue:
        """The timer topic's one queue."""
        queue = self.state.store.consume_queue(TIMER_TOPIC, 0, create=True)
        assert queue is not None  # noqa: S101 - create=True always gives one
        return queue

    @property
    def queue_depth(self) -> int:
        """Entries between the pointer and the queue's end."""
        queue = self.state.store.queues.get(_TIMER_QUEUE)
        if queue is None:
            return 0
        depth = queue.max_offset - self.state.curr_queue_offset
        return depth if depth > 0 else 0  # noqa: FURB136 - asked at every step, max() costs more

    def lag_ms(self, now_ms: int) -> int:
        """Age of the next entry's message."""
        queued = self.peek()
        return 0 if queued is None else max(0, now_ms - queued.store_timestamp)

    def peek(self) -> Queued | None:
        """Give the next message without moving; None at the end of the queue."""
        state = self.state
        ahead = self._ahead
        if ahead is not None and ahead.queue_offset == state.curr_queue_offset:
            return ahead
        queue = state.store.queues.get(_TIMER_QUEUE) or self.queue
        state.curr_queue_offset = max(state.curr_queue_offset, queue.min_offset)
        while state.curr_queue_offset < queue.max_offset:
            found = self._read(queue, state.curr_queue_offset)
            if found is not None:
                self._ahead = found
                self.read += 1
                return found
            self.skipped += 1
            state.curr_queue_offset += 1
        return None

    def _read(self, queue: ConsumeQueue, queue_offset: int) -> Queued | None:
        state = self.state
        entry = queue.entry(queue_offset)
        if entry is None:
            return None
        offset, size, _ = entry
        if offset in state.already_logged:
            state.already_logged.discard(offset)
            return None
        if offset in state.due_heap.done:
            return None
        head = state.timer_head(offset, size)
        if head is None:
            state.lost["unreadable"] += 1
            return None
        properties, store_timestamp = head
        request = parse_request(properties)
        if request is None:
            state.lost["malformed"] += 1
            return None
        return Queued(queue_offset, offset, size, store_timestamp, properties, request)


class TimerEnqueuePutService(Stage[TimerState]):
    """Links a message into the wheel, or hands it over if its slot is past."""

    name = "TimerEnqueuePutService"

    def __init__(self, state: TimerState) -> None:
        super().__init__(state)
        self.enqueued = 0
        self.late = 0

    @property
    def counters(self) -> dict[str, int]:
        """Records linked into the wheel, and messages whose slot was past (`late`)."""
        return {"enqueued": self.enqueued, "late": self.late}

    def lag_ms(self, now_ms: int) -> int:
        """How far the write pointer is behind the clock's slot."""
        return max(0, self.state.floor(now_ms) - self.state.curr_write_ms)

    def put(self, queued: Queued, now_ms: int) -> int | None:
        """Take one message. None when done, else the slot that is in the way.

        That is a passed slot whose timers a clock jump carries: its place in the wheel is needed
        after a crash. A shorter hop avoids it, but for the slot at the write pointer, which may
        be used only after they were rolled (`TimerDequeuePutMessageService.roll_carried`).
        """
        state = self.state
        request = queued.request
        slot_ms = request.out_ms
        if slot_ms < state.curr_read_ms:
            if self._take_late(queued, now_ms):
                self.late += 1
                return None
            slot_ms = self._displace(queued)
        hop_ms = self._hop(slot_ms)
        if hop_ms == slot_ms - state.precision_ms and Prop.TIMER_DEL_OFFSET in queued.properties:
            # A moved copy may be due in this very slot, and its marks must be there before.
            hop_ms -= state.precision_ms
        wheel = state.wheel
        slot = wheel.get_slot(hop_ms)
        if slot is NO_SLOT:
            in_way_ms = self._slot_in_way(hop_ms)
            while in_way_ms is not None:
                hop_ms -= state.precision_ms
                if hop_ms < state.curr_write_ms:
                    return in_way_ms
                in_way_ms = self._slot_in_way(hop_ms)
                slot = wheel.get_slot(hop_ms)
        home_ms = home_slot(queued.properties, request, state.precision_ms)
        magic = MAGIC_DEFAULT if request.deletes is None else MAGIC_DEFAULT | MAGIC_DELETE
        magic |= MAGIC_EARLY if home_ms < request.out_ms else 0
        magic |= MAGIC_ROLL if hop_ms != slot_ms else 0
        slot_ms = hop_ms
        write_ms = min(state.curr_write_ms, slot_ms)
        pos = state.log.append_record(
            slot.last_pos,
            magic,
            write_ms,
            slot_ms - write_ms,
            queued.offset_py,
            queued.size_py,
            topic_hash(request.real_topic),
        )
        self.enqueued += 1
        loaded = slot_ms in state.due_heap.loaded
        wheel.put_slot(
            slot_ms,
            pos if slot.first_pos < 0 else slot.first_pos,
            pos,
            slot.num + (1 if request.deletes is None else -1),
            slot.magic,
            waiting=not loaded,
            has_due=not magic & ELSEWHERE,
        )
        if loaded:
            state.take(
                magic,
                slot_ms,
                write_ms,
                queued.offset_py,
                queued.size_py,
                queued.properties,
                request,
                queued.store_timestamp,
            )
        elif magic & ELSEWHERE or magic & MAGIC_DELETE:
            self._note_ahead(queued, magic, home_ms)
        return None

    def _displace(self, queued: Queued) -> int:
        """Give the slot for a message whose own one is past, though its time has not come."""
        state = self.state
        slot_ms = state.curr_read_ms
        end_ms = state.displaced_until_ms = max(state.displaced_until_ms, slot_ms)
        if queued.request.deletes is None and Prop.TIMER_SRC_OFFSET in queued.properties:
            # The marks of a rolled copy went before it, and the read pointer may be past them.
            keep_passed_marks(state, queued.properties, queued.request, end_slot_ms=end_ms)
        return slot_ms

    def _note_ahead(self, queued: Queued, magic: int, home_ms: int) -> None:
        """Take note of what is special about a message in a slot that is not loaded."""
        state = self.state
        if magic & ELSEWHERE:
            state.hops.add(home_ms, queued.offset_py)
        if magic & MAGIC_DELETE:
            state.due_heap.note_entered(queued.queue_offset)

    def put_usual(self, slot_ms: int, offset_py: int, size_py: int, real_topic: str) -> bool:
        """Take a timer that was never moved, if `put` need not look at it; says if it was taken.

        It stops nowhere on its way and enters a slot that is still to be read.
        """
        state = self.state
        wheel, precision_ms, write_ms = state.wheel, state.precision_ms, state.curr_write_ms
        if (
            not 0 <= slot_ms - state.curr_read_ms < wheel.slots_total * precision_ms
            or slot_ms - write_ms >= state.roll_window * precision_ms
            or slot_ms in state.due_heap.loaded
        ):
            return False
        slot = wheel.get_slot(slot_ms)
        if slot is NO_SLOT and self._slot_in_way(slot_ms) is not None:
            return False
        _, first_pos, last_pos, num, magic = slot
        write_ms = min(write_ms, slot_ms)
        position = state.log.append_record(
            last_pos,
            MAGIC_DEFAULT,
            write_ms,
            slot_ms - write_ms,
            offset_py,
            size_py,
            topic_hash(real_topic),
        )
        self.enqueued += 1
        wheel.put_slot(slot_ms, position if first_pos < 0 else first_pos, position, num + 1, magic)
        return True

    def put_run(self, run: TimerRun, entries: Sequence[Entry], start: int) -> int:
        """Take the messages of a run from `start` on, up to one that `put` must look at.

        Those stop nowhere on their way and enter slots that are still to be read. Gives how many
        were taken; raises StoreError if none was, because the disk refuses.
        """
        if start == len(entries) - 1:
            offset_py, size_py, _ = entries[start]
            return self.put_usual(run.out_ms[start], offset_py, size_py, run.real_topics[start])
        state = self.state
        wheel, loaded, curr_write_ms = state.wheel, state.due_heap.loaded, state.curr_write_ms
        first_ms = state.curr_read_ms
        last_ms = min(
            curr_write_ms + state.roll_window * state.precision_ms - 1,
            first_ms + (wheel.slots_total - 1) * state.precision_ms,
        )
        slots: dict[int, list[int]] = {}
        records: list[tuple[int, int, int, int, int, int, int]] = []
        position, most = state.log.end, state.log.records_fit
        out_ms, topics = run.out_ms, run.real_topics
        for index in range(start, min(start + most, len(entries))):
            slot_ms = out_ms[index]
            if not first_ms <= slot_ms <= last_ms or slot_ms in loaded:
                break
            known = slots.get(slot_ms)
            if known is None:
                slot = wheel.get_slot(slot_ms)
                if slot is NO_SLOT:
                    if self._slot_in_way(slot_ms) is not None:
                        break
                    known = [position, -1, 0, slot.magic]
                else:
                    known = [slot.first_pos, slot.last_pos, slot.num, slot.magic]
                    if known[0] < 0:
                        known[0] = position
                slots[slot_ms] = known
            write_ms = min(curr_write_ms, slot_ms)
            offset_py, size_py, _ = entries[index]
            records.append(
                (
                    known[1],
                    MAGIC_DEFAULT,
                    write_ms,
                    slot_ms - write_ms,
                    offset_py,
                    size_py,
                    topic_hash(topics[index]),
                )
            )
            known[1] = position
            known[2] += 1
            position += RECORD_SIZE
        if records:
            state.log.append_records(records)
            for slot_ms, (first_pos, last_pos, num, magic) in slots.items():
                wheel.put_slot(slot_ms, first_pos, last_pos, num, magic)
            self.enqueued += len(records)
        return len(records)

    def _slot_in_way(self, slot_ms: int) -> int | None:
        """Give the held slot whose place in the wheel this slot would take."""
        state = self.state
        other_ms = state.wheel.stored_time_ms(slot_ms)
        if other_ms == slot_ms:
            return None
        if other_ms in state.due_heap.held:
            return other_ms
        if other_ms >= state.curr_read_ms:
            raise AssertionError(
                f"slot {slot_ms} would replace slot {other_ms}, which is still to be read "
                f"(read pointer {state.curr_read_ms})"
            )
        return None

    def _hop(self, slot_ms: int) -> int:
        """Give the slot where a message stops on its way: its own one if that is near enough.

        As `TimerMessageStore.doEnqueue`, but a hop that equals the target is none. A record also
        never lands on a place of the wheel whose old slot is still to be read: with a clock that
        was set back while slots were behind, it takes a shorter hop.
        """
        state = self.state
        precision_ms, window = state.precision_ms, state.roll_window
        write_ms = state.curr_write_ms
        behind = slot_ms - write_ms - window * precision_ms
        if behind >= 0:
            if behind < window // 3 * precision_ms:
                slot_ms = write_ms + window // 2 * precision_ms
            else:
                slot_ms = write_ms + window * precision_ms
        return min(slot_ms, state.curr_read_ms + (state.wheel.slots_total - 1) * precision_ms)

    def _take_late(self, queued: Queued, now_ms: int) -> bool:
        """Hand over a message whose slot is past and whose time has come."""
        state = self.state
        request, properties = queued.request, queued.properties
        root = root_offset(properties, queued.offset_py)
        if request.deletes is not None:
            if request.out_ms + state.precision_ms > now_ms:
                return False
            mark = Mark.of(properties, queued.offset_py)
            state.due_heap.add_late_mark(request.out_ms, request.deletes, mark, queued.queue_offset)
            return True
        due_ms = state.due_ms(
            properties, queued.store_timestamp, request.out_ms, state.release_precision_ms
        )
        if due_ms > now_ms:
            return False
        state.due_heap.add_late(
            Waiting(
                due_ms,
                root,
                queued.offset_py,
                queued.size_py,
                request.out_ms,
                request.out_ms,
                NEVER_ENQUEUED_MS,
                Kind.RELEASE,
                queued.queue_offset,
            )
        )
        return True
