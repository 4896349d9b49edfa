"""Counts that are found out from the files."""

from __future__ import annotations

from embedded_broker.timer.wheel.upkeep import recount
from tests.unit.embedded_broker.timer.timer_rig import Rig


def test_waiting_timers_are_counted_by_topic_wherever_they_are() -> None:
    rig = Rig(config={"timerRollWindowSlot": 20})
    for topic, delay_ms in (("Aa", 500), ("BB", 5000), ("Aa", 90_000), ("C", 30_000)):
        rig.timer(delay_ms, topic=topic)
    rig.advance(1000)
    rig.timers.stages["TimerEnqueueGetService"].pause()
    rig.timer(5000, topic="D")
    assert recount(rig.timers._state) == {"Aa": 1, "BB": 1, "C": 1, "D": 1}


def test_recalled_timers_do_not_count_also_when_hop_and_mark_are_apart() -> None:
    rig = Rig(config={"timerRollWindowSlot": 7})
    keys = [rig.timer(60_000) for _ in range(3)]
    rig.advance(11_000)
    rig.timers.recall(keys[1])
    assert recount(rig.timers._state) == {"T": 2}
    assert rig.crash().pending == 2
    assert rig.timers.count("T") == 2


def test_counts_of_a_clean_stop_are_taken_as_they_are() -> None:
    rig = Rig()
    rig.timer(60_000)
    rig.timers._state.metrics.add("T", 41, 0)
    assert rig.restart().pending == 42
    assert rig.crash().pending == 42
    rig.timer(60_000)
    assert rig.crash().pending == 2
