"""How many timers are due within five seconds, a minute, ... a day."""

from __future__ import annotations

import pytest

from tests.unit.embedded_broker.timer.timer_rig import Endless, Rig, Short


def buckets(rig: Rig, turns: int = 0) -> dict[int, int]:
    snapshot = rig.timers.distribution()
    while not snapshot.done:
        snapshot.step(Short(turns) if turns else Endless())
    return {bound: number for bound, number in snapshot.buckets.items() if number}


@pytest.mark.case("P35")
def test_each_timer_counts_in_the_bucket_of_its_distance() -> None:
    rig = Rig()
    rig.timer(3000)
    rig.timer(120_000)

    assert buckets(rig) == {5: 1, 300: 1}
    assert list(rig.timers.distribution().buckets) == [
        5,
        60,
        300,
        900,
        3600,
        14_400,
        28_800,
        86_400,
    ]


@pytest.mark.case("P35")
def test_timers_in_memory_and_recalled_ones_count_as_in_their_slot() -> None:
    rig = Rig()
    rig.timer(500)
    recalled = rig.timer(30_000)
    rig.timer(30_000)
    rig.timers.recall(recalled)

    assert buckets(rig) == {5: 1, 60: 1}
    rig.advance(500)
    assert buckets(rig) == {60: 1}


def test_a_timer_on_its_way_counts_where_it_lies_and_none_beyond_a_day() -> None:
    rig = Rig(slots=100_000, config={"timerRollWindowSlot": 1000, "timerMaxDelaySec": 100_000})
    rig.timer(90_000_000)
    assert buckets(rig) == {3600: 1}

    far = Rig(slots=100_000, config={"timerRollWindowSlot": 99_000, "timerMaxDelaySec": 100_000})
    far.timer(90_000_000)
    assert buckets(far) == {}


def test_a_snapshot_is_taken_in_turns() -> None:
    rig = Rig()
    for number in range(300):
        rig.timer(10_000 + number * 1000)
    snapshot = rig.timers.distribution()
    snapshot.step(Short(2))

    assert not snapshot.done
    assert buckets(rig, turns=2) == {60: 51, 300: 240, 900: 9}
