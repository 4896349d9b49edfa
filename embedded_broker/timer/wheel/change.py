"""Lookup of the wheel's timers by id, and how one gets another time.

Answers: which copies and marks of an id were stored, which copy still waits, and which slot a
moved copy takes. Found through the key index of the commit log, not kept in memory. Must not know:
requests, connections, and what the wheel makes of a copy or a mark.

A mark of RocketMQ's removes every copy of its id in its slot. Ours names its one victim, but a real
broker that opens this store does not read that, so a copy stays out of slots that hold a mark of
its id: it goes to the next one, and leaves at its own time all the same.

Read on: `timer/change.py` for the order of writing, `timer/recall.py` for marks and copies,
`due_heap.py` for how marks work, `engine.py` for who calls.
"""

from collections.abc import Collection, Iterator, Mapping

from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.change import Changes, moved_copy
from embedded_broker.timer.recall import Mark, PendingCopy, copies_among, messages_with_key
from embedded_broker.timer.request import TimerMessage, TimerRequest, parse_request, source_offset
from embedded_broker.timer.wheel.state import TimerState
from rocketmq_py.clock import Clock
from rocketmq_py.protocol.delay import timer_out_ms
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop


def find_copies(state: TimerState, unique_key: str, topic: str | None = None) -> list[PendingCopy]:
    """Find every timer that was sent with this id, oldest first; `topic` None means any."""
    return copies_among(
        messages_with_key(state.store, unique_key, TIMER_TOPIC),
        topic,
        waits=_Judge(state).waits,
        hits=lambda mark, copy: copy.is_meant(mark.victim_root),
    )


def marked_by(state: TimerState, properties: Mapping[str, str], root: int) -> int | None:
    """Give the first mark that hits the timer with this first copy; None without one."""
    topic, unique_key = properties[Prop.REAL_TOPIC], properties.get(Prop.UNIQ_KEY, "")
    copies = find_copies(state, unique_key, topic)
    return next((copy.marked_by for copy in copies if copy.root == root), None)


class _Judge:
    """Says for one search which copies wait; what is in memory is looked up once."""

    def __init__(self, state: TimerState) -> None:
        self._state = state
        self._in_memory: set[int] | None = None

    def waits(self, record: MessageRecord, request: TimerRequest) -> bool:
        """Say whether the newest copy of a timer is still to be released.

        Beyond the loaded slots everything waits; within them, what the due heap holds or what has
        not come that far. After a crash the read pointer is behind what was released before.
        """
        state, offset = self._state, record.commit_log_offset
        if offset in state.due_heap.done:
            return False
        if request.out_ms >= state.curr_read_ms + 2 * state.precision_ms:
            return True
        if self._in_memory is None:
            self._in_memory = {entry.offset_py for entry in state.due_heap}
        if offset in self._in_memory:
            return True
        if record.queue_offset >= state.curr_queue_offset and offset not in state.already_logged:
            return True
        if request.out_ms >= state.displaced_until_ms:
            return False
        # The clock was set back: it may lie in a later slot than its own. Is there a copy?
        unique_key = record.properties.get(Prop.UNIQ_KEY, "")
        copies = messages_with_key(state.store, unique_key, request.real_topic)
        return all(source_offset(copy.properties) != offset for copy in copies)


# --- marks of an id ----------------------------------------------------------------------------


def marks_of(state: TimerState, unique_key: str) -> Iterator[tuple[TimerRequest, Mark]]:
    """Go through the marks that were stored for an id, also those that have done their work."""
    for record in messages_with_key(state.store, unique_key, TIMER_TOPIC):
        request = parse_request(record.properties)
        if request is not None and request.deletes is not None:
            yield request, Mark.of(record.properties, record.commit_log_offset)


def marks_in_slot(state: TimerState, message: TimerMessage) -> Iterator[tuple[str, Mark]]:
    """Go through those of them that lie in the slot of a timer, with their keys."""
    for found, mark in marks_of(state, message.properties.get(Prop.UNIQ_KEY, "")):
        if found.out_ms == message.request.out_ms and found.deletes is not None:
            yield found.deletes, mark


def keep_passed_marks(state: TimerState, message: TimerMessage, *, end_slot_ms: int) -> None:
    """Let the marks for the slot of this timer work until the read pointer passes another one.

    For a timer that is put later than its slot: its marks may be behind already.
    """
    out_ms = message.request.out_ms
    for key, mark in marks_in_slot(state, message):
        state.due_heap.add_mark(out_ms, key, mark, end_slot_ms=end_slot_ms)


# --- another time ------------------------------------------------------------------------------


class WheelChanges(Changes):
    """Recalls and moves in a wheel; the loaded slots are complete at every call."""

    def __init__(self, state: TimerState, clock: Clock) -> None:
        super().__init__(state.store, clock)
        self._state = state

    def look_for_unfinished(self) -> None:
        """Find out whether an earlier life ended between a moved copy and its mark."""
        state = self._state

        def read(number: int) -> MessageRecord | None:
            entry = state.queue.entry(number)
            return None if entry is None else state.timer_record(entry[0], entry[1])

        queue = state.queue
        self.unfinished = self._unfinished_among(read, queue.min_offset, queue.max_offset)

    def _copies(self, unique_key: str, topic: str | None = None) -> list[PendingCopy]:
        return find_copies(self._state, unique_key, topic)

    def _replacement(self, copy: PendingCopy, due_ms: int) -> InnerMessage:
        state = self._state
        now_ms = self._clock.now_ms
        marked, removes_all = {copy.request.out_ms}, set()
        for request, mark in marks_of(state, copy.record.properties.get(Prop.UNIQ_KEY, "")):
            marked.add(request.out_ms)
            if mark.victim_root is None:
                removes_all.add(request.out_ms)
        if due_ms <= now_ms:
            # A slot that is behind the reader: such a copy comes too late and leaves at once. While
            # the exit is closed, or after a crash, the marks of that slot may still work.
            out_ms = state.floor(now_ms) - state.precision_ms
            while out_ms in marked:
                out_ms -= state.precision_ms
            due_ms = out_ms + state.precision_ms
        else:
            out_ms = slot_for(due_ms, state.precision_ms, marked, removes_all)
        return moved_copy(copy, due_ms=due_ms, out_ms=out_ms)


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
