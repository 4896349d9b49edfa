"""Marks of a sliced store in memory."""

from __future__ import annotations

from embedded_broker.timer.recall import Mark
from embedded_broker.timer.slices.marks import MarkTable, hits_among, is_hit
from embedded_broker.timer.slices.record import Glance


def delete_message(source: int, second: int, **properties: str) -> Glance:
    asked = {
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
        "TIMER_OUT_MS": str(second * 1000 - 1),
        "TIMER_DEL_UNIQKEY": "T+K",
        **properties,
    }
    return Glance(source, 100, second, "T", True, asked)


def test_a_mark_is_found_by_its_second_and_key_until_the_second_is_over() -> None:
    table = MarkTable()
    assert not table
    assert table.add(delete_message(40, 9))
    assert table.add(delete_message(40, 9))
    assert table.add(delete_message(50, 9, TIMER_DEL_OFFSET="7"))
    assert table.add(delete_message(60, 10))
    assert table.at(9) == {"T+K": [Mark(40, None), Mark(50, 7)]}
    assert table.at(11) == {}
    table.forget(9)
    assert not table.at(9)
    assert table
    table.clear()
    assert not table


def test_what_is_no_delete_message_is_not_taken() -> None:
    table = MarkTable()
    properties = {"REAL_TOPIC": "T", "REAL_QID": "0", "TIMER_OUT_MS": "8999"}
    assert not table.add(Glance(40, 100, 9, "T", True, properties))
    assert not table.add(Glance(40, 100, 9, "T", True, {}))
    assert not table


def test_hits_are_looked_for_in_every_table_under_the_key_of_the_timer() -> None:
    first, second = {"T+K": [Mark(100, 5), Mark(110, 6)]}, {"T+K": [Mark(120, None)], "U+K": []}
    timer = {"REAL_TOPIC": "T", "UNIQ_KEY": "K"}
    assert hits_among((first, second), 5, timer) == [Mark(100, 5), Mark(120, None)]
    assert hits_among((first,), 7, timer) == []
    assert hits_among((first, second), 5, {**timer, "REAL_TOPIC": "U"}) == []


def test_a_mark_hits_its_victim_or_every_timer_of_the_key_but_moved_ones() -> None:
    moved = {"TIMER_DEL_OFFSET": "1"}
    assert is_hit(Mark(100, 5), 5, {})
    assert not is_hit(Mark(100, 5), 6, {})
    assert is_hit(Mark(100, None), 6, {})
    assert is_hit(Mark(100, None), 600, {})
    assert not is_hit(Mark(100, None), 600, moved)
    assert is_hit(Mark(100, None), 60, moved)
    assert is_hit(Mark(100, 600), 600, moved)
