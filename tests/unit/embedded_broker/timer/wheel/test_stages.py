"""Stages: held, released, looked at."""

from __future__ import annotations

import pytest

from embedded_broker.timer.stage import Stage
from embedded_broker.timer.wheel.dequeue import TimerDequeueWarmService
from embedded_broker.timer.wheel.flush import TimerFlushService
from tests.unit.embedded_broker.timer.timer_rig import Rig


def test_a_stage_lags_and_holds_nothing_by_itself() -> None:
    state = Rig().timers._state
    for kind in (Stage, TimerDequeueWarmService, TimerFlushService):
        stage = kind(state)
        assert (stage.paused, stage.queue_depth, stage.lag_ms(5)) == (False, 0, 0)
        stage.pause()
        assert stage.paused
        stage.resume()
        assert not stage.paused


@pytest.mark.parametrize(
    "name",
    [
        "TimerDequeueGetService",
        "TimerDequeueGetMessageService",
        "TimerDequeuePutMessageService",
    ],
)
def test_any_paused_stage_of_the_way_out_holds_the_releases(name: str) -> None:
    rig = Rig()
    rig.timer(1000)
    rig.timers.stages[name].pause()
    rig.advance(5000)
    assert rig.bodies() == []
    rig.timers.stages[name].resume()
    rig.fire()
    assert rig.bodies() == [b"1"]


@pytest.mark.parametrize("name", ["TimerEnqueueGetService", "TimerEnqueuePutService"])
def test_any_paused_stage_of_the_way_in_holds_the_queue(name: str) -> None:
    rig = Rig()
    rig.timers.stages[name].pause()
    rig.timer(1000)
    rig.advance(5000)
    assert rig.timers.stages["TimerEnqueueGetService"].queue_depth == 1
    rig.timers.stages[name].resume()
    rig.fire()
    assert rig.bodies() == [b"1"]


def test_every_service_counts_what_it_has_done() -> None:
    rig = Rig(config={"timerRollWindowSlot": 10})
    for delay_ms in (1500, 20_000, 5000):
        rig.timer(delay_ms)
    rig.timers.recall("K3")
    rig.advance(2000)
    rig.timers.stages["TimerEnqueueGetService"].pause()
    rig.timer(1500)
    rig.advance(28_000)
    rig.timers.stages["TimerEnqueueGetService"].resume()
    rig.fire()
    rig.flush()
    counters = {name: stage.counters for name, stage in rig.timers.stages.items()}
    assert counters["TimerEnqueueGetService"] == {"read": 2, "skipped": 0}
    assert counters["TimerEnqueuePutService"] == {"enqueued": 4, "late": 2}
    assert counters["TimerDequeueGetService"]["slots"] > 0
    assert counters["TimerDequeueGetMessageService"] == {"messages": 3}
    assert counters["TimerDequeuePutMessageService"] == {
        "released": 3,
        "rolled": 1,
        "recalled": 1,
        "dropped": 0,
    }
    assert counters["TimerDequeueWarmService"] == {}
    assert counters["TimerFlushService"] == {"begun": 1}
