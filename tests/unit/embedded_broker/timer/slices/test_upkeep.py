"""What the sliced engine does now and then."""

from __future__ import annotations

from datetime import UTC

from embedded_broker.timer.slices.upkeep import SliceUpkeep, recount
from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, Short, SliceRig

FIVE_UTC_MS = 1_700_024_400_000
HOUR_MS = 3_600_000


def revise(rig: SliceRig, upkeep: SliceUpkeep, wall_ms: int) -> bool:
    begun = upkeep.begin_revision(wall_ms)
    while upkeep.go_on(rig.clock.now_ms, Short(2)):
        pass
    return begun


def upkeep_of(rig: SliceRig) -> SliceUpkeep:
    timers = rig.timers
    return SliceUpkeep(
        timers._state,
        rig.config,
        tuple(timers.stages.values()),
        settle=timers._settle_marks,
        zone=UTC,
    )


def test_counts_are_revised_at_the_hour_that_is_set_and_not_again_soon() -> None:
    rig = filled()
    upkeep = upkeep_of(rig)
    rig.timers.metrics.add("A", 7, START_MS)
    assert not revise(rig, upkeep, FIVE_UTC_MS - HOUR_MS)
    assert revise(rig, upkeep, FIVE_UTC_MS)
    assert (rig.timers.count("A"), rig.timers.count("B"), upkeep.revised) == (1, 1, 1)
    assert not revise(rig, upkeep, FIVE_UTC_MS + 1000)
    rig.config.update(timerEnableCheckMetrics=False)
    assert not revise(rig, upkeep, FIVE_UTC_MS + 24 * HOUR_MS)


def test_topics_above_the_threshold_are_left_alone() -> None:
    rig = filled()
    rig.config.update(timerMetricSmallThreshold=5)
    rig.timers.metrics.add("A", 7, START_MS)
    assert revise(rig, upkeep_of(rig), FIVE_UTC_MS)
    assert rig.timers.count("A") == 8


def test_a_change_ends_a_revision() -> None:
    rig = filled()
    upkeep = upkeep_of(rig)
    assert upkeep.begin_revision(FIVE_UTC_MS)
    assert upkeep.go_on(rig.clock.now_ms, Short(1))
    rig.timer(5000)
    assert not upkeep.go_on(rig.clock.now_ms, Short(1))
    assert upkeep.given_up == 1


def test_topics_that_are_gone_are_forgotten_unless_timers_wait_for_them() -> None:
    rig = filled()
    rig.timers.upkeep.forget_topics(["X"])
    assert rig.timers.metrics.topics == ["A", "B"]
    rig.advance(1_000_000)
    rig.timers.upkeep.forget_topics(["B"])
    assert rig.timers.metrics.topics == ["B"]
    assert rig.timers.upkeep.begin_cleaning() is None


def test_progress_says_where_the_services_are() -> None:
    rig = filled()
    rig.timers.stages["SliceDispatchService"].pause()
    rig.timer(5000)
    text = rig.timers.upkeep.progress(rig.clock.now_ms + 3000)
    assert "4 slices, 3 pending, 0 dropped" in text
    assert "SliceDispatchService 1 (3000 ms)" in text


# --- counting anew, and the upkeep that does it now and then -------------------------------------


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
