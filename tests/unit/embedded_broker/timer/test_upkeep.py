"""Now and then: counts revised, old log files removed, one line of progress."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from embedded_broker.timer.wheel.upkeep import TimerUpkeep
from tests.unit.embedded_broker.store.store_tools import delete_before
from tests.unit.embedded_broker.timer.timer_rig import START_MS, Endless, Rig, Short

FIVE_UTC_MS = int(datetime(2023, 11, 15, 5, 30, tzinfo=UTC).timestamp() * 1000)
HOUR_MS = 3_600_000


def upkeep_of(rig: Rig) -> TimerUpkeep:
    timers = rig.timers
    return TimerUpkeep(
        timers._state,
        rig.config,
        list(timers.stages.values()),
        settle=timers._settle,
        zone=UTC,
    )


def revise(rig: Rig, upkeep: TimerUpkeep, wall_ms: int = FIVE_UTC_MS) -> bool:
    begun = upkeep.begin_revision(wall_ms)
    while upkeep.go_on(rig.clock.now_ms, Endless()):
        pass
    return begun


def spoiled(count: int = 5, **config: object) -> Rig:
    """A store with timers of two topics whose counts were made wrong."""
    rig = Rig(config=config)
    for _ in range(count):
        rig.timer(60_000)
        rig.timer(90_000, topic="U")
    metrics = rig.timers._state.metrics
    metrics.add("T", 3, START_MS)
    metrics.add("V", 1, START_MS)
    return rig


def test_a_wrong_count_is_put_right_in_the_hour_that_is_set() -> None:
    rig = spoiled()
    upkeep = upkeep_of(rig)
    assert not revise(rig, upkeep, FIVE_UTC_MS - HOUR_MS)
    assert rig.timers.count("T") == 8
    assert revise(rig, upkeep)
    assert [rig.timers.count(topic) for topic in "TUV"] == [5, 5, 0]
    assert upkeep.revised == 2


def test_a_slot_that_is_partly_released_counts_what_is_left() -> None:
    rig = Rig(config={"timerReleasePrecisionMs": 1})
    for delay_ms in (1100, 1200, 1900, 2100, 2900, 300_000):
        rig.timer(delay_ms)
    rig.timers.recall("K4")
    rig.advance(1500)
    assert len(rig.bodies()) == 2
    rig.timers._state.metrics.add("T", 9, START_MS)
    assert revise(rig, upkeep_of(rig))
    assert rig.timers.count() == 3
    rig.advance(300_000)
    assert rig.timers.count() == 0


def test_counts_are_not_revised_twice_within_seventy_minutes() -> None:
    rig = spoiled(timerCheckMetricsWhen="05;06")
    upkeep = upkeep_of(rig)
    assert revise(rig, upkeep)
    assert not revise(rig, upkeep, FIVE_UTC_MS + 45 * 60_000)
    assert revise(rig, upkeep, FIVE_UTC_MS + 71 * 60_000)


def test_counts_are_left_alone_when_revision_is_off_or_a_topic_is_large() -> None:
    rig = spoiled(timerEnableCheckMetrics=False)
    assert not revise(rig, upkeep_of(rig))
    rig = spoiled(timerMetricSmallThreshold=8)
    assert revise(rig, upkeep_of(rig))
    assert [rig.timers.count(topic) for topic in "TUV"] == [8, 5, 0]


def test_the_blanks_between_log_files_do_not_end_a_revision() -> None:
    rig = spoiled(60, mappedFileSizeTimerLog=1024)
    assert len(rig.timers._state.log.file_starts) > 3
    assert revise(rig, upkeep_of(rig))
    assert [rig.timers.count(topic) for topic in "TUV"] == [60, 60, 0]


@pytest.mark.parametrize("change", ["timer", "recall", "release"])
def test_a_revision_in_turns_ends_when_a_count_changes(change: str) -> None:
    rig = spoiled(200)
    upkeep = upkeep_of(rig)
    assert upkeep.begin_revision(FIVE_UTC_MS)
    assert upkeep.go_on(rig.clock.now_ms, Short(1))
    if change == "timer":
        rig.timer(60_000)
    elif change == "recall":
        rig.timers.recall("K1")
    else:
        rig.advance(60_000)
    assert not upkeep.go_on(rig.clock.now_ms, Endless())
    assert (upkeep.given_up, upkeep.revised) == (1, 0)


def test_a_revision_counts_a_recalled_timer_no_more() -> None:
    rig = spoiled()
    rig.timers.recall("K1")
    assert revise(rig, upkeep_of(rig))
    assert rig.timers.count("T") == 4
    assert rig.timers.count("T") == 4


def test_counts_of_topics_that_are_gone_are_forgotten_unless_timers_wait() -> None:
    rig = Rig()
    for topic in ("Gone", "Waits", "rmq_sys_x", "%LMQ%x", "Known"):
        rig.timer(1000 if topic != "Waits" else 60_000, topic=topic)
    rig.advance(1000)
    rig.timers.upkeep.forget_topics(["Known"])
    assert rig.timers.metrics.topics == ["%LMQ%x", "Known", "Waits", "rmq_sys_x"]


def test_log_files_are_let_go_once_their_messages_left_the_commit_log() -> None:
    rig = Rig(config={"mappedFileSizeCommitLog": 4096, "mappedFileSizeTimerLog": 256})
    for _ in range(60):
        rig.timer(1000)
    rig.advance(1000)
    log = rig.timers._state.log
    assert rig.timers.upkeep.begin_cleaning() is None
    files = len(log.file_starts)
    delete_before(rig.store, 8192)
    work = rig.timers.upkeep.begin_cleaning()
    assert work is not None
    kept = log.file_starts
    assert len(kept) < files
    work()
    assert sorted(rig.fs.list("timerlog")) == [f"{start:020d}" for start in kept]
    rig.timer(1000)
    rig.restart()
    rig.advance(1000)
    assert rig.bodies()[-1] == b"61"


def test_the_line_of_progress_names_the_services_that_something_waits_for() -> None:
    rig = Rig()
    rig.timer(500)
    text = rig.timers.upkeep.progress(rig.clock.now_ms + 2500)
    assert "1 pending, 0 dropped" in text
    assert "TimerDequeuePutMessageService 1 (2000 ms)" in text
    assert "TimerFlushService" not in text
    rig.advance(3000)
    assert rig.timers.upkeep.progress(rig.clock.now_ms).endswith("waiting: nothing")
