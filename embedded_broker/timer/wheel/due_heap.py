"""Due heap: timers between the wheel and their release, in memory right now.

Answers: which timer is next, which of them are recalled, and how far back recovery would have to
look if the process died now. Only the two slots at the read pointer are held (and timers that a
clock jump carries past a hop); everything else lies in the wheel and the timer log alone. Must
not know: files, messages, clocks.

Two slots, because a copy may lie in the slot behind its own and still leaves at its own time.

Read on: `dequeue.py` and `release.py` for who fills and empties it.
"""

from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from embedded_broker.timer.recall import Mark

NOT_LATE: Final = -1
_LEFT_MOST: Final = 16384


Entry: TypeAlias = tuple[int, int, int, int, int, int, int, int, int]
"""What the heap holds: the fields of a `Waiting` as a bare tuple of numbers.

Python's collector stops looking at those, which it cannot with a named tuple or an enum inside:
else every full collection would walk over all timers of a slot while the door is held.
"""


class EntryKind:
    """What happens to an entry when its time has come."""

    RELEASE: Final = 0
    CARRIED: Final = 1
    """A release that was kept past its hop: its hop slot is held."""
    ROLL: Final = 2
    ROLL_MARK: Final = 3


class Waiting(NamedTuple):
    """One timer in memory; the order of fields is the order in which they act.

    `root` is the commit-log offset of the timer's first copy, so ties go by arrival. `slot_ms` is
    the wheel slot that stays unfinished while the entry is here. `queue_offset` is `NOT_LATE`
    unless the entry never entered the wheel.
    """

    due_ms: int
    root: int
    offset_py: int
    size_py: int
    out_ms: int
    slot_ms: int
    enqueue_ms: int
    kind: int
    queue_offset: int = NOT_LATE


KIND_AT: Final = Waiting._fields.index("kind")
OFFSET_AT: Final = Waiting._fields.index("offset_py")
"""Where an `Entry` has its kind and the offset of its message."""


def _bare(entry: Waiting) -> Entry:
    due_ms, root, offset_py, size_py, out_ms, slot_ms, enqueue_ms, kind, queue_offset = entry
    return due_ms, root, offset_py, size_py, out_ms, slot_ms, enqueue_ms, kind, queue_offset


