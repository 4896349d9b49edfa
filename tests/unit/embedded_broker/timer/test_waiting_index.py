"""The index of what waits: rows in order, whatever comes and leaves."""

from __future__ import annotations

import sys
from random import Random

from embedded_broker.timer.listing import BEFORE_ALL, NEVER_MS, ListPosition, Wanted
from embedded_broker.timer.waiting_index import Row, WaitingIndex
from rocketmq_py.protocol.names import REVIVE_TOPIC_PREFIX


def rows_of(
    index: WaitingIndex, wanted: Wanted | None = None, before_ms: int = NEVER_MS
) -> list[Row]:
    """All rows, part by part."""
    wanted, after, found = wanted or Wanted(), BEFORE_ALL, list[Row]()
    while after.due_ms < before_ms:
        rows, after = index.part(wanted, after, before_ms)
        found += rows
    return found


def test_rows_are_in_order_after_any_course_of_adding_and_removing() -> None:
    index, truth, random = WaitingIndex(), dict[tuple[int, int], int](), Random(5)
    for step in range(20_000):
        place = (random.randrange(50), random.randrange(200))
        if random.random() < (0.7 if step < 8000 else 0.3):
            index.add(*place, step, "T")
            truth[place] = step
        else:
            index.remove(*place, truth.pop(place, -1))

    expected = [(*place, offset, "T") for place, offset in sorted(truth.items())]
    assert len(index) == len(truth) > 1000
    assert rows_of(index) == expected
    assert all(place in index for place in truth)
    assert not any((due_ms, 200) in index for due_ms in range(60))
    assert index.first_due_ms == expected[0][0]
    for *row, _ in expected:
        index.remove(*row)
    assert rows_of(index) == []
    assert len(index) == 0
    assert index.first_due_ms is None


def test_the_newest_copy_stays_whichever_is_told_or_leaves_last() -> None:
    index = WaitingIndex()
    index.add(5, 1, 70, "T")
    index.add(5, 1, 1, "T")
    index.remove(5, 1, 1)
    index.remove(5, 2, 70)
    index.remove(9, 9, 9)

    assert rows_of(index) == [(5, 1, 70, "T")]


def test_a_part_ends_where_asked_and_never_goes_back() -> None:
    index = WaitingIndex()
    for due_ms in range(3000):
        index.add(due_ms, due_ms, due_ms, "T")

    rows, end = index.part(Wanted(limit=40), ListPosition(99, NEVER_MS), NEVER_MS)

    assert [due_ms for due_ms, *_ in rows] == list(range(100, 140))
    assert end == ListPosition(139, 139)
    assert len(rows_of(index, before_ms=1500)) == 1500
    assert index.part(Wanted(), ListPosition(2000, 0), 1500) == ([], ListPosition(2000, 0))
    assert index.part(Wanted(), ListPosition(9000, 0), 1500) == ([], ListPosition(9000, 0))


def test_only_rows_of_the_topic_that_is_asked_for_are_given() -> None:
    index = WaitingIndex()
    for number in range(5000):
        index.add(number, number, number, "B" if number % 1000 == 7 else "A")
    index.add(8, 9, 9, f"{REVIVE_TOPIC_PREFIX}c")

    assert [due_ms for due_ms, *_ in rows_of(index, Wanted(topic="B"))] == [
        7, 1007, 2007, 3007, 4007
    ]  # fmt: skip
    assert rows_of(index, Wanted(topic="C")) == []
    assert len(rows_of(index)) == 5000
    assert len(rows_of(index, Wanted(topic=f"{REVIVE_TOPIC_PREFIX}c"))) == 1


def test_a_timer_costs_at_most_as_much_memory_as_is_said() -> None:
    index, random = WaitingIndex(), Random(1)
    for number in range(50_000):
        index.add(random.randrange(10**9), number, number, "T")

    arrays = sum(sys.getsizeof(column) for chunk in index._chunks for column in chunk)

    assert arrays / len(index) < 30
