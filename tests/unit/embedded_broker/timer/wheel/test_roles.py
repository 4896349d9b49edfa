"""A store that may not release follows its master, and takes over without losing or doubling."""

from __future__ import annotations

import pytest

from embedded_broker.timer.wheel.state import TimerRole
from tests.unit.embedded_broker.timer.timer_rig import START_MS, Rig, Short


def test_a_role_lets_enqueue_up_to_the_master_and_never_back() -> None:
    role = TimerRole()
    assert role.may_enqueue(10**9)
    role.step_down(5)
    assert [role.may_enqueue(offset) for offset in (4, 5)] == [True, False]
    role.follow(7)
    role.follow(6)
    assert [role.may_enqueue(offset) for offset in (6, 7)] == [True, False]
    role.take_over()
    assert role.may_enqueue(10**9)


@pytest.mark.case("P28")
def test_a_store_that_may_not_release_fills_its_wheel_only_as_far_as_its_master() -> None:
    rig = Rig()
    rig.timers.set_should_running_dequeue(False)
    assert not rig.timers.should_running_dequeue
    for delay_ms in (1000, 2000, 3000):
        rig.timer(delay_ms)
    stage = rig.timers.stages["TimerEnqueueGetService"]
    rig.advance(500)
    assert (stage.queue_depth, rig.timers._state.log.end) == (3, 0)
    rig.timers.follow_master(2)
    rig.advance(10_000)
    assert (stage.queue_depth, rig.timers._state.log.end) == (1, 2 * 52)
    assert rig.messages() == []
    assert rig.timers.count() == 3
    rig.timers.set_should_running_dequeue(True)
    rig.fire()
    assert rig.bodies() == [b"1", b"2", b"3"]
    assert rig.timers.count() == 0


@pytest.mark.case("P28")
def test_how_far_the_master_was_is_durable() -> None:
    rig = Rig()
    rig.timer(60_000)
    rig.timers.set_should_running_dequeue(False)
    rig.timers.follow_master(2)
    for _ in range(3):
        rig.timer(60_000)
    rig.fire()
    rig.flush()
    checkpoint = rig.timers._checkpointer.checkpoint
    assert checkpoint.last_timer_queue_offset == checkpoint.master_timer_queue_offset == 2
    rig.timers.follow_master(9)
    rig.flush()
    assert checkpoint.last_timer_queue_offset == 2
    assert checkpoint.master_timer_queue_offset == 9
    rig.crash()
    assert rig.timers._state.role.master_queue_offset == 9
    rig.advance(60_000)
    assert rig.bodies() == [b"1", b"2", b"3", b"4"]


@pytest.mark.case("P29")
def test_a_slot_whose_release_a_change_of_role_interrupts_goes_on_where_it_was() -> None:
    rig = Rig(config={"timerPrecisionMs": 1000, "timerReleasePrecisionMs": 1000})
    for _ in range(20):
        rig.timer(5000)
    rig.clock.now_ms += 5000
    while not rig.bodies():
        rig.fire(budget=Short(3))
    done = len(rig.bodies())
    assert done < 20
    rig.timers.set_should_running_dequeue(False)
    assert rig.timers._state.curr_read_ms <= START_MS + 5000
    rig.advance(60_000)
    assert rig.timers.next_deadline() is None
    assert len(rig.bodies()) == done
    rig.timers.set_should_running_dequeue(True)
    rig.fire()
    assert rig.bodies() == [b"%d" % number for number in range(1, 21)]


@pytest.mark.case("P29")
def test_a_crash_in_the_wrong_role_loses_nothing_either() -> None:
    rig = Rig()
    for _ in range(10):
        rig.timer(5000)
    rig.clock.now_ms += 5000
    while not rig.bodies():
        rig.fire(budget=Short(3))
    rig.timers.set_should_running_dequeue(False)
    rig.flush()
    rig.timer(5000)
    rig.crash()
    rig.advance(60_000)
    assert rig.bodies() == [b"%d" % number for number in range(1, 12)]
