"""What the timer store once lost when its wheel file was missing and the process died again."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from tests.sim.disk import Disk, SimulatedCrash
from tests.unit.embedded_broker.timer.timer_rig import Rig

TIMERS = 200
SPREAD_MS = 1000


@pytest.mark.parametrize("change", range(1, 30))
def test_a_wheel_that_is_rebuilt_and_dies_while_it_is_written_loses_nothing(change: int) -> None:
    disk = Disk(Random(change), persistent=False)
    rig = Rig(disk)
    for number in range(TIMERS):
        rig.timer(SPREAD_MS * (number + 1))
    rig.flush()
    rig.abandon()
    disk.reboot(power_lost=False)
    disk.remove("timerwheel")
    rig.open()
    disk.arm(change)
    with suppress(SimulatedCrash):
        rig.flush()
    rig.abandon()
    disk.reboot(power_lost=False)
    rig.open()
    rig.advance(SPREAD_MS * (TIMERS + 2))
    assert sorted(rig.bodies(), key=int) == [b"%d" % (n + 1) for n in range(TIMERS)]
