"""Timers that are taken back or moved while nothing may enter the wheel, or a slice.

What is in there goes on becoming due. So the marks have to work although they wait in the queue;
only the copies of moved timers wait for the end of the hold, as every timer does.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded_broker.timer.outcomes import MoveOutcome, RecallOutcome
from embedded_broker.timer.recall import delete_message
from rocketmq_py.protocol.handles import RecallHandle
from tests.unit.embedded_broker.timer.slices.slice_rig import SliceRig
from tests.unit.embedded_broker.timer.timer_rig import HOST, START_MS, Rig, Short

STAGES = {
    "option": "",
    "get": "TimerEnqueueGetService",
    "put": "TimerEnqueuePutService",
    "dispatch": "SliceDispatchService",
}


class Held:
    """A rig whose way in can be closed."""

    def __init__(self, make: Callable[..., Rig], how: str) -> None:
        self.rig = make()
        self.stage = STAGES[how]

    def hold(self) -> None:
        if self.stage:
            self.rig.timers.stages[self.stage].pause()
        else:
            self.rig.config.update(timerStopEnqueue=True)

    def resume(self) -> None:
        if self.stage:
            self.rig.timers.stages[self.stage].resume()
        else:
            self.rig.config.update(timerStopEnqueue=False)
        self.rig.fire()


@pytest.fixture(
    params=[
        (Rig, "option"),
        (Rig, "get"),
        (Rig, "put"),
        (SliceRig, "option"),
        (SliceRig, "dispatch"),
    ]
)
def held(request: pytest.FixtureRequest) -> Held:
    return Held(*request.param)


def listed(rig: Rig) -> list[str]:
    return [one.msg_id for one in rig.listed()]


@pytest.mark.case("P26")
def test_a_recall_works_at_once(held: Held) -> None:
    rig = held.rig
    first, second, far = (rig.timer(delay_ms) for delay_ms in (10_000, 10_000, 3_000_000))
    rig.advance(1000)
    held.hold()
    assert rig.timers.recall(first) is RecallOutcome.RECALLED
    assert rig.timers.recall(far) is RecallOutcome.RECALLED
    assert (rig.timers.count(), listed(rig)) == (1, [second])
    rig.advance(20_000)
    assert rig.bodies() == [b"2"]
    assert (rig.timers.count(), listed(rig)) == (0, [])
    held.resume()
    rig.advance(4_000_000)
    assert rig.bodies() == [b"2"]
    assert (rig.timers.count(), listed(rig)) == (0, [])


@pytest.mark.case("P26")
def test_a_recall_by_handle_works_at_once(held: Held) -> None:
    rig = held.rig
    key = rig.timer(10_000)
    held.hold()
    properties = rig.messages(rig.timers.topic)[0].properties
    handle = RecallHandle("T", "broker-a", int(properties["TIMER_OUT_MS"]) + 1, key)
    now_ms = rig.clock.now_ms
    mark = delete_message(handle, producer_group="g", now_ms=now_ms, born_host=HOST)
    assert rig.store.put(mark).ok
    rig.advance(20_000)
    held.resume()
    assert (rig.bodies(), rig.timers.count()) == ([], 0)


@pytest.mark.case("P26")
@pytest.mark.parametrize("to_ms", [5000, 15_000, 60_000])
def test_a_moved_timer_leaves_once_when_the_hold_is_over(held: Held, to_ms: int) -> None:
    rig = held.rig
    key = rig.timer(10_000)
    rig.advance(1000)
    held.hold()
    assert rig.timers.reschedule(key, START_MS + to_ms) is MoveOutcome.MOVED
    rig.advance(20_000)
    assert rig.bodies() == []
    assert (rig.timers.count(), listed(rig)) == (1, [key])
    held.resume()
    rig.advance(60_000)
    assert rig.bodies() == [b"1"]
    assert rig.timers.count() == 0
    assert rig.messages()[0].stored_at_ms == START_MS + max(to_ms, 21_000)


@pytest.mark.case("P26")
def test_a_timer_fired_now_leaves_once_when_the_hold_is_over(held: Held) -> None:
    rig = held.rig
    key = rig.timer(10_000)
    rig.advance(1000)
    held.hold()
    assert rig.timers.fire_now(key) is MoveOutcome.MOVED
    rig.advance(20_000)
    assert (rig.bodies(), rig.timers.count()) == ([], 1)
    held.resume()
    assert (rig.bodies(), rig.timers.count()) == ([b"1"], 0)


@pytest.mark.case("P26")
def test_what_was_sent_moved_and_recalled_while_held_stays_recalled(held: Held) -> None:
    rig = held.rig
    held.hold()
    keys = [rig.timer(delay_ms) for delay_ms in (5000, 5000, 70_000)]
    rig.timers.reschedule(keys[0], START_MS + 6000)
    rig.timers.recall(keys[0])
    rig.timers.recall(keys[2])
    assert (rig.timers.count(), listed(rig)) == (1, [keys[1]])
    rig.advance(20_000)
    held.resume()
    rig.advance(100_000)
    assert (rig.bodies(), rig.timers.count()) == ([b"2"], 0)


@pytest.mark.case("P26")
@pytest.mark.parametrize("fired_before", [False, True])
def test_marks_that_came_before_the_hold_began_work_too(held: Held, fired_before: bool) -> None:
    """They wait in the queue because something was behind when they came."""
    rig = held.rig
    for _ in range(40):
        rig.timer(8000)
    key = rig.timer(30_000)
    rig.clock.now_ms += 9000  # what is due now is in the way of what comes
    rig.timers.recall(key)
    if fired_before:
        rig.fire(budget=Short(3))
    held.hold()
    rig.timer(10_000)
    for _ in range(200):
        rig.fire(budget=Short(3))
    rig.advance(40_000)
    assert len(rig.bodies()) == 40
    held.resume()
    assert len(rig.bodies()) == 41
    assert b"41" not in rig.bodies()
    assert rig.timers.count() == 0


@pytest.mark.case("P26")
@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("due", [False, True])
@pytest.mark.parametrize("make", [Rig, SliceRig])
def test_a_new_life_that_begins_with_the_hold_knows_the_marks(
    make: type[Rig], flushed: bool, due: bool
) -> None:
    held = Held(make, "option")
    rig = held.rig
    first, _, third = (rig.timer(delay_ms) for delay_ms in (10_000, 10_000, 20_000))
    held.hold()
    rig.timers.recall(first)
    rig.timers.reschedule(third, START_MS + 25_000)
    if due:
        rig.advance(12_000)
    if flushed:
        rig.flush()
    rig.settings["timerStopEnqueue"] = True
    rig.crash()
    assert rig.timers.count() == 2 - due
    rig.advance(30_000)
    assert rig.bodies() == [b"2"]
    held.resume()
    assert (rig.bodies(), rig.timers.count()) == ([b"2", b"3"], 0)


def test_a_mark_for_later_does_not_stay_in_memory_when_the_hold_is_over(held: Held) -> None:
    rig = held.rig
    keys = [rig.timer(100_000) for _ in range(3)]
    held.hold()
    rig.timers.recall(keys[0])
    rig.timers.recall(keys[1])
    rig.advance(1000)
    held.resume()
    state = rig.timers._state
    if isinstance(rig, SliceRig):
        assert not rig.timers._state.kept_out
    else:
        assert state.due_heap.is_plain
        assert state.due_heap.first_late_queue_offset() is None
    rig.advance(100_000)
    assert (rig.bodies(), rig.timers.count()) == ([b"3"], 0)


def test_a_hop_that_is_kept_out_until_its_mark_has_passed_stays_recalled() -> None:
    held = Held(lambda: Rig(config={"timerRollWindowSlot": 10}), "option")
    rig = held.rig
    key, other = rig.timer(21_500), rig.timer(21_500)  # in two hops
    rig.advance(12_500)
    rig.timers.recall(key)  # before the second one ends: the mark needs none
    held.hold()
    rig.advance(30_000)
    assert (rig.timers.count(), listed(rig)) == (1, [other])
    held.resume()
    assert (rig.bodies(), rig.timers.count()) == ([b"2"], 0)


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("ends", ["none", "before", "after", "both"])
def test_such_a_hop_that_is_put_late_stays_recalled_over_stops(ends: str, flushed: bool) -> None:
    """The clock is set back, so it is not due yet when it enters a later slot than its own."""
    held = Held(lambda: Rig(config={"timerRollWindowSlot": 10}), "option")
    rig = held.rig
    key, other = rig.timer(21_500), rig.timer(21_500)
    rig.advance(12_500)
    rig.timers.recall(key)
    held.hold()
    rig.advance(30_000)
    rig.clock.now_ms -= 25_000
    if ends in {"before", "both"}:
        rig.settings["timerStopEnqueue"] = True
        rig.restart()
        assert (rig.timers.count(), listed(rig)) == (1, [other])
    held.resume()
    assert (rig.timers.count(), listed(rig)) == (1, [other])
    if ends in {"after", "both"}:
        if flushed:
            rig.flush()
        rig.crash()
        assert (rig.timers.count(), listed(rig)) == (1, [other])
    rig.advance(60_000)
    assert (rig.bodies(), rig.timers.count()) == ([b"2"], 0)
