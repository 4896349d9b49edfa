"""A timer that was moved or recalled stays so, in odd moments and in the listing too."""

from __future__ import annotations

import pytest
from attrs import evolve

from embedded_broker.timer.listing import Wanted
from embedded_broker.timer.recall import Mark
from embedded_broker.timer.wheel.due_heap import DueHeap
from tests.unit.embedded_broker.timer.timer_rig import START_MS, Endless, Rig


def listed(rig: Rig) -> list[str]:
    walk = rig.timers.pending(Wanted())
    while not walk.done:
        walk.step(Endless())
    return [one.msg_id for one in walk.found]


def test_a_late_mark_outlives_another_mark_of_the_same_slot() -> None:
    front = DueHeap()
    front.add_mark(2000, "T+K1", Mark(1, None), end_slot_ms=2000)
    front.add_late_mark(2000, "T+K2", Mark(2, None), 5)
    front.leave_before(3000)
    marks = front.marks(2000)
    assert marks is not None
    assert marks["T+K2"] == [Mark(2, None)]
    front.forget_late_marks(2000)
    assert front.marks(2000) is None


def test_a_recall_while_releases_are_held_is_not_forgotten() -> None:
    rig = Rig()
    rig.advance(2500)
    rig.timer(60_000)
    rig.config.update(timerStopDequeue=True)
    key = rig.timer(800)
    rig.timers.fire_now(key)
    rig.timers.recall(key)
    rig.fire()
    rig.config.update(timerStopDequeue=False)
    rig.fire()
    assert rig.bodies() == []
    assert rig.timers.count() == 1


def test_a_timer_fired_while_releases_are_held_stays_out_of_the_slot_of_an_old_recall() -> None:
    rig = Rig()
    key = rig.timer(3500)
    rig.timers.reschedule(key, START_MS + 30_000)
    mark = {"TIMER_DEL_UNIQKEY": f"T+{key}", "TIMER_DELIVER_MS": str(START_MS + 3001)}
    assert rig.send(mark).ok
    rig.config.update(timerStopDequeue=True)
    rig.clock.now_ms = START_MS + 4500
    rig.timers.fire_now(key)
    rig.config.update(timerStopDequeue=False)
    rig.fire()
    assert rig.bodies() == [b"1"]
    assert rig.timers.count() == 0


@pytest.mark.parametrize("window", [2, 3, 4, 5])
@pytest.mark.parametrize("seconds", range(6, 18))
def test_a_moved_timer_with_a_short_roll_window_is_on_time(window: int, seconds: int) -> None:
    rig = Rig(config={"timerRollWindowSlot": window})
    key = rig.timer(seconds * 1000 + 253)
    rig.advance(1500)
    due_ms = START_MS + seconds * 1000 + 252  # the same slot: the copy goes to the next one
    rig.timers.reschedule(key, due_ms)
    rig.advance(30_000)
    assert [one.stored_at_ms for one in rig.messages()] == [due_ms]


@pytest.mark.parametrize("window", [2, 3, 4, 5])
@pytest.mark.parametrize("recall_ms", range(1600, 9600, 800))
@pytest.mark.parametrize("late", [False, True])
def test_a_moved_timer_with_a_short_roll_window_can_be_recalled(
    window: int, recall_ms: int, late: bool
) -> None:
    rig = Rig(config={"timerRollWindowSlot": window})
    key = rig.timer(10_253)
    rig.advance(1500)
    rig.timers.reschedule(key, START_MS + 10_252)
    rig.advance(recall_ms - 1500)
    rig.timers.recall(key)
    if late:
        rig.jump(START_MS + 10_260 - rig.clock.now_ms)
    rig.advance(30_000)
    assert rig.bodies() == []


def test_the_rest_of_a_move_that_a_crash_cut_off_is_counted() -> None:
    rig = Rig()
    key = rig.timer(60_000)
    rig.timers.reschedule(key, START_MS + 30_000)
    store = rig.store
    queue = store.consume_queue("rmq_sys_wheel_timer", 0)
    assert queue is not None
    mark = queue.entry(2)
    assert mark is not None
    rig.abandon()
    log = rig.fs.open_segment("commitlog/00000000000000000000", 1 << 20)
    log.write(mark[0], bytes(mark[1]))
    rig.open()
    assert rig.timers.count() == 2
    rig.clock.now_ms += 120_000
    rig.fire()
    assert len(rig.bodies()) == 1
    assert rig.timers.count() == 0


def test_a_listing_leaves_out_what_a_passed_slot_still_names() -> None:
    rig = Rig()
    rig.timer(1500)
    rig.timer(60_000)
    rig.advance(5000)
    assert rig.bodies() == [b"1"]
    rig.clock.now_ms = START_MS + 1100
    rig.timers.stages["TimerEnqueueGetService"].pause()
    rig.timer(600)
    assert listed(rig) == ["K3", "K2"]


