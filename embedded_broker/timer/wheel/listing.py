"""The timers of the wheel in the order in which they are due.

Answers: which timers come next after a given place, without changing anything. Must not know: who
asks, the door. An index (`timer/waiting_index.py`) is made when somebody asks, and kept:

* It begins with what is in memory (`due_heap.py`). Then slots are read, the earliest first, as far
  as a page reaches: a timer never lies behind the slot after its own, so what is due before the
  last slot read is complete, hops included.
* What comes is in the timer topic's queue, which is read on from where it was read to: new timers,
  their hops, and marks. Nothing is done when a timer enters the wheel.
* What leaves memory is in `DueHeap.left`.

Where the reader overtakes it, the index goes on from what is in memory then. It begins anew when a
role changes, when a message is lost, and when much has left since somebody looked last: so one that
nobody asks for is given up.

Read on: `timer/listing.py` for what is given, `engine.py` (`pending`, `find`).
"""

from collections.abc import Iterable, Iterator
from typing import Final

from embedded_broker.clocks.timeline import Budget
from embedded_broker.store.copies import stored_parts
from embedded_broker.timer.listing import NEVER_MS, Pending, Source, Walk, Wanted, first_stored_ms
from embedded_broker.timer.recall import Mark
from embedded_broker.timer.request import delete_key, is_rootless, parse_request
from embedded_broker.timer.waiting_index import WaitingIndex
from embedded_broker.timer.wheel.change import find_copies, marked_by
from embedded_broker.timer.wheel.dequeue import TimerDequeueGetService
from embedded_broker.timer.wheel.due_heap import Entry, EntryKind
from embedded_broker.timer.wheel.plain_timer import Destinations, plain_due_ms
from embedded_broker.timer.wheel.state import TIMER_TOPIC_FIELD, TimerState
from embedded_broker.timer.wheel.timer_log import LogEntry
from rocketmq_py.protocol.message_codec import MessageRecord, RecordHead
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop, decode_properties

_TOPIC: Final = TIMER_TOPIC.encode()
_SOURCE: Final = Prop.TIMER_SRC_OFFSET.encode()
_AT_ONCE: Final = 64
"""So many messages are looked at without giving the door back."""


