"""Which of the timer files recovery may believe: each reason not to, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attrs import evolve

from embedded_broker.timer.wheel.checkpoint import TimerCheckpointFile, TimerMeta, TimerMetaFile
from embedded_broker.timer.wheel.state import TimerState
from embedded_broker.timer.wheel.trust import Trusted, judge, seal_of
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint
from tests.unit.embedded_broker.timer.timer_rig import Rig

DAY_MS = 86_400_000


class Bench:
    """A store whose timers were flushed, and the question what of its files is believed."""

    def __init__(self) -> None:
        self.rig = Rig()
        for number in range(30):  # more than one file of the log
            self.rig.timer(5000 + number * 1000)
        self.rig.advance(2000)
        self.rig.flush()
        checkpoint = TimerCheckpointFile(self.rig.fs, "config/timercheck").load()
        meta = TimerMetaFile(self.rig.fs, "config/timermeta").load()
        assert checkpoint is not None
        assert meta is not None
        self.checkpoint: TimerCheckpoint = checkpoint
        self.meta: TimerMeta = meta

    @property
    def state(self) -> TimerState:
        return self.rig.timers._state

    def sealed(self) -> TimerMeta:
        state = self.state
        end = state.store.log.max_offset, state.log.end, state.metrics.counter
        return evolve(self.meta, seal=seal_of(state), clean_end=end)

    def judge(
        self,
        checkpoint: TimerCheckpoint | None,
        meta: TimerMeta | None,
        *,
        wheel_found: bool = True,
        clean: bool = True,
        full: bool = False,
    ) -> tuple[Trusted, list[str]]:
        told: list[str] = []
        trusted = judge(
            self.state,
            checkpoint,
            meta,
            wheel_found=wheel_found,
            clean=clean,
            full=full,
            now_ms=self.rig.clock.now_ms,
            tell=told.append,
        )
        return trusted, told


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.rig.abandon()


# -- what is as it was left ----------------------------------------------------------------------


def test_after_a_clean_stop_everything_is_believed(bench: Bench) -> None:
    trusted, told = bench.judge(bench.checkpoint, bench.sealed())
    assert (trusted, told) == (Trusted(bench.checkpoint, bench.meta.wheel_covered_pos), [])


@pytest.mark.parametrize(("clean", "full"), [(False, False), (True, True), (False, True)])
def test_after_another_stop_or_on_request_every_record_is_held_against_its_message(
    bench: Bench, *, clean: bool, full: bool
) -> None:
    trusted, told = bench.judge(bench.checkpoint, bench.sealed(), clean=clean, full=full)
    assert (trusted, told) == (Trusted(bench.checkpoint), [])


def test_a_new_store_and_one_of_another_broker_have_no_copy_to_hold_anything_against(
    bench: Bench,
) -> None:
    assert bench.judge(None, None) == (Trusted(None), [])
    trusted, told = bench.judge(bench.checkpoint, None)
    assert (trusted.checkpoint, told) == (bench.checkpoint, [])


# -- timercheck ----------------------------------------------------------------------------------


def changed(one: TimerCheckpoint, **more: int) -> TimerCheckpoint:
    """A later state of a check point: so much more of each field."""
    values = {name: getattr(one, name) + by for name, by in more.items()}
    return evolve(one, **values)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"counter": -1, "last_read_time_ms": 1}, "does not agree with its version"),
        ({"counter": 0, "last_read_time_ms": 1}, "does not agree with its version"),
        ({"counter": 1, "last_read_time_ms": -1}, "names a read time that cannot be, "),
        ({"counter": 1, "last_read_time_ms": 1 << 32}, "names a read time that cannot be, "),
        (
            {"counter": 1, "last_read_time_ms": 2 * DAY_MS, "timestamp": 2 * DAY_MS},
            "names a read time that cannot be, ",
        ),
        ({"counter": 1, "last_timer_queue_offset": 1000}, "queue entries, there are 30"),
        ({"counter": 1, "last_timer_queue_offset": -1000}, "queue entries, there are 30"),
        ({"counter": 1, "last_timer_log_flush_pos": 1 << 40}, "bytes of the log, it ends before"),
        ({"counter": 1, "last_timer_log_flush_pos": -(1 << 40)}, "bytes of the log, it ends befo"),
    ],
)
def test_a_check_point_that_cannot_be_is_a_fault_and_its_copy_the_one_to_begin_with(
    bench: Bench, more: dict[str, int], why: str
) -> None:
    trusted, told = bench.judge(changed(bench.checkpoint, **more), bench.sealed())
    assert trusted.checkpoint == bench.meta.checkpoint
    assert trusted.checkpoint is not bench.meta.checkpoint  # recovery changes it
    assert told == []
    assert trusted.fault is not None
    assert trusted.fault.startswith("config/timercheck ")
    assert why in trusted.fault


@pytest.mark.parametrize(("beyond_ms", "believed"), [(0, True), (1, False)])
def test_slots_are_read_up_to_two_ahead_of_the_time_of_the_check_point(
    bench: Bench, *, beyond_ms: int, believed: bool
) -> None:
    latest_ms = bench.checkpoint.timestamp + 2 * bench.state.precision_ms
    read_ms = latest_ms + beyond_ms
    later = evolve(changed(bench.checkpoint, counter=1), last_read_time_ms=read_ms)
    trusted, _ = bench.judge(later, bench.meta)
    assert (trusted.checkpoint == later) == believed


def test_a_check_point_that_is_gone_is_missed_only_if_there_was_something(bench: Bench) -> None:
    trusted, told = bench.judge(None, bench.sealed())
    assert trusted.checkpoint == bench.meta.checkpoint
    assert trusted.fault == "config/timercheck is missing or empty"
    assert told == []
    new = evolve(bench.meta, checkpoint=TimerCheckpoint())
    assert bench.judge(None, new)[0].fault is None
    # A power loss may have taken the first one.
    assert bench.judge(None, bench.meta, clean=False)[0].fault is None


def test_a_later_one_is_of_another_broker_and_the_sums_say_nothing(bench: Bench) -> None:
    later = changed(bench.checkpoint, counter=1)
    wrong = evolve(bench.sealed(), seal=evolve(seal_of(bench.state), log=1, wheel=1))
    trusted, told = bench.judge(later, wrong)
    assert trusted == Trusted(later)
    assert told == [
        "config/timercheck is not as it was left: another broker had the store, or it is damaged"
    ]


def test_after_a_crash_the_check_point_may_be_later_than_its_copy_or_half_written(
    bench: Bench,
) -> None:
    later = changed(bench.checkpoint, counter=1)
    trusted, told = bench.judge(later, bench.meta, clean=False)
    assert (trusted.checkpoint, told) == (later, [])
    torn = changed(bench.checkpoint, last_read_time_ms=1)
    trusted, told = bench.judge(torn, bench.meta, clean=False)
    assert (trusted.checkpoint, told) == (bench.meta.checkpoint, [])


# -- wheel and log -------------------------------------------------------------------------------


def test_a_wheel_that_is_gone_is_missed_only_if_there_was_something(bench: Bench) -> None:
    trusted, told = bench.judge(bench.checkpoint, bench.sealed(), wheel_found=False)
    assert trusted == Trusted(bench.checkpoint, fault="timerwheel is missing or empty")
    trusted, told = bench.judge(bench.checkpoint, bench.meta, wheel_found=False, clean=False)
    assert trusted == Trusted(bench.checkpoint)
    assert told == ["timerwheel is missing or empty: it is made again from the timer log"]
    new = evolve(bench.meta, checkpoint=TimerCheckpoint())
    for clean in (True, False):
        trusted, told = bench.judge(TimerCheckpoint(), new, wheel_found=False, clean=clean)
        assert (trusted.fault, told) == (None, [])


def test_a_wheel_with_another_sum_is_damaged(bench: Bench) -> None:
    seal = seal_of(bench.state)
    meta = evolve(bench.meta, seal=evolve(seal, wheel=seal.wheel ^ 1))
    trusted, _ = bench.judge(bench.checkpoint, meta)
    assert trusted == Trusted(bench.checkpoint, fault="timerwheel is not as it was left")


def test_a_log_with_another_sum_is_damaged(bench: Bench) -> None:
    seal = seal_of(bench.state)
    meta = evolve(bench.meta, seal=evolve(seal, log=seal.log ^ 1))
    for full in (False, True):
        trusted, _ = bench.judge(bench.checkpoint, meta, full=full)
        assert trusted == Trusted(bench.checkpoint, fault="timerlog is not as it was left")
    assert bench.judge(bench.checkpoint, meta, clean=False)[0].fault is None  # it was not sealed


def test_a_log_that_lacks_its_first_files_or_its_end_is_damaged(bench: Bench) -> None:
    begun_before = evolve(bench.meta, log_begin=bench.state.log.begin - 500)
    trusted, _ = bench.judge(bench.checkpoint, begun_before, clean=False)
    assert trusted.fault == "timerlog lacks its first 500 bytes"

    end = bench.state.log.end
    synced = evolve(bench.checkpoint, last_timer_log_flush_pos=end + 52)
    trusted, _ = bench.judge(synced, evolve(bench.meta, checkpoint=synced), clean=False)
    assert trusted.fault == f"timerlog ends at {end}, though {end + 52} bytes were synced"
