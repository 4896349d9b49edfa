"""The book of calls in flight: each ends once, late answers find nobody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_py.clock import monotonic
from rocketmq_py.errors import (
    RemotingSendRequestException,
    RemotingTimeoutException,
    RemotingTooMuchRequestException,
    RocketMQError,
)
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.transport.calls import CallTable
from rocketmq_py.transport.channel import future_of

Outcome = tuple[RemotingCommand | None, RocketMQError | None]


class Deadlines:
    """A schedule whose tasks run when the test says so."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], object]] = []
        self.cancelled = 0

    def __call__(self, _delay_ms: float, task: Callable[[], object]) -> Deadlines:
        self.tasks.append(task)
        return self

    def cancel(self) -> None:
        self.cancelled += 1


def table(deadlines: Deadlines, permits: int = 10) -> CallTable:
    return CallTable("127.0.0.1:1", deadlines, permits)


def test_an_answer_ends_its_call_once_and_its_deadline_finds_nothing() -> None:
    deadlines = Deadlines()
    calls, outcomes = table(deadlines), list[Outcome]()
    request = RemotingCommand(1)
    call = calls.open(request, lambda *outcome: outcomes.append(outcome))
    calls.limit((call,), 0, monotonic())
    answer = request.answer(0)
    calls.answered(answer)
    calls.answered(answer)
    deadlines.tasks[0]()
    assert outcomes == [(answer, None)]
    assert len(deadlines.tasks) == 1


def test_a_deadline_ends_the_call_and_the_late_answer_finds_nobody() -> None:
    deadlines = Deadlines()
    calls, outcomes = table(deadlines), list[Outcome]()
    request = RemotingCommand(1)
    calls.limit((calls.open(request, lambda *outcome: outcomes.append(outcome)),), 0, monotonic())
    deadlines.tasks[0]()
    calls.answered(request.answer(0))
    assert len(outcomes) == 1
    assert isinstance(outcomes[0][1], RemotingTimeoutException)


def test_one_task_looks_for_all_calls_that_are_late() -> None:
    deadlines = Deadlines()
    calls, outcomes = table(deadlines), list[Outcome]()
    for timeout_ms in (60_000, 0, 60_000, 0, 0):
        call = calls.open(RemotingCommand(1), lambda *outcome: outcomes.append(outcome))
        calls.limit((call,), timeout_ms, monotonic())
    assert (len(deadlines.tasks), deadlines.cancelled) == (2, 1)  # the second is due sooner
    deadlines.tasks[1]()
    assert (len(outcomes), len(calls)) == (3, 2)
    assert len(deadlines.tasks) == 3  # for the two that have time


def test_failing_all_gives_every_call_an_error_of_its_own() -> None:
    calls, outcomes = table(Deadlines()), list[Outcome]()
    for _ in range(3):
        calls.open(RemotingCommand(1), lambda *outcome: outcomes.append(outcome))
    cause = OSError("gone")
    calls.fail_all("the peer went away", cause)
    errors = [error for _, error in outcomes]
    assert len({id(error) for error in errors}) == 3
    assert all(isinstance(error, RemotingSendRequestException) for error in errors)
    assert all(error is not None and error.__cause__ is cause for error in errors)
    assert len(calls) == 0


def test_a_full_table_refuses_the_next_call() -> None:
    calls = table(Deadlines(), permits=1)
    calls.open(RemotingCommand(1))
    with pytest.raises(RemotingTooMuchRequestException):
        calls.open(RemotingCommand(1))


def test_requests_are_numbered_apart() -> None:
    calls = table(Deadlines())
    first, second = RemotingCommand(1), RemotingCommand(1)
    calls.open(first)
    calls.number(second)
    assert first.opaque != second.opaque


def test_an_exception_of_who_takes_the_outcome_stays_here(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = table(Deadlines())
    request = RemotingCommand(1)
    calls.open(request, lambda *_: 1 // 0)  # type: ignore[arg-type]
    calls.answered(request.answer(0))
    assert "taking the outcome of a call failed" in caplog.text


def test_a_request_that_cannot_begin_is_an_outcome_of_its_future() -> None:
    def begin(_done: object) -> None:
        raise RemotingSendRequestException("no")

    with pytest.raises(RemotingSendRequestException):
        future_of(begin).result(0)


def test_a_cancelled_future_takes_no_outcome() -> None:
    taken: list[Callable[..., None]] = []
    future = future_of(taken.append)
    assert future.cancel()
    taken[0](RemotingCommand(1), None)
    assert future.cancelled()
