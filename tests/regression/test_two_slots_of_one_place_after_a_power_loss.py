"""A slot that a later one had replaced in the wheel is found again when its releases were lost."""

from __future__ import annotations

from tests.unit.embedded_broker.timer.timer_rig import Rig

COMMIT_LOG = "commitlog/00000000000000000000"


def test_a_timer_whose_release_a_power_loss_took_is_not_lost_to_the_slot_that_came_after() -> None:
    rig = Rig(slots=100)  # a place of the wheel comes around every 200 seconds
    rig.timer(10_000)
    rig.flush()
    rig.clock.now_ms += 180_000
    rig.timer(30_000)  # the same place, one turn later; it is enqueued when the first has left
    rig.fire()
    (released,) = rig.messages()
    rig.abandon()
    log = rig.fs.open_segment(COMMIT_LOG, 1 << 20)
    log.write(released.record.commit_log_offset, bytes(released.record.size))
    rig.open()
    assert rig.timers.count() == 2
    rig.fire()
    assert rig.bodies() == [b"1"]
    rig.advance(30_000)
    assert rig.bodies() == [b"1", b"2"]
    rig.crash()
    rig.advance(600_000)
    assert rig.bodies() == [b"1", b"2"]