class WheelListing:
    """What walks share: the index, how far it knows slots and queue, and the marks that wait."""

    def __init__(self, state: TimerState, dequeue_get: TimerDequeueGetService) -> None:
        self.state = state
        self.index = WaitingIndex()
        self._dequeue_get = dequeue_get
        self._destinations = Destinations()
        self._marks: dict[int, dict[str, list[Mark]]] = {}
        self._memory: list[Entry] = []
        """What was in memory and is not in the index yet."""
        self._queue_offset = 0
        self._slot_ms: int | None = None
        """The slot that is read next; None when all were."""
        self._slot_pos = -1
        """Where its chain goes on."""
        self._lost = -1
        self._reader = self._record

    def walk(self, wanted: Wanted) -> Walk:
        """Begin a listing."""
        return Walk(WheelSource(self), wanted)

    def find(self, unique_key: str, topic: str | None) -> list[Pending]:
        """Give every waiting timer with this id, oldest first."""
        state, found = self.state, []
        for copy in find_copies(state, unique_key, topic):
            if copy.waits and copy.marked_by is None:
                record, step_ms = copy.record, state.release_precision_ms
                due_ms = state.due_ms(
                    record.properties, record.store_timestamp, copy.request.out_ms, step_ms
                )
                topic = copy.request.real_topic
                found.append(self._describe(RecordHead.of(record), due_ms, copy.root, topic))
        return found

    # --- what is known -----------------------------------------------------------------------

    @property
    def complete_to_ms(self) -> int:
        """Before which time every timer is in the index."""
        if self._slot_ms is None:
            return NEVER_MS
        return self._slot_ms - self.state.precision_ms + 1  # a moved copy lies one slot late

    def catch_up(self) -> Iterator[None]:
        """Let the index know what is in memory and in the queue, in turns."""
        state = self.state
        while True:
            due_heap, queue = state.due_heap, state.queue
            if self._is_stale or self._is_overtaken:
                if self._dequeue_get.load(Budget()):
                    self._look_into_memory(anew=self._is_stale)
            elif self._memory:
                for due_ms, root, offset_py, size_py, _, _, _, kind, _ in self._memory[-_AT_ONCE:]:
                    if kind > EntryKind.CARRIED or (due_ms, root) not in self.index:
                        self._note(offset_py, size_py)
                del self._memory[-_AT_ONCE:]
            elif self._queue_offset < queue.max_offset:
                for _ in range(min(_AT_ONCE, queue.max_offset - self._queue_offset)):
                    queued = queue.entry(self._queue_offset)
                    self._queue_offset += 1
                    if queued is not None and not state.is_done(queued[0]):
                        self._note(queued[0], queued[1])
            elif due_heap.left:
                for due_ms, root, offset_py, *_ in due_heap.left[-_AT_ONCE:]:
                    self.index.remove(due_ms, root, offset_py)
                del due_heap.left[-_AT_ONCE:]
            else:
                self._forget_marks()
                return
            yield

    @property
    def _is_stale(self) -> bool:
        """Whether something has happened that nobody tells of."""
        state = self.state
        return (
            state.due_heap.left is None
            or self._lost != state.lost.total()
            or self._queue_offset > state.queue.max_offset
        )

    @property
    def _is_overtaken(self) -> bool:
        """Whether the reader has loaded a slot that was not read."""
        state = self.state
        return (
            self._slot_ms is not None
            and self._slot_ms < state.curr_read_ms + 2 * state.precision_ms
        )

    def _look_into_memory(self, *, anew: bool) -> None:
        """Go on from what is in memory, which is complete; `anew` with an empty index."""
        state, due_heap = self.state, self.state.due_heap
        if anew:
            self.index, self._marks, due_heap.left = WaitingIndex(), {}, []
            self._queue_offset = max(state.curr_queue_offset, state.queue.min_offset)
            self._lost = state.lost.total()
        for out_ms, by_key in due_heap.copy_of_marks().items():
            for key, marks in by_key.items():
                self._add_marks(out_ms, key, marks)
        self._memory = due_heap.heap.copy()
        self._slot_ms = state.wheel.waiting_after(state.curr_read_ms, state.curr_read_ms)
        self._slot_pos = -1

    def _add_marks(self, out_ms: int, key: str, marks: Iterable[Mark]) -> None:
        known = self._marks.setdefault(out_ms, {}).setdefault(key, [])
        known += [mark for mark in marks if mark not in known]

    def _forget_marks(self) -> None:
        """Forget marks of slots out of which everything has left."""
        first_ms, end_ms = self.index.first_due_ms, self.complete_to_ms
        end_ms = min(end_ms, end_ms if first_ms is None else first_ms) - self.state.precision_ms
        for out_ms in [one for one in self._marks if one < end_ms]:
            del self._marks[out_ms]

    def read_on(self) -> None:
        """Read some of the slots that follow."""
        state, done, left = self.state, self.state.due_heap.done, _AT_ONCE
        while left > 0 and self._slot_ms is not None:
            if self._slot_pos < 0:
                self._slot_pos = state.wheel.last_pos(self._slot_ms)
            if self._slot_pos >= 0:
                entries: list[LogEntry] = []
                self._slot_pos = state.log.walk(self._slot_pos, self._slot_ms, left, entries)
                for _, _, _, _, _, offset_py, size_py, _, _ in entries:
                    if offset_py not in done:
                        self._note(offset_py, size_py)
                left -= len(entries)
            if self._slot_pos < 0:
                left -= 1
                next_ms = self._slot_ms + state.precision_ms
                self._slot_ms = state.wheel.waiting_after(next_ms, state.curr_read_ms)

    def _note(self, offset_py: int, size_py: int) -> None:
        """Take in a message of the timer topic: a timer, or a mark."""
        state = self.state
        parts = stored_parts(state.store.log, offset_py, size_py, TIMER_TOPIC_FIELD)
        plain = None if parts is None else self._destinations.read(parts[1], parts[2], offset_py)
        if plain is not None:
            due_ms = plain_due_ms(plain, state.precision_ms, state.release_precision_ms)
            self.index.add(due_ms, plain[3], offset_py, plain[0].topic)
            return
        message = state.message(offset_py, size_py)
        if message is None:
            return
        request = message.request
        if request.deletes is None:
            self.index.add(state.release_ms(message), message.root, offset_py, request.real_topic)
            return
        self._add_marks(request.out_ms, request.deletes, [Mark.of(message.properties, offset_py)])

    # --- what is given -------------------------------------------------------------------------

    def pending(self, due_ms: int, root: int, offset_py: int, topic: str) -> Pending | None:
        """Read a timer of the index; None when it is gone, or a mark took it."""
        stored = self._stored(offset_py)
        if stored is None or self._is_recalled(stored, due_ms, root):
            return None
        return self._describe(stored, due_ms, root, topic)

    def _is_recalled(self, stored: RecordHead, due_ms: int, root: int) -> bool:
        state = self.state
        is_moved_on = _SOURCE in stored.properties_bytes
        if not (self._marks or is_moved_on):
            return False
        properties = decode_properties(stored.properties_bytes)
        request = parse_request(properties)
        if request is None:
            return False
        if is_moved_on and (
            due_ms <= state.curr_read_ms or self._is_unread(stored.commit_log_offset)
        ):
            # Where a hop is kept out of the wheel, its mark may have passed by.
            mark = marked_by(state, properties, root)
            if mark is not None and mark > root:
                return True
        key = delete_key(request.real_topic, properties.get(Prop.UNIQ_KEY, ""))
        rootless = is_rootless(properties)
        # As the counts: a mark that came before its victim does not take it out of them.
        return any(
            mark.root > root and (rootless or mark.names(root))
            for mark in self._marks.get(request.out_ms, {}).get(key, ())
        )

    def _is_unread(self, offset_py: int) -> bool:
        entry = self.state.queue.entry(self.state.curr_queue_offset)
        return entry is not None and offset_py >= entry[0]

    def _stored(self, offset_py: int) -> RecordHead | None:
        stored = self.state.store.log.head(offset_py)
        return None if stored is None or stored.topic != _TOPIC else stored

    def _describe(self, stored: RecordHead, due_ms: int, root: int, topic: str) -> Pending:
        return Pending(
            due_ms=due_ms,
            root=root,
            topic=topic,
            accepted_ms=first_stored_ms(stored, self._stored),
            stored=stored,
            reader=self._reader,
        )

    def _record(self, stored: RecordHead) -> MessageRecord | None:
        record = self.state.store.record(stored.commit_log_offset)
        return None if record is None or record.topic != TIMER_TOPIC else record


class WheelSource(Source):
    """What waits in one wheel, for one walk."""

    def __init__(self, listing: WheelListing) -> None:
        super().__init__(listing.state.store)
        self._listing = listing

    def turns(self, wanted: Wanted) -> Iterator[Pending | None]:
        """Go through the index, and let it read on where it ends."""
        listing, after = self._listing, wanted.after
        while True:
            yield from listing.catch_up()
            before_ms = min(wanted.before_ms, listing.complete_to_ms)
            rows, after = listing.index.part(wanted, after, before_ms)
            for row in rows:
                yield listing.pending(*row)
            if after.due_ms >= wanted.before_ms:
                return
            if after.due_ms >= before_ms:
                listing.read_on()
            yield None
