"""What the services share, and services as they are held."""

from __future__ import annotations

from embedded_broker.timer.recall import Mark
from embedded_broker.timer.slices.record import Glance
from embedded_broker.timer.slices.state import Late, LateComers
from tests.unit.embedded_broker.timer.slices.slice_rig import Short, SliceRig


def test_late_comers_leave_by_their_second_and_then_as_they_came() -> None:
    late = LateComers()
    for entry in (Late(9, 30, 3), Late(7, 20, 2), Late(9, 10, 1)):
        late.add(entry)
    properties = {
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
        "TIMER_OUT_MS": "8999",
        "TIMER_DEL_UNIQKEY": "T+K",
    }
    late.add_mark(Glance(40, 100, 9, "T", True, properties), 4)
    assert [one.source for one in late] == [20, 10, 30]
    assert (late.next_second, late.first_source(), late.sources()) == (7, 10, {10, 20, 30})
    assert late.queue_offsets() == {1, 2, 3, 4}
    assert late.marks(9) == {"T+K": [Mark(40, None)]}
    late.pop()
    late.keep(lambda one: one.queue_offset == 3)
    assert [one.source for one in late] == [30]
    late.forget_marks()
    assert not late.marks(9)
    assert late.queue_offsets() == {3}


def test_recovery_has_to_look_behind_the_begin_of_the_current_second() -> None:
    rig = SliceRig()
    state = rig.timers._state
    rig.timer(1000)
    rig.timer(1000)
    rig.advance(500)
    before = rig.store.log.max_offset
    rig.clock.now_ms += 500
    rig.timers.fire(rig.clock.now_ms, horizon_ms=0, budget=Short(1))
    assert len(rig.messages()) == 1
    assert state.scan_pos() <= before
    rig.fire()
    assert state.scan_pos() == rig.store.log.max_offset


def test_what_was_released_is_remembered_until_its_seconds_are_over() -> None:
    rig = SliceRig()
    for _ in range(3):
        rig.timer(1000)
    rig.flush()
    rig.clock.now_ms += 1000
    rig.timers.fire(rig.clock.now_ms, horizon_ms=0, budget=Short(2))
    rig.crash()
    state = rig.timers._state
    released = set(state.done)
    assert released
    assert state.scan_pos() == state.old_scan_pos
    rig.advance(1000)
    assert not state.done
    assert state.scan_pos() == rig.store.log.max_offset
    assert rig.bodies() == [b"1", b"2", b"3"]
