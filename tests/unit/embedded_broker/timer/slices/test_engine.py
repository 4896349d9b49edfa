"""The sliced engine: what leaves when, whatever happens in between."""

from __future__ import annotations

from random import Random

import pytest

from embedded_broker.store.put_values import PutStatus
from embedded_broker.timer.outcomes import RecallOutcome
from embedded_broker.timer.slices.state import SliceState
from embedded_broker.timer.stage import Stage
from rocketmq_py.protocol.properties import Prop
from tests.unit.embedded_broker.store.store_tools import delete_before
from tests.unit.embedded_broker.timer.dying_fs import DyingFileSystem, Killed
from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, Endless, Short, SliceRig
from tests.unit.embedded_broker.timer.timer_rig import Rig

DAY_MS = 86_400_000


def second_of(delay_ms: int) -> int:
    return -(-(START_MS + delay_ms) // 1000) * 1000


@pytest.mark.case("E1")
def test_the_number_of_a_slice_is_its_seconds_divided_by_the_length() -> None:
    rig = SliceRig(now_ms=1_641_349_000_000, config={"timeSliceLength": 1800})
    rig.send({"TIMER_DELIVER_MS": "1641349066282"})
    assert rig.slices() == [911_860]


def test_every_timer_leaves_at_its_second_rounded_up() -> None:
    rig = SliceRig()
    delays = [1, 999, 1000, 1001, 39_999, 40_000, 40_001, 100_500, 3_600_000]
    keys = {rig.timer(delay): delay for delay in delays}
    rig.advance(4_000_000)
    found = {one.properties["UNIQ_KEY"]: one.stored_at_ms for one in rig.messages()}
    assert found == {key: second_of(delay) for key, delay in keys.items()}
    assert rig.timers.count() == 0
    assert not rig.timers.lost


def test_nothing_leaves_early_however_small_the_steps_are() -> None:
    rig = SliceRig()
    rig.timer(2500)
    rig.advance(2999)
    assert rig.bodies() == []
    rig.advance(1)
    assert rig.bodies() == [b"1"]


def test_looking_ahead_finds_the_first_timer_that_will_leave() -> None:
    rig = SliceRig()
    first, _ = rig.timer(200_000), rig.timer(300_000)
    walk = rig.timers.look_ahead()
    walk.step(Endless())
    assert walk.first_due_ms == START_MS + 200_000
    rig.timers.recall(first)
    walk = rig.timers.look_ahead()
    walk.step(Endless())
    assert walk.first_due_ms == START_MS + 300_000


def test_after_a_long_downtime_everything_leaves_once() -> None:
    rig = SliceRig()
    for delay in (1000, 70_000, 500_000):
        rig.timer(delay)
    rig.close()
    rig.clock.now_ms += 30 * DAY_MS
    rig.open()
    rig.timer(1500)
    rig.advance(2000)
    assert rig.bodies() == [b"1", b"2", b"3", b"4"]


@pytest.mark.case("E4")
def test_after_a_kill_in_the_middle_of_a_slice_it_goes_on_from_the_saved_second() -> None:
    rig = SliceRig()
    for number in range(60):
        rig.timer(500 * number + 1)
    rig.advance(10_000)
    rig.flush()
    rig.advance(5500)
    rig.timers.fire(rig.clock.now_ms, horizon_ms=0, budget=Short(1))
    rig.crash()
    assert rig.recovery.read_time_ms == START_MS + 11_000
    assert rig.timers.count() == 60 - len(rig.messages())
    rig.advance(60_000)
    assert rig.bodies() == [b"%d" % number for number in range(1, 61)]


def test_a_second_crash_repeats_nothing_either() -> None:
    rig = SliceRig()
    for _ in range(20):
        rig.timer(3000)
    rig.flush()
    rig.clock.now_ms += 3000
    for _ in range(3):
        rig.timers.fire(rig.clock.now_ms, horizon_ms=0, budget=Short(3))
        rig.crash()
        rig.flush()
        rig.crash()
    rig.advance(5000)
    assert rig.bodies() == [b"%d" % number for number in range(1, 21)]


@pytest.mark.parametrize("seed", range(40))
def test_killed_at_any_write_it_loses_nothing_and_repeats_nothing(seed: int) -> None:
    random = Random(seed)
    fs = DyingFileSystem(random)
    rig = SliceRig(fs, config={"mappedFileSizeDCommitLog": 1024, "timeSliceLength": 7})
    accepted: set[str] = set()
    for _ in range(6):
        fs.die_in(random.randrange(3, 60))
        try:
            for _ in range(30):
                accepted.add(rig.timer(random.randrange(1, 30_000)))
                rig.advance(random.randrange(800))
                if random.random() < 0.3:
                    rig.flush()
        except Killed:
            pass
        fs.live_on()
        rig.crash()
    rig.advance(60_000)
    found = [one.properties["UNIQ_KEY"] for one in rig.messages()]
    assert len(found) == len(set(found))
    assert accepted <= set(found)
    assert rig.timers.count() == 0


@pytest.mark.case("E5")
def test_a_timer_for_next_month_outlives_the_commit_log() -> None:
    settings = {
        "mappedFileSizeCommitLog": 4096,
        "timerMaxDelaySec": 3_456_000,
        "timeSliceLength": 1800,
        "slicePreloadSec": 60,
    }
    rig = SliceRig(config=settings)
    kept, taken_back = rig.timer(30 * DAY_MS), rig.timer(30 * DAY_MS)
    for _ in range(100):
        rig.send()
    rig.flush()
    assert delete_before(rig.store, rig.store.log.max_offset) > 0
    assert rig.store.record(0) is None
    assert rig.timers.recall(taken_back) is RecallOutcome.RECALLED
    assert rig.timers.count() == 1
    rig.restart()
    rig.advance(30 * DAY_MS)
    found = [one.properties["UNIQ_KEY"] for one in rig.messages()]
    assert kept in found
    assert taken_back not in found
    assert rig.messages()[-1].stored_at_ms == START_MS + 30 * DAY_MS


@pytest.mark.case("E6")
@pytest.mark.parametrize("seed", range(5))
def test_both_engines_deliver_the_same_at_the_same_time_within_a_second(seed: int) -> None:
    wheel, sliced = Rig(slots=100_000), SliceRig()
    delivered: list[dict[str, int]] = []
    for rig in (wheel, sliced):
        random = Random(seed)
        for _ in range(150):
            delay_ms = random.choice((random.randrange(1, 5000), random.randrange(1, 300_000)))
            name = random.choice(("TIMER_DELAY_MS", "TIMER_DELIVER_MS", "__STARTDELIVERTIME"))
            value = delay_ms if name == "TIMER_DELAY_MS" else rig.clock.now_ms + delay_ms
            rig.send({name: str(value)})
            if random.random() < 0.2:
                rig.timers.recall(f"K{random.randrange(1, rig.serial + 1)}")
            rig.advance(random.randrange(3000))
            if random.random() < 0.05:
                rig.crash()
        rig.advance(400_000)
        delivered.append({one.properties["UNIQ_KEY"]: one.stored_at_ms for one in rig.messages()})
    exact, whole = delivered
    assert exact.keys() == whole.keys()
    assert all(0 <= whole[key] - exact[key] < 1000 for key in exact)


# --- admission, levels ---------------------------------------------------------------------------


def test_the_slot_of_a_timer_is_a_second_whatever_the_wheel_s_precision_is() -> None:
    rig = SliceRig(config={"timerPrecisionMs": 100})
    result = rig.send({"TIMER_DELAY_MS": "2550"})
    record = rig.store.record(result.commit_log_offset)
    assert record is not None
    assert record.topic == "rmq_sys_slice_timer"
    assert record.properties[Prop.TIMER_OUT_MS] == str(START_MS + 2000)


def test_a_timer_that_no_file_of_a_slice_can_hold_is_refused() -> None:
    rig = SliceRig(config={"mappedFileSizeDCommitLog": 1024})
    result = rig.send({"TIMER_DELAY_MS": "2000", "big": "x" * 900})
    assert result.status is PutStatus.MESSAGE_ILLEGAL
    assert "mappedFileSizeDCommitLog" in (result.remark or "")


def test_flow_control_counts_the_timers_of_a_second_in_memory() -> None:
    rig = SliceRig(config={"timerCongestNumEachSlot": 5})
    results = [rig.send({"TIMER_DELAY_MS": "2000"}).status for _ in range(50)]
    assert results[:6] == [PutStatus.PUT_OK] * 6
    assert 6 <= results.count(PutStatus.PUT_OK) <= 10
    assert results[-1] is PutStatus.WHEEL_TIMER_FLOW_CONTROL


def test_levels_have_their_own_queues_unless_they_are_off() -> None:
    rig = SliceRig()
    rig.send({"DELAY": "2"})
    assert rig.store.max_offset("SCHEDULE_TOPIC_XXXX", 1) == 1
    rig.advance(5000)
    assert rig.bodies() == [b"1"]


# --- holding, failing ----------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["timerStopDequeue", "timerStopEnqueue"])
def test_a_stopped_half_holds_the_timers_and_later_catches_up(option: str) -> None:
    rig = SliceRig()
    rig.config.update(**{option: True})
    rig.timer(1000)
    rig.timer(100_000)
    rig.advance(200_000)
    assert rig.bodies() == []
    assert rig.timers.count() == 2
    rig.config.update(**{option: False})
    rig.advance(1)
    assert rig.bodies() == [b"1", b"2"]


def test_each_service_can_be_paused() -> None:
    rig = SliceRig()
    stages: dict[str, Stage[SliceState]] = rig.timers.stages
    assert list(stages) == [
        "SliceDispatchService",
        "SlicePreloadService",
        "SliceFireService",
        "SliceFlushService",
    ]
    for name in list(stages)[:3]:
        stages[name].pause()
        rig.timer(50_000)
        rig.advance(60_000)
        waiting = rig.timers.count()
        stages[name].resume()
        rig.advance(1)
        assert (waiting, rig.timers.count()) == (1, 0), name


def test_releases_are_held_back_for_a_while_after_the_start() -> None:
    rig = SliceRig(config={"disappearTimeAfterStart": 5000})
    rig.timer(1000)
    rig.advance(4999)
    assert rig.bodies() == []
    rig.advance(1)
    assert rig.bodies() == [b"1"]


# --- clocks that go back -------------------------------------------------------------------------


def test_with_a_clock_that_was_set_back_nothing_is_early_or_lost() -> None:
    rig = SliceRig()
    rig.timer(30_000)
    rig.advance(25_000)
    rig.clock.now_ms -= 10_000
    rig.timer(3000)  # its second is behind the current one
    rig.flush()
    rig.advance(2999)
    assert rig.bodies() == []
    rig.advance(1)
    assert rig.bodies() == [b"2"]
    rig.advance(20_000)
    assert rig.bodies() == [b"2", b"1"]


def test_a_late_timer_that_waits_survives_a_crash_and_can_be_recalled() -> None:
    rig = SliceRig()
    rig.advance(25_000)
    rig.timer(1000)
    rig.advance(1000)
    rig.clock.now_ms -= 10_000
    kept, gone = rig.timer(3000), rig.timer(3000)
    rig.flush()
    rig.crash()
    assert rig.timers.count() == 2
    assert rig.timers.recall(gone) is RecallOutcome.RECALLED
    rig.flush()
    rig.crash()
    assert rig.timers.count() == 1
    rig.advance(3000)
    assert [one.properties["UNIQ_KEY"] for one in rig.messages()] == ["K1", kept]
    rig.flush()
    rig.restart()
    rig.advance(10_000)
    assert len(rig.messages()) == 2
