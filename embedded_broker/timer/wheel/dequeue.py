"""Dequeue: the slots at the read pointer are loaded into the due heap.

Answers: how the chain of a slot becomes timers with a due time, and marks. Must not know: what
happens when they are due. After `TimerDequeueGetService` and `TimerDequeueGetMessageService` of
the original; a slot of any size is loaded in turns, so that the door is never held for long.

Read on: `due_heap.py` for what is loaded, `release.py` for what follows.
"""

from collections import deque
from heapq import heappush
from typing import Final

from embedded_broker.clocks.timeline import Budget
from embedded_broker.store.copies import stored_parts
from embedded_broker.timer.request import topic_hash
from embedded_broker.timer.stage import Stage
from embedded_broker.timer.wheel.due_heap import NOT_LATE, EntryKind
from embedded_broker.timer.wheel.plain_timer import Destinations, Plain, plain_due_ms
from embedded_broker.timer.wheel.slots import NO_SLOT
from embedded_broker.timer.wheel.state import TIMER_TOPIC_FIELD, TimerState
from embedded_broker.timer.wheel.timer_log import MAGIC_DELETE, MAGIC_ROLL, OFFSET_PY_AT, LogEntry

_CHECK_BUDGET_EVERY: Final = 16
_WALKED_AT_ONCE: Final = 16


class TimerDequeueGetMessageService(Stage[TimerState]):
    """Reads the messages of a loaded slot: when each is due, and which ones are marks."""

    name = "TimerDequeueGetMessageService"

    def __init__(self, state: TimerState, destinations: Destinations) -> None:
        super().__init__(state)
        self._destinations = destinations
        self._slots: deque[tuple[int, list[LogEntry], set[int]]] = deque()
        self.messages = 0

    @property
    def counters(self) -> dict[str, int]:
        """Messages of loaded slots that were read."""
        return {"messages": self.messages}

    @property
    def queue_depth(self) -> int:
        """Records of loaded slots that are not read yet."""
        return sum(len(records) for _, records, _ in self._slots)

    @property
    def is_loading(self) -> bool:
        """Whether a loaded slot is still to be read, or to be found read."""
        return bool(self._slots)

    def hand_over(self, slot_ms: int, newest_first: list[LogEntry]) -> None:
        """Take the records of a slot."""
        if newest_first:
            self._slots.append((slot_ms, newest_first, set()))

    def run(self, budget: Budget) -> bool:
        """Read until the budget is used up, oldest first; True when nothing is left.

        A message that is in a slot twice counts once, one that is done already not at all.
        """
        slots, done = self._slots, self.state.due_heap.done
        count = 0
        while slots:
            slot_ms, records, seen = slots[0]
            while records:
                record = records.pop()
                offset = record[OFFSET_PY_AT]
                if offset not in seen and offset not in done:
                    seen.add(offset)
                    self._read(slot_ms, record)
                count += 1
                if not count % _CHECK_BUDGET_EVERY and budget.exhausted():
                    return False
            slots.popleft()
        return True

    def _read(self, slot_ms: int, record: LogEntry) -> None:
        state = self.state
        self.messages += 1
        _, _, magic, write_ms, _, offset_py, size_py, hash_of_topic, _ = record
        parts = stored_parts(state.store.log, offset_py, size_py, TIMER_TOPIC_FIELD)
        if parts is not None and not magic & MAGIC_DELETE:
            plain = self._destinations.read(parts[1], parts[2], offset_py)
            if plain is not None and plain[0].hash == hash_of_topic:
                self._take_plain(slot_ms, record, plain)
                return
        message = state.message(offset_py, size_py)
        if message is not None and topic_hash(message.request.real_topic) == hash_of_topic:
            state.take(magic, slot_ms, write_ms, message)
        elif message is not None or state.timer_head(offset_py, size_py) is not None:
            state.lost["malformed"] += 1
        else:
            state.lost["unreadable"] += 1
            if not magic & MAGIC_DELETE:
                state.uncount(hash_of_topic)

    def _take_plain(self, slot_ms: int, record: LogEntry, plain: Plain) -> None:
        """Do what `TimerState.take` does, for a timer that is no mark."""
        _, _, magic, write_ms, _, offset_py, size_py, _, _ = record
        _, out_ms, _, root, _ = plain
        state = self.state
        precision_ms = state.precision_ms
        if magic & MAGIC_ROLL or out_ms > slot_ms:
            kind, due_ms = EntryKind.ROLL, slot_ms + precision_ms
        else:
            kind = EntryKind.RELEASE
            due_ms = plain_due_ms(plain, precision_ms, state.release_precision_ms)
        entry = (due_ms, root, offset_py, size_py, out_ms, slot_ms, write_ms, kind, NOT_LATE)
        heappush(state.due_heap.heap, entry)


