"""The timers of the wheel in the order in which they are due.

Answers: which timers come next after a given place, without changing anything. Must not know: who
asks, the door. Timers wait in four places: in memory (`due_heap.py`), in slots not loaded yet, in
hop slots on the way to a later one (`hop_index.py`), and in the timer topic's queue while the wheel
is behind. The last three are gathered slot by slot of their due times; the first is already in
order.

Only what is looked at is read: a page of a hundred timers costs a few slots. The order of a slot
with many timers is kept for the next page.

Read on: `timer/listing.py` for what is given, `engine.py` (`pending`, `find`).
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop
from typing import Final

from embedded_broker.clocks.timeline import Budget
from embedded_broker.store.copies import stored_parts
from embedded_broker.timer.listing import (
    Pending,
    Place,
    Source,
    Walk,
    Wanted,
    first_stored_ms,
    pending_of,
)
from embedded_broker.timer.recall import Mark
from embedded_broker.timer.request import (
    TimerMessage,
    TimerRequest,
    delete_key,
    is_rootless,
    parse_request,
    root_offset,
)
from embedded_broker.timer.wheel.change import find_copies, marked_by
from embedded_broker.timer.wheel.dequeue import TimerDequeueGetService
from embedded_broker.timer.wheel.due_heap import KIND_AT, Entry, Kind, Waiting
from embedded_broker.timer.wheel.hop_index import SortedPairs, home_slot
from embedded_broker.timer.wheel.plain_timer import Destinations, Plain, plain_due_ms, plain_home_ms
from embedded_broker.timer.wheel.slots import NO_SLOT
from embedded_broker.timer.wheel.state import TIMER_TOPIC_FIELD, TimerState
from embedded_broker.timer.wheel.timer_log import ELSEWHERE, MAGIC_DELETE, RECORD_SIZE, LogEntry
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop

_SHORT: Final = 100
"""So many timers of a slot are read and sorted without giving the door back."""
_SCAN_RECORDS: Final = 8192
_MAGIC_LAST_BYTE: Final = 15
_WALKED_AT_ONCE: Final = 16

_Marks = dict[str, list[Mark]]


class _SlotOrder:
    """What is due in one slot: arrays of (root, offset) by due time, and the marks among it."""

    def __init__(self) -> None:
        self.marks: _Marks = {}
        self.records: dict[int, MessageRecord] = {}
        """What was read of a short slot, by offset; a long one is read twice."""
        self._by_due: dict[int, tuple[array[int], array[int]]] = {}
        self._dues: list[int] = []
        self.size = 0

    def add(
        self, due_ms: int, root: int, offset_py: int, record: MessageRecord | None = None
    ) -> None:
        if self.size >= _SHORT:
            if self.records:
                self.records = {}
        elif record is not None:
            self.records[offset_py] = record
        pair = self._by_due.get(due_ms)
        if pair is None:
            pair = self._by_due[due_ms] = (array("q"), array("q"))
        pair[0].append(root)
        pair[1].append(offset_py)
        self.size += 1

    def arrange(self) -> None:
        self._dues = sorted(self._by_due)
        for due_ms, (roots, offsets) in self._by_due.items():
            if len(roots) == 1:
                continue
            both = sorted(set(zip(roots, offsets, strict=True)))
            self._by_due[due_ms] = (
                array("q", [root for root, _ in both]),
                array("q", [offset for _, offset in both]),
            )

    def after(self, place: Place) -> Iterator[tuple[int, int, int]]:
        """Give (due, root, offset) of everything behind a place."""
        for due_ms in self._dues[bisect_left(self._dues, place.due_ms) :]:
            roots, offsets = self._by_due[due_ms]
            begin = bisect_left(roots, place.root + 1) if due_ms == place.due_ms else 0
            for at in range(begin, len(roots)):
                yield due_ms, roots[at], offsets[at]


class WheelListing:
    """What walks share: the entries of the queue that are not enqueued, and one slot's order."""

    def __init__(self, state: TimerState, dequeue_get: TimerDequeueGetService) -> None:
        self.state = state
        self.dequeue_get = dequeue_get
        self.unread = SortedPairs()
        """Pairs (slot in which it is due, queue offset)."""
        self._destinations = Destinations()
        self._unread_to = 0
        self.kept: dict[tuple[int, ...], _SlotOrder] = {}
        """The order of the last slot that was long to read, by its `order_key`."""

    def walk(self, wanted: Wanted) -> Walk:
        """Begin a listing."""
        read_ms = self.state.curr_read_ms
        self.kept = {key: order for key, order in self.kept.items() if key[0] >= read_ms}
        return Walk(WheelSource(self, wanted), wanted)

    def find(self, unique_key: str, topic: str | None) -> list[Pending]:
        """Give every waiting timer with this id, oldest first."""
        found = []
        for copy in find_copies(self.state, unique_key, topic):
            if copy.waits and copy.marked_by is None:
                due_ms = self.due_ms(copy.record, copy.request)
                found.append(self.describe(copy.record, due_ms, copy.root))
        return found

    # --- messages ----------------------------------------------------------------------------

    def record(self, offset_py: int) -> MessageRecord | None:
        """Read a message of the timer topic."""
        record = self.state.store.record(offset_py)
        return None if record is None or record.topic != TIMER_TOPIC else record

    def plain(self, offset_py: int, size_py: int) -> Plain | None:
        """Read what matters of a message of the timer topic; None if that needs all of it."""
        parts = stored_parts(self.state.store.log, offset_py, size_py, TIMER_TOPIC_FIELD)
        return None if parts is None else self._destinations.read(parts[1], parts[2], offset_py)

    def due_ms(self, record: MessageRecord, request: TimerRequest) -> int:
        """Give when a message will leave."""
        state = self.state
        return state.due_ms(
            record.properties, record.store_timestamp, request.out_ms, state.release_precision_ms
        )

    def describe(self, record: MessageRecord, due_ms: int, root: int) -> Pending:
        """Say what is known of a waiting message."""
        offset_py = record.commit_log_offset
        return pending_of(
            record,
            due_ms=due_ms,
            root=root,
            accepted_ms=first_stored_ms(record, self.record),
            read=lambda: self.record(offset_py),
        )

    # --- what is looked up first ---------------------------------------------------------------

    def warm(self) -> Iterator[None]:
        """Find the hops of a former life: once, and in turns."""
        state = self.state
        hops, log = state.hops, state.log
        while hops.scanned_to < hops.cold_until:
            position = max(hops.scanned_to, log.begin)
            view = log.read_bytes(position)
            count = min(len(view) // RECORD_SIZE, _SCAN_RECORDS)
            if count == 0:
                hops.scanned_to = position + log.file_size - position % log.file_size
                continue
            magics = bytes(view[_MAGIC_LAST_BYTE : count * RECORD_SIZE : RECORD_SIZE])
            view.release()  # a file cannot be closed while somebody looks into it
            yield
            for number, magic in enumerate(magics):
                if magic & ELSEWHERE:
                    self._note_hop(position + number * RECORD_SIZE)
                    yield
            hops.scanned_to = position + count * RECORD_SIZE

    def _note_hop(self, position: int) -> None:
        state = self.state
        record = state.log.read(position)
        if record is None or not record.magic & ELSEWHERE:
            return  # the blank at the end of a file
        slot_ms = record.slot_ms
        if slot_ms < state.curr_read_ms or slot_ms in state.due_heap.loaded:
            return
        if state.wheel.get_slot(slot_ms) is NO_SLOT or record.offset_py in state.due_heap.done:
            return
        plain = (
            None if record.magic & MAGIC_DELETE else self.plain(record.offset_py, record.size_py)
        )
        if plain is not None:
            state.hops.add(plain_home_ms(plain, state.precision_ms), record.offset_py)
            return
        message = state.message(record.offset_py, record.size_py)
        if message is not None:
            home_ms = home_slot(message.properties, message.request, state.precision_ms)
            state.hops.add(home_ms, record.offset_py)

    def note_unread(self) -> Iterator[None]:
        """Find what still waits in the queue."""
        state = self.state
        queue = state.queue
        if state.curr_queue_offset >= queue.max_offset:
            if self.unread:
                self.unread = SortedPairs()
            return
        self._unread_to = max(self._unread_to, state.curr_queue_offset)
        while self._unread_to < queue.max_offset:
            found = self._unread_message(self._unread_to)
            if found is not None:
                home_ms = home_slot(found.properties, found.request, state.precision_ms)
                self.unread.add(home_ms, self._unread_to)
            self._unread_to += 1
            yield

    def _unread_message(self, queue_offset: int) -> TimerMessage | None:
        """Read a message that is not enqueued; None when it is, or will be passed over."""
        state = self.state
        entry = state.queue.entry(queue_offset)
        if entry is None or queue_offset < state.curr_queue_offset or state.is_done(entry[0]):
            return None
        return state.message(entry[0], entry[1], queue_offset)

    def unread_at(self, home_ms: int) -> Iterator[MessageRecord]:
        """Give the messages of the queue that are due in a slot."""
        for queue_offset in self.unread.at(home_ms):
            found = self._unread_message(queue_offset)
            record = None if found is None else self.record(found.offset_py)
            if record is not None:
                yield record

    # --- the order of a slot -------------------------------------------------------------------

    def order_key(self, home_ms: int) -> tuple[int, ...]:
        """Give what the order of a slot depends on."""
        state = self.state
        last_pos = state.wheel.get_slot(home_ms).last_pos
        behind = (self._unread_to, state.curr_queue_offset) if self.unread else (0, 0)
        return (home_ms, last_pos, state.hops.changes, state.curr_read_ms, *behind)


class WheelSource(Source):
    """What waits in one wheel, for one walk.

    When the read pointer moves between two steps it begins anew behind the last place it gave:
    timers that were in slots may be in memory by then.
    """

    def __init__(self, listing: WheelListing, wanted: Wanted) -> None:
        super().__init__(listing.state.store)
        self._listing = listing
        self._state = listing.state
        self._last = wanted.after
        self._in_memory: list[Entry] = []
        self._hopping: dict[int, list[int]] = {}
        self._on_the_way: dict[int, _Marks] = {}
        self._wheel_slot_ms: int | None = -1
        """The next slot of the wheel; None when there is no other."""
        self._order: _SlotOrder | None = None
        self._budget: Budget = Budget(0)
        self._read_ms = listing.state.curr_read_ms

    def begin(self, budget: Budget) -> bool:
        """Begin a turn; True when the read pointer has moved."""
        self._budget = budget
        if self._read_ms == self._state.curr_read_ms:
            return False
        self._read_ms = self._state.curr_read_ms
        self.is_arranged = True
        return True

    def arrange(self) -> None:
        """Sort what was read; outside the door."""
        in_memory, last = self._in_memory, self._last
        while in_memory and in_memory[0][0] < last.due_ms and in_memory[0][KIND_AT] <= Kind.CARRIED:
            heappop(in_memory)
        if self._order is not None:
            self._order.arrange()
        self.is_arranged = True

    # --- the walk ----------------------------------------------------------------------------

    def turns(self, wanted: Wanted) -> Iterator[Pending | None]:
        """Go on behind the last place that was given."""
        listing, state = self._listing, self._state
        while not listing.dequeue_get.load(self._budget):
            yield None
        yield from listing.warm()
        yield from listing.note_unread()
        self._in_memory = state.due_heap.heap.copy()
        self._hopping, self._on_the_way, self._wheel_slot_ms = {}, {}, -1
        yield from self._arranging(None)
        precision_ms = state.precision_ms
        cursor_ms = max(0, state.floor(self._last.due_ms - 1))
        while True:
            slot_ms = self._next_slot(cursor_ms)
            in_memory = self._in_memory
            if in_memory and (slot_ms is None or in_memory[0][0] <= slot_ms):
                yield self._take_from_memory()
                continue
            if slot_ms is None or slot_ms >= wanted.before_ms:
                return
            key = listing.order_key(slot_ms)
            order = listing.kept.get(key)
            if order is None:
                order = _SlotOrder()
                yield from self._gather(slot_ms, order)
                if order.size > _SHORT:
                    yield from self._arranging(order)
                    listing.kept = {key: order}
                else:
                    order.arrange()
            for due_ms, root, offset_py in order.after(self._last):
                while self._in_memory and self._in_memory[0][:2] < (due_ms, root):
                    yield self._take_from_memory()
                record = order.records.get(offset_py) or listing.record(offset_py)
                if record is not None:
                    yield self._take_stored(slot_ms, order.marks, due_ms, root, record)
            cursor_ms = slot_ms + precision_ms

    def _arranging(self, order: _SlotOrder | None) -> Iterator[None]:
        self._order = order
        self.is_arranged = False
        yield

    def _next_slot(self, from_ms: int) -> int | None:
        """Give the next slot in which something not in memory is due."""
        state = self._state
        if self._wheel_slot_ms is not None and self._wheel_slot_ms < from_ms:
            self._wheel_slot_ms = state.wheel.waiting_after(
                from_ms, state.curr_read_ms, due_only=True
            )
        slots = (
            self._wheel_slot_ms,
            state.hops.first_key(from_ms),
            self._listing.unread.first_key(from_ms),
            min((home for home in self._hopping if home >= from_ms), default=None),
        )
        return min((one for one in slots if one is not None), default=None)

    def _gather(self, slot_ms: int, order: _SlotOrder) -> Iterator[None]:
        """Read everything that is due in a slot."""
        listing, state = self._listing, self._state
        done = state.due_heap.done
        slot = state.wheel.get_slot(slot_ms)
        is_ahead = slot_ms >= state.curr_read_ms and slot_ms not in state.due_heap.loaded
        if slot is not NO_SLOT and is_ahead:
            has_due = False
            position = slot.last_pos
            while position >= 0:
                entries: list[LogEntry] = []
                position = state.log.walk(position, slot_ms, _WALKED_AT_ONCE, entries)
                for _, _, magic, _, _, offset_py, size_py, _, _ in entries:
                    if not magic & ELSEWHERE:
                        has_due = True
                        if offset_py not in done:
                            self._add_entry(slot_ms, order, magic, offset_py, size_py)
                    yield
            if not has_due and state.wheel.get_slot(slot_ms) == slot:
                state.wheel.nothing_due(slot_ms)
        hopping = [
            offset
            for home_ms in (slot_ms, slot_ms + state.precision_ms)
            for offset in self._hopping.get(home_ms, ())
        ]
        for offset_py in (*state.hops.at(slot_ms), *hopping):
            self._add(slot_ms, order, listing.record(offset_py))
            yield
        for record in listing.unread_at(slot_ms):
            self._add(slot_ms, order, record)
            yield

    def _add_entry(
        self, slot_ms: int, order: _SlotOrder, magic: int, offset_py: int, size_py: int
    ) -> None:
        """Add what a record of the slot's chain points to."""
        state = self._state
        plain = None if magic & MAGIC_DELETE else self._listing.plain(offset_py, size_py)
        if plain is None:
            self._add(slot_ms, order, state.timer_record(offset_py, size_py))
        elif plain_home_ms(plain, state.precision_ms) == slot_ms:
            due_ms = plain_due_ms(plain, state.precision_ms, state.release_precision_ms)
            order.add(due_ms, plain[3], offset_py)

    def _add(self, slot_ms: int, order: _SlotOrder, record: MessageRecord | None) -> None:
        request = None if record is None else parse_request(record.properties)
        if record is None or request is None:
            return
        precision_ms = self._state.precision_ms
        if home_slot(record.properties, request, precision_ms) != slot_ms:
            return
        root = root_offset(record.properties, record.commit_log_offset)
        if request.deletes is not None:
            mark = Mark.of(record.properties, record.commit_log_offset)
            order.marks.setdefault(request.deletes, []).append(mark)
        else:
            due_ms = self._listing.due_ms(record, request)
            order.add(due_ms, root, record.commit_log_offset, record)

    # --- what is given -------------------------------------------------------------------------

    def _take_from_memory(self) -> Pending | None:
        """Look at the next timer in memory: give it, or note where it hops to."""
        entry = Waiting(*heappop(self._in_memory))
        if entry.kind > Kind.CARRIED:
            self._hopping.setdefault(entry.out_ms, []).append(entry.offset_py)
            if entry.kind == Kind.ROLL:
                before_ms = entry.out_ms - self._state.precision_ms
                self._hopping.setdefault(before_ms, [])
            return None
        if (entry.due_ms, entry.root) <= self._last:
            return None
        record = self._state.timer_record(entry.offset_py, entry.size_py)
        if record is None:
            return None
        marks = self._marks_on_the_way(entry.out_ms)
        return self._give(record, entry.due_ms, entry.root, entry.out_ms, marks)

    def _marks_on_the_way(self, out_ms: int) -> _Marks:
        """Find the marks for a slot in memory that have not come to it: mostly none."""
        known = self._on_the_way.get(out_ms)
        if known is not None:
            return known
        state = self._state
        order = _SlotOrder()
        if out_ms > state.curr_read_ms and out_ms not in state.due_heap.loaded:
            # A clock jump carries the timer past a hop, and the mark waits in its own slot.
            slot = state.wheel.get_slot(out_ms)
            for _, entry in state.log.chain(slot.last_pos, out_ms):
                if entry.magic & MAGIC_DELETE:
                    self._add(out_ms, order, self._listing.record(entry.offset_py))
        for offset_py in (*self._state.hops.at(out_ms), *self._hopping.get(out_ms, ())):
            self._add(out_ms, order, self._listing.record(offset_py))
        for record in self._listing.unread_at(out_ms):
            self._add(out_ms, order, record)
        self._on_the_way[out_ms] = order.marks
        return order.marks

    def _take_stored(
        self, slot_ms: int, marks: _Marks, due_ms: int, root: int, record: MessageRecord
    ) -> Pending | None:
        request = parse_request(record.properties)
        if request is None:
            return None
        if request.out_ms != slot_ms:
            marks = {}  # those of this slot are not about it
        # Where a hop is kept out of the wheel, its mark may have passed by.
        is_behind = Prop.TIMER_SRC_OFFSET in record.properties and (
            slot_ms < self._state.curr_read_ms or self._is_unread(record.commit_log_offset)
        )
        if request.out_ms != slot_ms or is_behind:
            # The marks of a moved copy are in its own slot, which comes later; a late hop's are
            # gone: in no slot that was read for it.
            mark = marked_by(self._state, record.properties, root)
            if mark is not None and mark > root:
                self._last = Place(due_ms, root)
                return None
        return self._give(record, due_ms, root, request.out_ms, marks)

    def _is_unread(self, offset_py: int) -> bool:
        entry = self._state.queue.entry(self._state.curr_queue_offset)
        return entry is not None and offset_py >= entry[0]

    def _give(
        self, record: MessageRecord, due_ms: int, root: int, out_ms: int, marks: _Marks
    ) -> Pending | None:
        """Describe a timer unless a mark took it."""
        self._last = Place(due_ms, root)
        properties = record.properties
        key = delete_key(properties.get(Prop.REAL_TOPIC, ""), properties.get(Prop.UNIQ_KEY, ""))
        loaded = self._state.due_heap.marks(out_ms) or {}
        rootless = is_rootless(properties)
        for mark in (*marks.get(key, ()), *loaded.get(key, ())):
            # As the counts: a mark that came before its victim does not take it out of them.
            if mark.root > root and (rootless or mark.names(root)):
                return None
        return self._listing.describe(record, due_ms, root)
