"""Counting anew, and the upkeep that does it now and then."""

from __future__ import annotations

from embedded_broker.timer.slices.recount import recount
from tests.unit.embedded_broker.timer.slices.slice_rig import SliceRig

FIVE_UTC_MS = 1_700_024_400_000
HOUR_MS = 3_600_000


def filled() -> SliceRig:
    rig = SliceRig()
    for topic, delay in (("A", 1000), ("A", 50_000), ("B", 100_000), ("B", 500_000)):
        rig.timer(delay, topic=topic)
    rig.timers.recall("K4")
    rig.advance(2000)
    return rig


def test_a_recount_finds_what_the_counts_say() -> None:
    rig = filled()
    rig.timers.stages["SliceDispatchService"].pause()
    rig.timer(70_000, topic="A")
    rig.timer(60_000, topic="C")
    rig.timers.recall("K6")
    assert recount(rig.timers._state) == {"A": 2, "B": 1}
    assert {topic: rig.timers.count(topic) for topic in "ABC"} == {"A": 2, "B": 1, "C": 0}


def test_late_timers_count() -> None:
    rig = filled()
    rig.clock.now_ms -= 1500
    rig.timer(600, topic="L")
    assert recount(rig.timers._state) == {"A": 1, "B": 1, "L": 1}
