"""Workers that are turns of a loop: how many are begun, where, and what a closed loop changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rocketmq_py import MessageExt, MessageQueue
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.dispatch.on_loop import CROWDED_WAIT_MS, TURN_MAX, LoopWorkers
from rocketmq_py.consumer.dispatch.pool import PoolCall
from rocketmq_py.protocol.sysflag import COMPRESSED
from tests.unit.rocketmq_py.consumer.fake_engine import FakeHandle, message
from tests.waiting import until, within

Task = Callable[[], object]


class Bench:
    """Workers whose loop and background threads take their turns when a test says so."""

    def __init__(self, room: int) -> None:
        self.turns: list[Task] = []
        self.background: list[tuple[Any, ...]] = []
        self.later: list[tuple[float, Task]] = []
        self.log: list[str] = []
        self.look: Task = list
        self.is_closed = self.is_crowded = False
        self.wakes = 0
        engine: Any = self
        self.workers = LoopWorkers(
            engine,
            self.on_loop,
            room,
            is_over=lambda: self.is_closed,
            abandoned=lambda: self.log.append("abandoned"),
        )

    def on_loop(self, task: Task) -> bool:
        if self.is_closed:
            return False
        self.wakes += 1
        self.turns.append(task)
        return True

    def submit_background(self, *task: Any) -> bool:
        if self.is_crowded:
            return False
        self.background.append(task)
        return True

    def schedule_after(self, delay_ms: float, task: Task) -> None:
        self.later.append((delay_ms, task))

    def schedule_every(self, *given: Any) -> FakeHandle:
        *_, self.look = given
        return FakeHandle(0, self.look)

    def turn(self) -> None:
        turns, self.turns = self.turns, []
        for task in turns:
            task()

    def call(self, name: str, sys_flag: int = 0) -> PoolCall:
        one = message(0)
        one.sys_flag |= sys_flag
        lane = Lane(MessageQueue("T", "b", 0), 0, fetched_at=0.0)

        def run(_lane: Lane, _messages: Sequence[MessageExt]) -> None:
            self.log.append(name)
            self.workers.hold()

        return PoolCall(run, lane, [one])


def test_what_arrives_together_is_begun_by_one_wake_up_as_far_as_there_is_room() -> None:
    bench = Bench(room=2)
    bench.workers.submit_all([bench.call("a"), bench.call("b")])
    bench.workers.submit_all([bench.call("c")])
    assert bench.wakes == 1
    bench.turn()
    assert bench.log == ["a", "b"]
    assert bench.workers.unfinished == 3
    bench.workers.give_back()
    bench.turn()
    assert bench.log == ["a", "b", "c"]
    bench.workers.give_back()
    bench.workers.give_back()
    assert (bench.workers.unfinished, bench.turns) == (0, [])


def test_a_call_that_must_decompress_and_one_of_another_kind_run_in_background() -> None:
    bench = Bench(room=9)
    bench.workers.submit_all([bench.call("a", COMPRESSED), bench.call("b")])
    bench.workers.submit(bench.log.append, "c")
    bench.turn()
    assert bench.log == ["b"]
    for run, *task in bench.background:
        run(*task)
    assert bench.log == ["b", "a", "c"]


def test_when_no_thread_is_free_a_call_keeps_its_place_and_is_tried_again() -> None:
    bench = Bench(room=9)
    bench.is_crowded = True
    bench.workers.submit(bench.log.append, "first")
    bench.workers.submit_all([bench.call("second")])
    bench.turn()
    assert (bench.log, bench.workers.unfinished) == ([], 2)
    ((wait_ms, again),) = bench.later
    assert wait_ms == CROWDED_WAIT_MS
    bench.is_crowded = False
    again()
    bench.turn()
    ((run, *task),) = bench.background
    run(*task)
    assert bench.log == ["second", "first"]


def test_other_callbacks_have_their_turn_among_many_calls() -> None:
    bench = Bench(room=10 * TURN_MAX)
    bench.workers.submit_all([bench.call(str(number)) for number in range(TURN_MAX + 1)])
    bench.turn()
    assert len(bench.log) == TURN_MAX
    bench.turn()
    assert len(bench.log) == TURN_MAX + 1


def test_room_is_made_one_by_one_and_a_call_that_fails_takes_none_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(room=0)

    def failing(*_: object) -> None:
        raise LookupError("theirs")

    lane = Lane(MessageQueue("T", "b", 0), 0, fetched_at=0.0)
    bench.workers.submit_all([PoolCall(failing, lane, []), bench.call("next"), bench.call("last")])
    assert (bench.log, bench.turns) == ([], [])
    bench.workers.widen(1)
    assert bench.log == ["next"]
    assert "theirs" in caplog.text
    bench.workers.resize(2)
    bench.turn()
    assert bench.log == ["next", "last"]


def test_calls_are_passed_on_even_without_room() -> None:
    bench = Bench(room=0)
    bench.workers.pass_on(lambda: bench.log.append("one"))
    bench.workers.pass_on(lambda: bench.log.append("two"))
    assert (bench.wakes, bench.workers.unfinished) == (1, 2)
    bench.turn()
    assert bench.log == ["one", "two"]


def test_a_closed_loop_is_told_once_and_nothing_counts_any_more() -> None:
    bench = Bench(room=1)
    bench.workers.hold()
    bench.is_closed = True
    bench.workers.pass_on(lambda: bench.log.append("never"))
    bench.workers.pass_on(lambda: bench.log.append("never"))
    assert bench.log == ["abandoned"]
    assert bench.workers.unfinished == 0
    assert not bench.workers.submit_all([bench.call("late")])
    within(5, lambda: bench.workers.close(60.0))


@pytest.mark.parametrize("notices", ["look", "message"])
def test_a_loop_that_has_closed_with_a_wake_up_on_its_way_is_noticed(notices: str) -> None:
    bench = Bench(room=1)
    bench.workers.submit_all([bench.call("a")])
    bench.is_closed = True
    assert bench.log == []
    if notices == "look":
        bench.look()
    else:
        bench.workers.submit_all([bench.call("b")])
    assert bench.log == ["abandoned"]
    assert bench.workers.unfinished == 0


def test_the_end_drops_what_waits_and_waits_for_what_the_program_has() -> None:
    bench = Bench(room=1)
    bench.workers.submit_all([bench.call("held"), bench.call("never")])
    bench.turn()
    assert not bench.workers.close(0.0, drop=True)
    bench.workers.give_back()
    assert bench.workers.close(60.0, drop=True)
    bench.turn()
    assert bench.log == ["held"]
    assert not bench.workers.submit(bench.log.append, "late")


def test_a_close_does_not_wait_for_a_call_that_got_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(room=1)
    ended: list[bool] = []
    closing = threading.Thread(target=lambda: ended.append(bench.workers.close(60.0)), daemon=True)

    def refuse(*_: object) -> bool:
        closing.start()
        until(lambda: not bench.workers.submit(list))  # it waits from now on
        return False

    monkeypatch.setattr(bench, "submit_background", refuse)
    bench.workers.submit(list)
    within(10, bench.turn)
    closing.join(10)
    assert ended == [True]


def test_what_is_passed_on_while_a_call_gets_no_thread_does_not_wait_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(room=1)

    def refuse(*_: object) -> bool:
        if not bench.log:
            bench.workers.pass_on(lambda: bench.log.append("passed on"))
        return False

    monkeypatch.setattr(bench, "submit_background", refuse)
    bench.workers.submit(bench.log.append, "call")
    bench.turn()
    bench.turn()
    assert bench.log == ["passed on"]
    assert [wait_ms for wait_ms, _ in bench.later] == [CROWDED_WAIT_MS]


def test_a_failure_on_the_loop_keeps_nothing_from_its_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(room=1)

    def fail() -> None:
        raise LookupError("theirs")

    bench.workers.pass_on(fail)
    bench.workers.pass_on(lambda: bench.log.append("next"))
    bench.turn()
    assert bench.log == ["next"]
    assert "a listener call failed" in caplog.text
    bench.workers.pass_on(lambda: bench.log.append("later"))
    bench.turn()
    assert bench.log == ["next", "later"]
