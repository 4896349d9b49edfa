"""The system clock and the other doors to the machine's clocks."""

from __future__ import annotations

import doctest
from datetime import UTC, timedelta

import pytest

from rocketmq_py import clock
from rocketmq_py.clock import ApplicationClock, Clock, SystemClock
from rocketmq_py.errors import ConfigError


def test_the_system_clock_is_a_clock() -> None:
    assert isinstance(SystemClock(), Clock)
    assert repr(SystemClock()) == "SystemClock()"


def test_work_of_the_application_is_not_counted_in_production() -> None:
    system = SystemClock()
    assert isinstance(system, ApplicationClock)
    with system.busy("outbox") as busy, system.busy() as other:
        assert busy is other
        assert busy(print) is print
        assert busy.hand_over(print) is print
    with system.idle_when(lambda: False, name="outbox") as condition:
        condition.forget()
        system.forget("outbox")


@pytest.mark.parametrize(
    ("name", "told"),
    [("", "1 to 200 characters"), ("x" * 201, "<201 characters>"), (5, "1 to 200 characters")],
)
def test_a_name_is_a_text_of_bounded_length(name: object, told: str) -> None:
    for call in (SystemClock().busy, lambda one: SystemClock().idle_when(bool, name=one)):
        with pytest.raises(ConfigError, match=told):
            call(name)  # type: ignore[arg-type]


def test_a_decorator_without_parentheses_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"write @clock.busy\(\) with parentheses"):
        SystemClock().busy(print)  # type: ignore[arg-type]


def test_milliseconds_and_datetime_are_the_same_instant() -> None:
    before = clock.wall_ms()
    moment = SystemClock().now()
    after = SystemClock().now_ms

    assert moment.utcoffset() == timedelta(0)
    assert moment.tzinfo is UTC
    assert before <= moment.timestamp() * 1000 + 1
    assert moment.timestamp() * 1000 <= after + 1


def test_the_monotonic_clock_does_not_go_back() -> None:
    first, second = clock.monotonic(), clock.monotonic()
    first_ns, second_ns = clock.monotonic_ns(), clock.monotonic_ns()

    assert first <= second
    assert first_ns <= second_ns


def test_the_examples_of_the_docstrings_do_what_they_say() -> None:
    assert doctest.testmod(clock) == (0, 4)
