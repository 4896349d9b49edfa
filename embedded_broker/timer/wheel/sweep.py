"""The quick way over a stretch of time in which few timers share a slot.

Answers: how a jump of the clock passes many slots in one pass: each is loaded and its timers leave
as copies of one write, with the times that they would have if the clock had stopped at each. Must
not know: marks, hops, recalled or late timers, failed puts; whatever is not plain ends the pass in
front of it, and the step of `engine.py` looks at it. Nothing is changed until the copies are
written, so a refused write finds everything as it was before the pass.

The order of what happens at one time is that of a step: release what is due and readable, raise
the write pointer to the clock, follow with the read pointer and load what it reaches, again.

Read on: `engine.py` for when it is used, `plain_timer.py` for what is plain.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from embedded_broker.clocks.timeline import Budget
from embedded_broker.store.commit_log import BLANK_SIZE_MIN
from embedded_broker.store.copies import Copies, stored_parts
from embedded_broker.timer.wheel.dequeue import (
    TimerDequeueGetMessageService,
    TimerDequeueGetService,
)
from embedded_broker.timer.wheel.due_heap import KIND_AT, NOT_LATE, Entry, Kind, Waiting
from embedded_broker.timer.wheel.plain_timer import NEVER_ROLLED, Place, Places, plain_due_ms
from embedded_broker.timer.wheel.release import TimerDequeuePutMessageService, code_of
from embedded_broker.timer.wheel.state import TIMER_TOPIC_FIELD, TimerState
from embedded_broker.timer.wheel.timer_log import MAGIC_DEFAULT, LogEntry

__all__ = ["Sweep"]

_FEW: Final = 16
"""Timers of one slot: of more a step releases many in one write as well."""
_COPIES_MOST: Final = 128
_BYTES_MOST: Final = 256 * 1024
_LOOK_EVERY: Final = 4
"""How many times go by between two looks at the budget."""

_Source = tuple[memoryview, bytes, Place]


class Sweep:
    """Passes over slots for one engine; `run` is one pass of at most one budget."""

    def __init__(
        self,
        state: TimerState,
        slots: TimerDequeueGetService,
        reader: TimerDequeueGetMessageService,
        releases: TimerDequeuePutMessageService,
    ) -> None:
        self._state = state
        self._slots = slots
        self._reader = reader
        self._releases = releases
        self._places: Places = releases.places

    def may_begin(self) -> bool:
        """Whether the state is such that only the heap and the wheel say what happens next."""
        state = self._state
        due_heap, read_ms = state.due_heap, state.curr_read_ms
        return (
            len(due_heap.loaded) == 2
            and read_ms in due_heap.loaded
            and read_ms + state.precision_ms in due_heap.loaded
            and state.old_scan_pos is None
            and state.displaced_until_ms <= read_ms
            and due_heap.is_plain
            and self._releases.copies_at_once
        )

    def run(self, limit_ms: int, pin: Callable[[int], None], budget: Budget) -> int:
        """Do what steps would do up to `limit_ms`; gives the number of messages delivered.

        Ends in front of what is not plain, or when the budget is used up; `pin` was then told the
        last time at which something was done.
        """
        released = 0
        while True:
            part = _Pass(self._state, self._places)
            wants_more = part.go(limit_ms, budget)
            if part.now_ms is None:
                return released
            if part.taken and not self._state.store.put_copies(part.copies):
                part.undo()
                return released
            # Arrivals only mark who waits; nobody asked for the time yet.
            pin(part.now_ms)
            part.keep()
            self._slots.slots += part.slots
            self._reader.messages += part.messages
            self._releases.note_copies(part.taken)
            released += part.taken
            if not wants_more or budget.exhausted():
                return released


class _Pass:
    """One write's worth of slots and timers, in variables of its own until `keep`."""

    def __init__(self, state: TimerState, places: Places) -> None:
        store, due_heap = state.store, state.due_heap
        self._state = state
        self._places = places
        self._heap = due_heap.heap
        self._gone: list[Entry] = []
        self._come: list[Entry] = []
        self._read_ms = state.curr_read_ms
        self._write_ms = state.curr_write_ms
        self._scan_at = due_heap.loaded[self._read_ms]
        self._scan_ahead = due_heap.loaded[self._read_ms + state.precision_ms]
        self._left: list[int] = []
        self._counts: list[tuple[str, int, int]] = []
        self._sources: dict[int, _Source] = {}
        self._bytes_end = store.log.max_offset + min(
            _BYTES_MOST, store.log.files.room - BLANK_SIZE_MIN
        )
        self.copies = Copies(
            store.log.max_offset,
            store_host=store.store_host,
            store_timestamp=store.clock.now_ms,
        )
        self.now_ms: int | None = None
        """The last time at which something was done; None when nothing was."""
        self.slots = 0
        self.messages = 0

    @property
    def taken(self) -> int:
        """How many timers left."""
        return len(self._gone)

    def go(self, limit_ms: int, budget: Budget) -> bool:
        """Go on from time to time; True when only the size of the write ended the pass."""
        state, heap = self._state, self._heap
        wheel, precision_ms = state.wheel, state.precision_ms
        times = 0
        while True:
            waiting_ms = wheel.next_waiting(self._read_ms)
            at_ms = heap[0][0] if heap else limit_ms + 1
            if waiting_ms is not None and waiting_ms - precision_ms < at_ms:
                at_ms = waiting_ms - precision_ms
            if at_ms > limit_ms or (self.now_ms is not None and at_ms < self.now_ms):
                return False
            if len(self._gone) >= _COPIES_MOST:
                return True
            if not self._step(at_ms):
                return False
            times += 1
            if not times % _LOOK_EVERY and budget.exhausted():
                return False

    def _step(self, at_ms: int) -> bool:
        """Do what a step does at one time; False when it has to be ended by one."""
        heap, wheel, precision_ms = self._heap, self._state.wheel, self._state.precision_ms
        while True:
            end_ms = self._read_ms + precision_ms
            ready_ms = at_ms if at_ms < end_ms else end_ms  # noqa: FURB136 - twice a timer
            if heap and heap[0][0] <= ready_ms and not self._release(ready_ms, at_ms):
                return False
            write_ms = at_ms // precision_ms * precision_ms
            write_ms = max(write_ms, self._write_ms)
            due_ms = heap[0][0] if heap else None
            if self._read_ms >= write_ms or (due_ms is not None and due_ms <= end_ms):
                self._write_ms, self.now_ms = write_ms, at_ms
                return True
            stop_ms = write_ms
            waiting_ms = wheel.next_waiting(end_ms)
            if waiting_ms is not None and waiting_ms - precision_ms < stop_ms:
                stop_ms = waiting_ms - precision_ms
            if due_ms is not None and due_ms <= stop_ms:
                stop_ms = (due_ms - 1) // precision_ms * precision_ms
            if not self._move(max(stop_ms, end_ms)):
                return False
            self._write_ms, self.now_ms = write_ms, at_ms

    def _move(self, read_ms: int) -> bool:
        """Let the read pointer be there and load what it reaches; False if that is not plain."""
        wheel, ahead_ms = self._state.wheel, read_ms + self._state.precision_ms
        scan_at = self._scan_ahead
        if read_ms != self._read_ms + self._state.precision_ms:
            scan_at = self.copies.end
            if wheel.last_pos(read_ms) >= 0:
                return False
        last_pos = wheel.last_pos(ahead_ms)
        if last_pos >= 0:
            loaded = self._load(ahead_ms, last_pos)
            if loaded is None:
                return False
            wheel.leave(ahead_ms)
            self._left.append(ahead_ms)
            self.slots += 1
            self.messages += len(loaded)
            self._come += loaded
            for entry in loaded:
                heappush(self._heap, entry)
        self._read_ms, self._scan_at, self._scan_ahead = read_ms, scan_at, self.copies.end
        return True

    def _load(self, slot_ms: int, last_pos: int) -> list[Entry] | None:
        """Read the timers of a slot; None when there are many, or one is not plain."""
        state = self._state
        records: list[LogEntry] = []
        if state.log.walk(last_pos, slot_ms, _FEW, records) != -1:
            return None
        found: list[Entry] = []
        for _, _, magic, write_ms, _, offset, size, topic_hash, _ in reversed(records):
            parts = self._parts(offset, size)
            if magic != MAGIC_DEFAULT or parts is None or offset in self._sources:
                return None
            source, properties, stored_ms = parts
            plain = self._places.read(properties, stored_ms, offset)
            if plain is None or plain[0].hash != topic_hash or plain[1] != slot_ms:
                return None
            if plain[4] != NEVER_ROLLED:
                return None
            due_ms = plain_due_ms(plain, state.precision_ms, state.release_precision_ms)
            self._sources[offset] = (source, properties, plain[0])
            found.append(
                (due_ms, offset, offset, size, slot_ms, slot_ms, write_ms, Kind.RELEASE, NOT_LATE)
            )
        return found

    def _release(self, ready_ms: int, at_ms: int) -> bool:
        """Add the copies of what is due; False when one cannot be copied with the others."""
        heap, gone, counts = self._heap, self._gone, self._counts
        sources, copies = self._sources, self.copies
        copies.store_timestamp = at_ms
        topic, number, done = "", 0, True
        while heap and heap[0][0] <= ready_ms:
            _, _, offset, size, _, _, enqueue_ms, kind, queue_offset = heap[0]
            source = sources.get(offset) or self._read(offset, size)
            if source is None or kind > Kind.CARRIED or queue_offset != NOT_LATE:
                done = False
                break
            if not self._copy(source, offset, enqueue_ms, at_ms):
                done = False
                break
            if topic and topic != source[2].topic:
                counts.append((topic, number, at_ms))
                number = 0
            topic, number = source[2].topic, number + 1
            sources.pop(offset, None)
            gone.append(heappop(heap))
        if number:
            counts.append((topic, number, at_ms))
            self.now_ms = at_ms
        return done

    def _copy(self, found: _Source, offset: int, enqueue_ms: int, at_ms: int) -> bool:
        source, before, place = found
        store, copies = self._state.store, self.copies
        queue = store.queues.get((place.topic, place.queue_id))
        properties = (
            b"%bTIMER_ENQUEUE_MS\x01%d\x02TIMER_DEQUEUE_MS\x01%d\x02TIMER_SRC_OFFSET\x01%d\x02"
            % (before, enqueue_ms, at_ms, offset)
        )
        # At most: the source's topic is counted in as well.
        size_most = len(source) + len(properties) - len(before) + len(place.field)
        if queue is None or copies.end + size_most > self._bytes_end or self.taken >= _COPIES_MOST:
            return False
        return copies.add(source, properties, queue, place.field, code_of(before))

    def _read(self, offset: int, size: int) -> _Source | None:
        """Read a timer that was loaded before this pass."""
        parts = self._parts(offset, size)
        plain = None if parts is None else self._places.read(parts[1], parts[2], offset)
        if parts is None or plain is None or plain[4] != NEVER_ROLLED:
            return None
        return parts[0], parts[1], plain[0]

    def _parts(self, offset: int, size: int) -> tuple[memoryview, bytes, int] | None:
        store = self._state.store
        if size > store.body_size_max:
            return None
        return stored_parts(store.log, offset, size, TIMER_TOPIC_FIELD)

    def keep(self) -> None:
        """Let the state be what the pass came to."""
        state = self._state
        due_heap, precision_ms = state.due_heap, state.precision_ms
        for entry in self._gone:
            if entry[KIND_AT] == Kind.CARRIED:
                due_heap.finish(Waiting(*entry))
        due_heap.loaded = {
            self._read_ms: self._scan_at,
            self._read_ms + precision_ms: self._scan_ahead,
        }
        state.curr_read_ms, state.curr_write_ms = self._read_ms, self._write_ms
        for topic, number, at_ms in self._counts:
            state.metrics.add(topic, -number, at_ms)

    def undo(self) -> None:
        """Let timers and slots wait again."""
        self._state.due_heap.take_back(self._gone, self._come)
        for slot_ms in self._left:
            self._state.wheel.wait_again(slot_ms)
