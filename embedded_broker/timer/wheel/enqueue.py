"""Enqueue: from the timer topic into the wheel, the first half of the pipeline.

Answers: which slot a message goes to, when it hops (rolls, in the original) instead, and when it
is too late for the wheel.
Must not know: the order of the stages, clocks. After `TimerEnqueueGetService`,
`TimerEnqueuePutService` and `doEnqueue` of the original.

Read on: `dequeue.py` for the way out, `engine.py` for who steps it.
"""

from collections.abc import Sequence

from embedded_broker.store.consume_queue import ConsumeQueue, Entry
from embedded_broker.timer.delivery import NEVER_ENQUEUED_MS
from embedded_broker.timer.request import TimerMessage, topic_hash
from embedded_broker.timer.stage import Stage
from embedded_broker.timer.timer_run import TimerRun
from embedded_broker.timer.wheel.change import keep_passed_marks
from embedded_broker.timer.wheel.due_heap import EntryKind, Waiting
from embedded_broker.timer.wheel.slots import NO_SLOT, Slot
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.timer_log import (
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    RECORD_SIZE,
)
from rocketmq_py.protocol.properties import Prop


class TimerEnqueueGetService(Stage[TimerState]):
    """Reads the timer topic's queue, entry by entry; what cannot be read is counted and passed."""

    name = "TimerEnqueueGetService"

    def __init__(self, state: TimerState) -> None:
        super().__init__(state)
        self._ahead: TimerMessage | None = None
        self.read = 0
        self.skipped = 0

    @property
    def counters(self) -> dict[str, int]:
        """Entries read from the queue when something was behind, and those passed over.

        A message that enters the wheel as it arrives is read by nobody.
        """
        return {"read": self.read, "skipped": self.skipped}

    @property
    def queue_depth(self) -> int:
        """Entries between the pointer and the queue's end."""
        depth = self.state.queue.max_offset - self.state.curr_queue_offset
        return depth if depth > 0 else 0  # noqa: FURB136 - asked at every step, max() costs more

    def lag_ms(self, now_ms: int) -> int:
        """Age of the next entry's message."""
        queued = self.peek()
        return 0 if queued is None else max(0, now_ms - queued.store_timestamp)

    def peek(self) -> TimerMessage | None:
        """Give the next message without moving; None at the end of the queue."""
        state = self.state
        ahead = self._ahead
        if ahead is not None and ahead.queue_offset == state.curr_queue_offset:
            return ahead
        queue = state.queue
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

    def _read(self, queue: ConsumeQueue, queue_offset: int) -> TimerMessage | None:
        state = self.state
        entry = queue.entry(queue_offset)
        if entry is None:
            return None
        offset, size, _ = entry
        if state.is_done(offset):
            state.already_logged.discard(offset)
            return None
        message = state.message(offset, size, queue_offset)
        if message is None:
            is_there = state.timer_head(offset, size) is not None
            state.lost["malformed" if is_there else "unreadable"] += 1
        return message


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

    def put(self, message: TimerMessage, now_ms: int) -> int | None:
        """Take one message. None when done, else the slot that is in the way.

        That is a passed slot whose timers a clock jump carries: its place in the wheel is needed
        after a crash. A shorter hop avoids it, but for the slot at the write pointer, which may
        be used only after they were rolled (`TimerDequeuePutMessageService.roll_carried`).
        """
        state = self.state
        wheel, precision_ms = state.wheel, state.precision_ms
        offset_py, size_py, _, properties, request, _ = message
        final_ms = request.out_ms
        if final_ms < state.curr_read_ms:
            if self._take_late(message, now_ms):
                self.late += 1
                return None
            final_ms = self._displace(message)
        slot_ms = self._hop(final_ms)
        if slot_ms == final_ms - precision_ms and Prop.TIMER_DEL_OFFSET in properties:
            # A moved copy may be due in this very slot, and its marks must be there before.
            slot_ms -= precision_ms
        slot = wheel.get_slot(slot_ms)
        while slot is NO_SLOT and (in_way_ms := self._slot_in_way(slot_ms)) is not None:
            slot_ms -= precision_ms
            if slot_ms < state.curr_write_ms:
                return in_way_ms
            slot = wheel.get_slot(slot_ms)
        magic = MAGIC_DEFAULT
        if request.deletes is not None:
            magic |= MAGIC_DELETE
        if slot_ms != final_ms:
            magic |= MAGIC_ROLL
        self._link(slot_ms, slot, magic, offset_py, size_py, request.real_topic)
        if slot_ms in state.due_heap.loaded:
            write_ms = min(state.curr_write_ms, slot_ms)
            state.take(magic, slot_ms, write_ms, message)
            return None
        if magic & MAGIC_DELETE:
            state.due_heap.note_entered(message.queue_offset)
        return None

    def _displace(self, message: TimerMessage) -> int:
        """Give the slot for a message whose own one is past, though its time has not come."""
        state = self.state
        slot_ms = state.curr_read_ms
        end_ms = state.displaced_until_ms = max(state.displaced_until_ms, slot_ms)
        if message.request.deletes is None and Prop.TIMER_SRC_OFFSET in message.properties:
            # The marks of a rolled copy went before it, and the read pointer may be past them.
            keep_passed_marks(state, message, end_slot_ms=end_ms)
        return slot_ms

    def put_usual(self, slot_ms: int, offset_py: int, size_py: int, real_topic: str) -> bool:
        """Take a timer that was never moved, if `put` need not look at it; says if it was taken.

        It stops nowhere on its way and enters a slot that is still to be read.
        """
        state = self.state
        wheel, precision_ms = state.wheel, state.precision_ms
        if (
            not 0 <= slot_ms - state.curr_read_ms < wheel.slots_total * precision_ms
            or slot_ms - state.curr_write_ms >= state.roll_window * precision_ms
            or slot_ms in state.due_heap.loaded
        ):
            return False
        slot = wheel.get_slot(slot_ms)
        if slot is NO_SLOT and self._slot_in_way(slot_ms) is not None:
            return False
        self._link(slot_ms, slot, MAGIC_DEFAULT, offset_py, size_py, real_topic)
        return True

    def _link(
        self, slot_ms: int, slot: Slot, magic: int, offset_py: int, size_py: int, real_topic: str
    ) -> None:
        """Append the record of a message, and let its slot end with it."""
        state = self.state
        _, first_pos, last_pos, num, slot_magic = slot
        write_ms = min(state.curr_write_ms, slot_ms)
        position = state.log.append_record(
            last_pos,
            magic,
            write_ms,
            slot_ms - write_ms,
            offset_py,
            size_py,
            topic_hash(real_topic),
        )
        self.enqueued += 1
        state.wheel.put_slot(
            slot_ms,
            position if first_pos < 0 else first_pos,
            position,
            num + (-1 if magic & MAGIC_DELETE else 1),
            slot_magic,
            waiting=slot_ms not in state.due_heap.loaded,
        )

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
        last_ms = state.curr_read_ms + (state.wheel.slots_total - 1) * precision_ms
        return slot_ms if slot_ms < last_ms else last_ms  # noqa: FURB136 - with every timer

    def _take_late(self, message: TimerMessage, now_ms: int) -> bool:
        """Hand over a message whose slot is past and whose time has come."""
        state, out_ms = self.state, message.request.out_ms
        if message.request.deletes is not None:
            if out_ms + state.precision_ms > now_ms:
                return False
            state.keep_late_mark(message)
            return True
        due_ms = state.release_ms(message)
        if due_ms > now_ms:
            return False
        state.due_heap.add_late(
            Waiting(
                due_ms,
                message.root,
                message.offset_py,
                message.size_py,
                out_ms,
                out_ms,
                NEVER_ENQUEUED_MS,
                EntryKind.RELEASE,
                message.queue_offset,
            )
        )
        return True