class DueHeap:
    """Heap, marks, and the bookkeeping of what is not finished."""

    def __init__(self) -> None:
        self.heap: list[Entry] = []
        self.loaded: dict[int, int] = {}
        """Slot to the commit-log end when it was loaded: its releases lie behind that."""
        self.held: dict[int, list[int]] = {}
        """Passed slots that still own entries here: number of them, load-time commit-log end."""
        self.done: set[int] = set()
        """Source offsets that an earlier life released already."""
        self.left: list[Entry] | None = None
        """What was finished since `listing.py` looked; None: it does not look, or it is much."""
        self._removed: dict[int, list[int]] = {}
        self._late: dict[int, int] = {}
        self._late_marks: dict[int, int] = {}
        self._late_slots: Counter[int] = Counter()
        """How many of `_late_marks` are for a slot."""
        self.kept_for: dict[int, int] = {}
        """Queue offset of a victim that is kept out of the wheel, to the offset of its mark."""
        self._marks: dict[int, dict[str, list[Mark]]] = {}
        self._mark_ends: list[tuple[int, int, int]] = []
        self._carried_marks: dict[int, list[Waiting]] = {}

    # --- timers ------------------------------------------------------------------------------

    def add(self, entry: Waiting) -> None:
        """Take a timer of a loaded slot."""
        heappush(self.heap, _bare(entry))

    def add_late(self, entry: Waiting) -> None:
        """Take a timer whose slot is behind the read pointer."""
        self._late[entry.queue_offset] = entry.offset_py
        heappush(self.heap, _bare(entry))

    def pop(self) -> Waiting:
        """Take out the entry that acts first."""
        return Waiting(*heappop(self.heap))

    def __iter__(self) -> Iterator[Waiting]:
        """Go through the entries, in no order."""
        return (Waiting(*entry) for entry in self.heap)

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the heap and the loaded slots says what happens to timers."""
        return not (
            self._marks
            or self.done
            or self._late
            or self._late_marks
            or self._mark_ends
            or self._carried_marks
        )

    def take_back(self, gone: list[Entry], come: list[Entry]) -> None:
        """Undo that these entries left the heap and those came into it."""
        others = set(come)
        self.heap[:] = [entry for entry in self.heap if entry not in others]
        self.heap += [entry for entry in gone if entry not in others]
        heapify(self.heap)

    def carry(self, entry: Entry, due_ms: int) -> None:
        """Keep a timer past its hop, until its due time: nothing is written."""
        _, root, offset_py, size_py, out_ms, slot_ms, enqueue_ms, _, queue_offset = entry
        self._hold(slot_ms)
        kept = (due_ms, root, offset_py, size_py, out_ms, slot_ms, enqueue_ms)
        heappush(self.heap, (*kept, EntryKind.CARRIED, queue_offset))

    def finish(self, *entries: Entry) -> None:
        """Note that nothing more happens to entries that were popped."""
        if self.left is not None:
            self.left += entries
            if len(self.left) > _LEFT_MOST:
                self.left = None
        for _, _, _, _, _, slot_ms, _, kind, queue_offset in entries:
            if queue_offset != NOT_LATE:
                self._late.pop(queue_offset, None)
            elif kind == EntryKind.CARRIED:
                self._unhold(slot_ms)

    def carried(self, slot_ms: int) -> list[Waiting]:
        """Take out what was carried past this hop slot, to be rolled after all.

        Its marks go on working here; their rolled copies do so after a crash.
        """
        taken: list[Waiting] = []
        others: list[Entry] = []
        for one in self.heap:
            entry = Waiting(*one)
            if entry.kind == EntryKind.CARRIED and entry.slot_ms == slot_ms:
                taken.append(entry)
            else:
                others.append(one)
        if taken:
            self.heap[:] = others
            heapify(self.heap)
        return taken + self._carried_marks.pop(slot_ms, [])

    @property
    def next_due_ms(self) -> int | None:
        """When the first entry acts; None without any."""
        return self.heap[0][0] if self.heap else None

    # --- marks -------------------------------------------------------------------------------

    def add_mark(self, out_ms: int, key: str, mark: Mark, *, end_slot_ms: int) -> None:
        """Let a mark work on victims of `out_ms` until the read pointer passes `end_slot_ms`."""
        self._let_work(out_ms, key, mark)
        heappush(self._mark_ends, (end_slot_ms, out_ms, NOT_LATE))

    def add_late_mark(self, out_ms: int, key: str, mark: Mark, queue_offset: int) -> None:
        """Let a mark work until `forget_late_marks`: its slot is behind, or it is still queued."""
        self._let_work(out_ms, key, mark)
        if queue_offset not in self._late_marks:
            self._late_marks[queue_offset] = out_ms
            self._late_slots[out_ms] += 1

    def _let_work(self, out_ms: int, key: str, mark: Mark) -> None:
        marks = self._marks.setdefault(out_ms, {}).setdefault(key, [])
        if mark not in marks:
            marks.append(mark)

    def note_entered(self, queue_offset: int) -> None:
        """Forget a mark that came into a slot which is not loaded: it comes back with that."""
        out_ms = self._late_marks.pop(queue_offset, None)
        if out_ms is None:
            return
        self._uncount_late(out_ms)
        is_needed = any(one == out_ms for _, one, _ in self._mark_ends)
        if out_ms not in self._late_slots and not is_needed:
            self._marks.pop(out_ms, None)

    def _uncount_late(self, out_ms: int) -> None:
        self._late_slots[out_ms] -= 1
        if not self._late_slots[out_ms]:
            del self._late_slots[out_ms]

    def carry_mark(self, entry: Waiting, key: str, mark: Mark, *, end_slot_ms: int) -> None:
        """Keep a mark past its hop, until the read pointer passes its final slot."""
        self._hold(entry.slot_ms)
        self._let_work(entry.out_ms, key, mark)
        self._carried_marks.setdefault(entry.slot_ms, []).append(entry)
        heappush(self._mark_ends, (end_slot_ms, entry.out_ms, entry.slot_ms))

    def marks(self, out_ms: int) -> dict[str, list[Mark]] | None:
        """Give the marks that may hit victims of this slot; usually None."""
        return self._marks.get(out_ms)

    def copy_of_marks(self) -> dict[int, dict[str, list[Mark]]]:
        """Give all marks, in lists of the caller's own."""
        return {
            out_ms: {key: list(marks) for key, marks in by_key.items()}
            for out_ms, by_key in self._marks.items()
        }

    def forget_late_marks(self, upto_ms: int) -> None:
        """End a step: late marks for slots up to this one have met every victim there was.

        Victims of later ones may still wait: a clock that was set back keeps them.
        """
        if self._late_marks:
            still_needed = {out_ms for _, out_ms, _ in self._mark_ends}
            over = {at: out_ms for at, out_ms in self._late_marks.items() if out_ms <= upto_ms}
            for queue_offset, out_ms in over.items():
                del self._late_marks[queue_offset]
                self._uncount_late(out_ms)
                if out_ms not in still_needed:
                    self._marks.pop(out_ms, None)

    def note_removed(self, entry: Waiting) -> None:
        """Remember a victim, or what left for another broker, while its slot would be read again.

        Nothing else says that it is gone: `removed_since` goes into timermeta.
        """
        if entry.queue_offset == NOT_LATE:
            self.note_left(entry.slot_ms, entry.offset_py)

    def note_left(self, slot_ms: int, offset_py: int) -> None:
        """Remember a timer of a slot, as `note_removed` does."""
        self._removed.setdefault(slot_ms, []).append(offset_py)

    def removed_since(self, read_ms: int) -> frozenset[int]:
        """Give the offsets of the victims in slots from `read_ms` on, and forget the others."""
        for slot_ms in [one for one in self._removed if one < read_ms]:
            del self._removed[slot_ms]
        return frozenset(offset for offsets in self._removed.values() for offset in offsets)

    # --- slots -------------------------------------------------------------------------------

    def leave_before(self, read_ms: int) -> None:
        """Forget the loaded slots and the marks before the new read pointer."""
        for slot_ms in [one for one in self.loaded if one < read_ms]:
            del self.loaded[slot_ms]
        ends = self._mark_ends
        while ends and ends[0][0] < read_ms:
            _, out_ms, held_slot = heappop(ends)
            if out_ms not in self._late_slots:
                self._marks.pop(out_ms, None)
            if held_slot != NOT_LATE:
                self._unhold(held_slot)

    def let_go(self, slot_ms: int) -> None:
        """Stop holding a passed slot: everything it carried was rolled."""
        self.held.pop(slot_ms, None)

    def _hold(self, slot_ms: int) -> None:
        held = self.held.get(slot_ms)
        if held is None:
            self.held[slot_ms] = [1, self.loaded[slot_ms]]
        else:
            held[0] += 1

    def _unhold(self, slot_ms: int) -> None:
        held = self.held.get(slot_ms)
        if held is None:
            return  # what it carried was rolled after all
        held[0] -= 1
        if held[0] == 0:
            del self.held[slot_ms]
            self._carried_marks.pop(slot_ms, None)

    # --- what recovery would need --------------------------------------------------------------

    def oldest_unfinished(self, read_ms: int) -> int:
        """Give the earliest slot that owns something not yet released."""
        return min(read_ms, *self.held) if self.held else read_ms

    def release_scan_pos(self, commit_log_end: int) -> int:
        """Give the offset behind which every release from an unfinished slot lies."""
        positions = [*self.loaded.values(), *self._late.values()]
        positions += [scan_pos for _, scan_pos in self.held.values()]
        return min(positions, default=commit_log_end)

    def first_late_queue_offset(self) -> int | None:
        """Give the queue offset of the first late entry or mark that is still here."""
        offsets = [*self._late, *self._late_marks]
        return min(offsets) if offsets else None