class TimerDequeueGetService(Stage[TimerState]):
    """Keeps the slot at the read pointer and the next one loaded."""

    name = "TimerDequeueGetService"

    def __init__(self, state: TimerState, reader: TimerDequeueGetMessageService) -> None:
        super().__init__(state)
        self._reader = reader
        self._walks: deque[tuple[int, int, list[LogEntry]]] = deque()
        self.slots = 0

    @property
    def counters(self) -> dict[str, int]:
        """Slots whose chain was walked."""
        return {"slots": self.slots}

    @property
    def queue_depth(self) -> int:
        """Slots whose chain is not walked yet."""
        return len(self._walks)

    def lag_ms(self, now_ms: int) -> int:
        """How far the read pointer is behind the clock's slot."""
        return max(0, self.state.floor(now_ms) - self.state.curr_read_ms)

    @property
    def is_loading(self) -> bool:
        """Whether something of a loaded slot is still to be read."""
        return bool(self._walks) or self._reader.is_loading

    def open_window(self) -> None:
        """Begin to load what the read pointer reaches; from now on arrivals join it directly."""
        state = self.state
        due_heap, wheel = state.due_heap, state.wheel
        read_ms, ahead_ms = state.curr_read_ms, state.curr_read_ms + state.precision_ms
        wanted = {read_ms, ahead_ms}
        if state.displaced_until_ms > ahead_ms:
            # Timers of earlier slots may lie in any slot up to the displaced one.
            wanted.update(
                slot.time_ms
                for slot in wheel.used_slots()
                if ahead_ms < slot.time_ms <= state.displaced_until_ms
            )
        for slot_ms in sorted(wanted):
            if slot_ms in due_heap.loaded:
                continue
            due_heap.loaded[slot_ms] = state.scan_pos_of(slot_ms)
            wheel.leave(slot_ms)
            slot = wheel.get_slot(slot_ms)
            if slot is not NO_SLOT:
                self._walks.append((slot_ms, slot.last_pos, []))

    def load(self, budget: Budget) -> bool:
        """Walk the chains and read the messages; True when the loaded slots are complete."""
        walks, log = self._walks, self.state.log
        while walks:
            slot_ms, position, records = walks.popleft()
            while position >= 0:
                position = log.walk(position, slot_ms, _WALKED_AT_ONCE, records)
                if position >= 0 and budget.exhausted():
                    walks.appendleft((slot_ms, position, records))
                    return False
            if not records or position != -1:
                self.state.lost["broken chain"] += 1
            self.slots += 1
            self._reader.hand_over(slot_ms, records)
        return self._reader.run(budget)

    def move(self, read_ms: int) -> None:
        """Move the read pointer to a later slot and load what it reaches."""
        self.state.due_heap.leave_before(read_ms)
        self.state.curr_read_ms = read_ms
        self.open_window()


class TimerDequeueWarmService(Stage[TimerState]):
    """Nothing, as in the original, whose warm-up call is commented out."""

    name = "TimerDequeueWarmService"
