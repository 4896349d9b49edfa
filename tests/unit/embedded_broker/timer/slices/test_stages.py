"""Services as they are held and looked at."""

from __future__ import annotations

from embedded_broker.timer.stage import Stage
from tests.unit.embedded_broker.timer.slices.slice_rig import START_MS, SliceRig


def test_a_stage_can_be_held_and_says_nothing_by_itself() -> None:
    stage = Stage(SliceRig().timers._state)
    held = []
    for change in (stage.pause, stage.resume):
        change()
        held.append(stage.paused)
    assert held == [True, False]
    assert (stage.queue_depth, stage.lag_ms(5), stage.counters) == (0, 0, {})


def test_services_say_what_waits_for_them_and_for_how_long() -> None:
    rig = SliceRig()
    fire = rig.timers.stages["SliceFireService"]
    rig.timer(1000)
    rig.timer(1000)
    assert fire.queue_depth == 2
    rig.clock.now_ms += 3500
    assert fire.lag_ms(rig.clock.now_ms) == 2500
    rig.fire()
    assert (fire.queue_depth, fire.lag_ms(rig.clock.now_ms)) == (0, 0)
    assert fire.counters == {"released": 2, "recalled": 0, "dropped": 0}
    assert rig.clock.now_ms == START_MS + 3500
