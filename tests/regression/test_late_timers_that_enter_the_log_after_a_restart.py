"""A late timer that enters the log in the next life lies there behind what came after it.

Recovery then still finds which messages are in the log: none enters the wheel a second time.
"""

from __future__ import annotations

import pytest

from tests.unit.embedded_broker.timer.timer_rig import START_MS, Rig


@pytest.mark.parametrize("later_ms", [500, 40_000])
def test_no_timer_enters_the_wheel_twice_when_a_late_one_is_logged_behind_it(
    later_ms: int,
) -> None:
    rig = Rig()
    rig.timer(60_000)
    rig.advance(20_500)
    rig.config.update(timerStopDequeue=True)
    rig.settings["timerStopDequeue"] = True
    rig.clock.now_ms = START_MS + 5000
    rig.config.update(timerStopEnqueue=True)
    rig.timer(4000)  # late in this life only
    rig.timer(1000)  # late in the next one, too
    rig.clock.now_ms = START_MS + 9500
    rig.timer(later_ms)
    rig.config.update(timerStopEnqueue=False)
    rig.fire()
    rig.flush()

    rig.abandon()
    rig.clock.now_ms = START_MS + 7000
    rig.open()
    rig.fire()
    rig.timer(50_000)
    rig.flush()

    rig.crash()
    assert rig.timers.count() == 5
    rig.config.update(timerStopDequeue=False)
    rig.fire()
    rig.advance(120_000)
    assert sorted(rig.bodies()) == [b"1", b"2", b"3", b"4", b"5"]
    assert rig.timers.count() == 0