def test_a_mark_of_the_old_slot_is_not_about_the_copy_in_the_next_one() -> None:
    rig = Rig()
    rig.timer(5500)
    rig.timers.reschedule("K1", START_MS + 5499)
    mark = {"TIMER_DEL_UNIQKEY": "T+K1", "TIMER_DELIVER_MS": str(START_MS + 5001)}
    assert rig.send(mark).ok
    assert (rig.timers.count(), listed(rig)) == (1, ["K1"])
    rig.advance(10_000)
    assert rig.bodies() == [b"1"]


def test_a_timer_that_a_jump_carries_is_not_listed_when_its_mark_waits_in_its_slot() -> None:
    rig = Rig(config={"timerRollWindowSlot": 10})
    key = rig.timer(13_000)
    rig.advance(4000)
    rig.timers.recall(key)
    rig.clock.now_ms = START_MS + 6000
    rig.fire(horizon_ms=START_MS + 20_000)
    assert any(kind for *_, kind, _ in rig.timers._state.due_heap.heap)  # it is carried
    assert listed(rig) == []
    assert rig.timers.count() == 0


def test_slots_beyond_a_turn_of_the_wheel_are_listed_once_they_are_near() -> None:
    rig = Rig(slots=100)
    rig.timer(1000)
    rig.flush()
    rig.advance(250_000)
    rig.timer(20_000)
    rig.timer(5000)
    rig.crash()
    rig.fire()
    rig.timer(60_000)
    assert listed(rig) == ["K3", "K2", "K4"]


@pytest.mark.parametrize("flushed_before", [False, True])
def test_what_a_late_mark_removed_stays_away_if_timermeta_is_not_written_any_more(
    flushed_before: bool,
) -> None:
    rig = Rig()
    rig.timer(60_000)
    rig.advance(20_500)
    rig.timer(60_000)
    if flushed_before:
        rig.flush()
    rig.clock.now_ms = START_MS + 5000
    key = rig.timer(1000)  # behind the reader: it lies in the slot that is being read
    rig.config.update(timerStopDequeue=True)
    rig.clock.now_ms = START_MS + 7500
    rig.timers.recall(key)
    rig.config.update(timerStopDequeue=False)
    rig.fire()
    work = rig.timers.begin_flush()
    rig.store.begin_flush().run()
    evolve(work, steps=work.steps[:-1]).run()
    rig.crash()
    rig.fire()
    assert rig.bodies() == []
    assert rig.timers.count() == 2


def test_a_late_mark_outlives_a_clock_that_is_set_back_before_its_victim() -> None:
    rig = Rig()
    rig.timer(60_000)
    rig.advance(20_500)
    rig.timer(60_000)
    rig.clock.now_ms = START_MS + 5000
    key = rig.timer(1000)  # behind the reader: it lies in the slot that is being read
    rig.clock.now_ms = START_MS + 7500
    rig.timers.recall(key)
    rig.clock.now_ms = START_MS + 4000
    rig.fire()
    rig.clock.now_ms = START_MS + 8000
    rig.fire()
    assert rig.bodies() == []
    assert rig.timers.count() == 2


def test_fire_now_survives_a_crash_after_a_recall_of_the_slot_that_has_just_passed() -> None:
    rig = Rig()
    rig.timer(60_000)
    key = rig.timer(2700)
    rig.timers.reschedule(key, START_MS + 8000)
    rig.timers.set_should_running_dequeue(False)
    by_handle = {"TIMER_DEL_UNIQKEY": f"T+{key}", "TIMER_DELIVER_MS": str(START_MS + 2700)}
    assert rig.send(by_handle).ok  # the timer lies there no more: it removes nothing
    rig.jump(3100)
    rig.timers.fire_now(key)
    rig.crash()  # the mark is read from the queue again, and works before its turn
    rig.fire()
    assert rig.bodies() == [b"2"]
    assert (rig.timers.count(), listed(rig)) == (1, ["K1"])


def test_fire_now_stays_out_of_the_slot_of_the_copy_that_it_replaces() -> None:
    rig = Rig()
    key = rig.timer(2700)
    rig.timers.set_should_running_dequeue(False)
    rig.jump(3100)
    rig.timers.fire_now(key)
    queue = rig.store.consume_queue("rmq_sys_wheel_timer", 0)
    assert queue is not None
    offsets = [offset for _, (offset, _, _) in queue.iterate(1)]
    moved, mark = (rig.store.record(offset) for offset in offsets)
    assert moved is not None
    assert mark is not None
    assert moved.properties["TIMER_OUT_MS"] != mark.properties["TIMER_OUT_MS"]
    # Its time is the end of its slot: it stays true when the clock is set back before the release.
    due_ms = int(moved.properties["TIMER_OUT_MS"]) + 1000
    assert moved.properties["TIMER_DUE_MS"] == str(due_ms)
    rig.timers.set_should_running_dequeue(True)
    rig.fire()
    assert (rig.bodies(), rig.timers.count()) == ([b"1"], 0)
