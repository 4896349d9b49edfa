"""The system clock and the other doors to the machine's clocks."""

from __future__ import annotations

from datetime import UTC, timedelta

from rocketmq_py import clock
from rocketmq_py.clock import Clock, SystemClock


def test_the_system_clock_is_a_clock() -> None:
    assert isinstance(SystemClock(), Clock)
    assert repr(SystemClock()) == "SystemClock()"


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
