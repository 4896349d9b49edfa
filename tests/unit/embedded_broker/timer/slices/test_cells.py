"""The seconds of a slice in memory."""

from __future__ import annotations

import pytest

from embedded_broker.timer.recall import Mark
from embedded_broker.timer.slices.cells import Cell, MessageCell, OffsetCell, SliceWheel


def filled(kind: type[Cell], positions: list[int]) -> Cell:
    cell = kind()
    for position in positions:
        cell.add(position, memoryview(b"%d" % position))
    return cell


@pytest.mark.parametrize("kind", [OffsetCell, MessageCell])
def test_a_cell_gives_its_timers_in_the_order_of_their_places(kind: type[Cell]) -> None:
    cell = filled(kind, [30, 40, 10, 20])
    cell.arrange()
    taken = []
    while len(cell):
        position, kept = cell.peek()
        assert kept in {None, b"%d" % position}
        taken.append(position)
        assert cell.left()[0][0] == position
        cell.pop()
    assert taken == [10, 20, 30, 40]
    assert cell.left() == []


def test_only_a_message_cell_keeps_the_bytes() -> None:
    assert filled(OffsetCell, [5]).peek() == (5, None)
    assert filled(MessageCell, [5]).peek() == (5, b"5")


def test_an_offset_cell_takes_sixteen_bytes_a_timer() -> None:
    cell = OffsetCell()
    cell.add(7, memoryview(b"abc"))
    assert cell._places.itemsize * len(cell._places) == 16
    assert list(cell._places) == [7, 3]


def first_of(wheel: SliceWheel) -> int | None:
    return wheel.next_second


def test_a_wheel_knows_its_first_second_and_forgets_what_is_over() -> None:
    wheel = SliceWheel(2, 60, load_to=0, keeps_messages=False)
    wheel.add_mark(120, "T+K", Mark(1, None))
    wheel.add_mark(120, "T+K", Mark(1, None))
    assert first_of(wheel) is None
    assert wheel.cell(120) is not None
    wheel.add(150, 0, memoryview(b"abc"))
    wheel.add(130, 3, memoryview(b"abc"))
    wheel.add(130, 6, memoryview(b"abc"))
    assert (first_of(wheel), wheel.count(130), list(wheel.seconds())) == (130, 2, [130, 150])
    wheel.clear(130)
    wheel.clear(5)
    assert (first_of(wheel), wheel.count(130)) == (150, 0)
    cell = wheel.cell(120)
    assert cell is not None
    assert cell.marks == {"T+K": [Mark(1, None)]}
