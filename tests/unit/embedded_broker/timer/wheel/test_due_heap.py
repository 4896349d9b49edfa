"""What is in memory between the wheel and the topics."""

from __future__ import annotations

from embedded_broker.timer.recall import Mark
from embedded_broker.timer.wheel.due_heap import NOT_LATE, DueHeap, EntryKind, Waiting


def entry(
    due_ms: int,
    *,
    root: int = 0,
    slot_ms: int = 0,
    kind: int = EntryKind.RELEASE,
    queue_offset: int = NOT_LATE,
) -> Waiting:
    return Waiting(due_ms, root, root, 100, slot_ms, slot_ms, 0, kind, queue_offset)


def test_entries_act_in_due_order_and_ties_by_their_first_copy() -> None:
    due_heap = DueHeap()
    for one in (entry(5, root=9), entry(3), entry(5, root=1)):
        due_heap.add(one)
    assert [(one.due_ms, one.root) for one in (due_heap.pop(), due_heap.pop(), due_heap.pop())] == [
        (3, 0),
        (5, 1),
        (5, 9),
    ]
    assert due_heap.next_due_ms is None


def test_a_carried_timer_holds_its_slot_until_it_is_finished() -> None:
    due_heap = DueHeap()
    due_heap.loaded[1000] = 77
    due_heap.carry(entry(2000, slot_ms=1000, kind=EntryKind.ROLL), 9000)
    due_heap.leave_before(2000)
    assert due_heap.loaded == {}
    assert due_heap.oldest_unfinished(5000) == 1000
    assert due_heap.release_scan_pos(500) == 77
    carried = due_heap.pop()
    assert (carried.due_ms, carried.kind) == (9000, EntryKind.CARRIED)
    due_heap.finish(entry(2000, slot_ms=1000))
    assert 1000 in due_heap.held
    due_heap.finish(carried)
    assert due_heap.oldest_unfinished(5000) == 5000
    assert due_heap.release_scan_pos(500) == 500


def test_what_was_carried_past_a_slot_can_be_taken_out_again() -> None:
    due_heap = DueHeap()
    due_heap.loaded[1000] = 0
    timer = entry(2000, slot_ms=1000, kind=EntryKind.ROLL)
    mark = entry(2000, root=3, slot_ms=1000, kind=EntryKind.ROLL_MARK)
    due_heap.carry(timer, 9000)
    due_heap.carry_mark(mark, "T+K", Mark(3, None), end_slot_ms=8000)
    due_heap.add(entry(2500, slot_ms=1000))
    assert sorted(one.root for one in due_heap.carried(1000)) == [0, 3]
    due_heap.let_go(1000)
    assert due_heap.held == {}
    assert len(due_heap.heap) == 1
    assert due_heap.marks(1000) is not None
    due_heap.leave_before(8001)
    assert due_heap.marks(1000) is None


def test_late_entries_and_marks_hold_the_queue_offset() -> None:
    due_heap = DueHeap()
    late = entry(1, root=40, queue_offset=12)
    due_heap.add_late(late)
    due_heap.add_late_mark(1000, "T+K", Mark(50, None), 14)
    assert due_heap.first_late_queue_offset() == 12
    assert due_heap.release_scan_pos(500) == 40
    due_heap.finish(due_heap.pop())
    assert due_heap.first_late_queue_offset() == 14
    due_heap.forget_late_marks(999)
    assert due_heap.first_late_queue_offset() == 14
    due_heap.forget_late_marks(1000)
    assert due_heap.first_late_queue_offset() is None
    assert due_heap.marks(1000) is None


def test_a_late_mark_that_also_came_with_its_slot_stays_as_long_as_the_slot() -> None:
    due_heap = DueHeap()
    mark = Mark(50, None)
    due_heap.add_late_mark(1000, "T+K", mark, 14)
    due_heap.add_mark(1000, "T+K", mark, end_slot_ms=1000)
    due_heap.forget_late_marks(1000)
    assert due_heap.marks(1000) == {"T+K": [mark]}
    assert due_heap.copy_of_marks() == {1000: {"T+K": [mark]}}
    due_heap.leave_before(1001)
    assert due_heap.copy_of_marks() == {}


def test_removed_victims_are_remembered_while_their_slot_would_be_read_again() -> None:
    due_heap = DueHeap()
    due_heap.note_removed(entry(1, root=7, slot_ms=1000))
    due_heap.note_removed(entry(1, root=8, slot_ms=3000))
    due_heap.note_removed(entry(1, root=9, slot_ms=3000, queue_offset=5))
    assert due_heap.removed_since(1000) == {7, 8}
    assert due_heap.removed_since(2000) == {8}
    assert due_heap.removed_since(0) == {8}
