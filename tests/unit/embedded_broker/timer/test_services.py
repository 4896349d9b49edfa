"""Stages: held, released, looked at."""

from __future__ import annotations

import pytest

from embedded_broker.timer.services import Stage, TimerDequeueWarmService, TimerFlushService
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
