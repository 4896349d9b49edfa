"""What timers once got wrong when a machine's clock was corrected while they were behind."""

from __future__ import annotations

from tests.unit.embedded_broker.timer.timer_rig import Rig


def test_a_recall_after_the_clock_was_set_back_beats_a_release_that_is_behind() -> None:
    rig = Rig(config={"timerPrecisionMs": 100})
    begin_ms = rig.clock.now_ms
    key = rig.timer(1000)
    rig.clock.now_ms = begin_ms + 5000  # nothing is fired: the broker is behind
    rig.timer(60_000)
    rig.clock.now_ms = begin_ms
    assert rig.timers.recall(key).value == "recalled"
    rig.clock.now_ms = begin_ms + 6000
    rig.fire()
    assert rig.bodies() == []


def test_that_recall_also_counts_after_a_crash() -> None:
    rig = Rig(config={"timerPrecisionMs": 100})
    begin_ms = rig.clock.now_ms
    key = rig.timer(1000)
    rig.clock.now_ms = begin_ms + 5000
    rig.timer(60_000)
    rig.clock.now_ms = begin_ms
    assert rig.timers.recall(key).value == "recalled"
    rig.crash()
    rig.clock.now_ms = begin_ms + 6000
    rig.fire()
    assert rig.bodies() == []


def test_a_timer_moved_to_the_read_pointer_is_on_time_after_a_crash() -> None:
    rig = Rig()
    begin_ms = rig.clock.now_ms
    rig.flush()
    rig.timer(50_000)
    rig.advance(3000)  # read pointer at +3 s; the check point is written with that below
    rig.clock.now_ms = begin_ms - 50_000
    rig.timer(25_000)  # due at -25 s, its slot is the one at the read pointer
    rig.crash()
    rig.advance(25_000)
    assert rig.bodies() == [b"2"]
