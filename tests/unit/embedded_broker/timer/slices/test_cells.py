"""The seconds of a slice in memory."""

from __future__ import annotations

import pytest

from embedded_broker.timer.recall import Mark
from embedded_broker.timer.slices.cells import Cell, SliceWheel
from embedded_broker.timer.slices.record import Glance


def filled(positions: list[int], *, keeps_messages: bool) -> Cell:
    cell = Cell(keeps_messages=keeps_messages)
    for position in positions:
        cell.add(position, memoryview(b"%d" % position))
    return cell


@pytest.mark.parametrize("keeps_messages", [False, True])
def test_a_cell_gives_its_timers_in_the_order_of_their_places(keeps_messages: bool) -> None:
    cell = filled([30, 40, 10, 20], keeps_messages=keeps_messages)
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


def test_the_bytes_are_kept_only_if_that_is_asked_for() -> None:
    assert filled([5], keeps_messages=False).peek() == (5, None)
    assert filled([5], keeps_messages=True).peek() == (5, b"5")


def test_without_the_bytes_a_timer_takes_eight_bytes() -> None:
    cell = filled([7], keeps_messages=False)
    assert cell._positions.itemsize * len(cell._positions) == 8
    assert list(cell._positions) == [7]


def mark_at(second: int) -> Glance:
    """A mark by key that lies at 1."""
    properties = {
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
        "TIMER_OUT_MS": str(second * 1000 - 1),
        "TIMER_DEL_UNIQKEY": "T+K",
    }
    return Glance(1, 100, second, "T", True, properties)


def first_of(wheel: SliceWheel) -> int | None:
    return wheel.next_second


def test_a_wheel_knows_its_first_second_and_forgets_what_is_over() -> None:
    wheel = SliceWheel(2, 60, load_to=0, keeps_messages=False)
    assert wheel.marks.add(mark_at(120))
    assert wheel.marks.add(mark_at(120))
    assert first_of(wheel) is None
    wheel.add(150, 0, memoryview(b"abc"))
    wheel.add(130, 3, memoryview(b"abc"))
    wheel.add(130, 6, memoryview(b"abc"))
    assert (first_of(wheel), wheel.count(130), list(wheel.seconds())) == (130, 2, [130, 150])
    wheel.clear(130)
    wheel.clear(5)
    assert (first_of(wheel), wheel.count(130)) == (150, 0)
    assert wheel.marks.at(120) == {"T+K": [Mark(1, None)]}
    wheel.clear(120)
    assert not wheel.marks.at(120)
