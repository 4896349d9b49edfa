"""Release of many slots in one pass, where a jump of the clock passes slots with few timers.

Answers: how a jump of the clock passes many slots in one pass: each is loaded and its timers leave
as copies of one write, with the times that they would have if the clock had stopped at each. Must
not know: marks, hops, recalled or late timers, failed puts; whatever is not plain ends the pass in
front of it, and the step of `engine.py` looks at it. Nothing is changed until the copies are
written, so a refused write finds everything as it was before the pass.

The order of what happens at one time is that of a step: release what is due and readable, raise
the write pointer to the clock, follow with the read pointer and load what it reaches, again.

Read on: `engine.py` for when it is used, `batch.py` for the copies, `plain_timer.py` for what is
plain.
"""

from collections.abc import Callable
from heapq import heappush
from typing import Final

from embedded_broker.clocks.timeline import Budget
from embedded_broker.store.commit_log import BLANK_SIZE_MIN
from embedded_broker.timer.wheel.batch import BYTES_MOST, Batch
from embedded_broker.timer.wheel.dequeue import (
    TimerDequeueGetMessageService,
    TimerDequeueGetService,
)
from embedded_broker.timer.wheel.due_heap import NOT_LATE, Entry, EntryKind
from embedded_broker.timer.wheel.plain_timer import (
    NEVER_ROLLED,
    Destination,
    Destinations,
    plain_due_ms,
)
from embedded_broker.timer.wheel.release import TimerDequeuePutMessageService
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.timer_log import MAGIC_DEFAULT, LogEntry

_FEW: Final = 16
"""Timers of one slot: of more a step releases many in one write as well."""
_COPIES_MOST: Final = 128
_ADDED_MOST: Final = 128
"""Bytes that the properties of a released copy have more than those of its source."""
_LOOK_EVERY: Final = 4
"""How many times go by between two looks at the budget."""

_Source = tuple[memoryview, bytes, Destination]


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
        self._destinations: Destinations = releases.destinations

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
            part = _Pass(self._state, self._destinations)
            wants_more = part.go(limit_ms, budget)
            if part.now_ms is None:
                return released
            if not part.write():
                return released
            # Arrivals only mark who waits; nobody asked for the time yet.
            pin(part.now_ms)
            part.keep()
            self._slots.slots += part.slots
            self._reader.messages += part.messages
            self._releases.note_copies(len(part.gone))
            released += len(part.gone)
            if not wants_more or budget.exhausted():
                return released


class _Pass(Batch):
    """One write's worth of slots and timers, in variables of its own until `keep`."""

    timers_most = _COPIES_MOST

    def __init__(self, state: TimerState, destinations: Destinations) -> None:
        super().__init__(state, destinations)
        loaded = state.due_heap.loaded
        self._come: list[Entry] = []
        self._read_ms = state.curr_read_ms
        self._write_ms = state.curr_write_ms
        self._scan_at = loaded[self._read_ms]
        self._scan_ahead = loaded[self._read_ms + state.precision_ms]
        self._left: list[int] = []
        self._sources: dict[int, _Source] = {}
        room = state.store.log.files.room - BLANK_SIZE_MIN
        self._bytes_end = state.store.log.max_offset + min(BYTES_MOST, room)
        self.now_ms: int | None = None
        """The last time at which something was done; None when nothing was."""
        self.slots = 0
        self.messages = 0

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
            if len(self.gone) >= _COPIES_MOST:
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
            plain = self._destinations.read(properties, stored_ms, offset)
            if plain is None or plain[0].hash != topic_hash or plain[1] != slot_ms:
                return None
            if plain[4] != NEVER_ROLLED:
                return None
            due_ms = plain_due_ms(plain, state.precision_ms, state.release_precision_ms)
            self._sources[offset] = (source, properties, plain[0])
            found.append(
                (
                    due_ms,
                    offset,
                    offset,
                    size,
                    slot_ms,
                    slot_ms,
                    write_ms,
                    EntryKind.RELEASE,
                    NOT_LATE,
                )
            )
        return found

    def _release(self, ready_ms: int, at_ms: int) -> bool:
        """Add the copies of what is due; False when one cannot be copied with the others."""
        self.copies.store_timestamp = at_ms
        before = len(self.gone)
        is_done = self.take_due(ready_ms, at_ms)
        if len(self.gone) > before:
            self.now_ms = at_ms
        return is_done

    def _add(self, entry: Entry, now_ms: int) -> str | None:
        """Add the copy of a timer that never hopped; its topic, or None if it cannot be added."""
        _, _, offset, size, _, _, enqueue_ms, kind, queue_offset = entry
        found = self._sources.get(offset) or self._read(offset, size)
        if found is None or kind > EntryKind.CARRIED or queue_offset != NOT_LATE:
            return None
        source, before, to = found
        queue = self._state.store.queues.get((to.topic, to.queue_id))
        # At most: the source's topic is counted in as well.
        end_most = self.copies.end + len(source) + _ADDED_MOST + len(to.field)
        if queue is None or end_most > self._bytes_end:
            return None
        if not self._copy(source, before, to, queue, offset, enqueue_ms, now_ms):
            return None
        self._sources.pop(offset, None)
        return to.topic

    def _read(self, offset: int, size: int) -> _Source | None:
        """Read a timer that was loaded before this pass."""
        parts = self._parts(offset, size)
        plain = None if parts is None else self._destinations.read(parts[1], parts[2], offset)
        if parts is None or plain is None or plain[4] != NEVER_ROLLED:
            return None
        return parts[0], parts[1], plain[0]

    def keep(self) -> None:
        """Let the state be what the pass came to."""
        super().keep()
        state = self._state
        state.due_heap.loaded = {
            self._read_ms: self._scan_at,
            self._read_ms + state.precision_ms: self._scan_ahead,
        }
        state.curr_read_ms, state.curr_write_ms = self._read_ms, self._write_ms

    def undo(self) -> None:
        """Let timers and slots wait again."""
        self._state.due_heap.take_back(self.gone, self._come)
        for slot_ms in self._left:
            self._state.wheel.wait_again(slot_ms)
