"""The seconds of a slice in memory."""

from __future__ import annotations

from embedded_broker.timer.recall import Mark
from embedded_broker.timer.slices.cells import Cell, SliceWheel
from embedded_broker.timer.slices.record import Glance


def filled(positions: list[int]) -> Cell:
    cell = Cell()
    for position in positions:
        cell.add(position)
    return cell


def test_a_cell_gives_its_timers_in_the_order_of_their_places() -> None:
    cell = filled([30, 40, 10, 20])
    cell.arrange()
    taken = []
    while len(cell):
        taken.append(cell.peek())
        assert cell.left()[0] == taken[-1]
        cell.pop()
    assert taken == [10, 20, 30, 40]
    assert not cell.left()


def test_a_timer_takes_eight_bytes() -> None:
    cell = filled([7])
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
    wheel = SliceWheel(2, 60, load_to=0)
    assert wheel.marks.add(mark_at(120))
    assert wheel.marks.add(mark_at(120))
    assert first_of(wheel) is None
    wheel.add(150, 0)
    wheel.add(130, 3)
    wheel.add(130, 6)
    assert (first_of(wheel), wheel.count(130), list(wheel.seconds())) == (130, 2, [130, 150])
    wheel.clear(130)
    wheel.clear(5)
    assert (first_of(wheel), wheel.count(130)) == (150, 0)
    assert wheel.marks.at(120) == {"T+K": [Mark(1, None)]}
    wheel.clear(120)
    assert not wheel.marks.at(120)
