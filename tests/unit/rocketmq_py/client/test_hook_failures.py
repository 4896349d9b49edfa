"""What a hook raises is logged once a minute."""

from __future__ import annotations

import logging

import pytest

from rocketmq_py.client.hook_failures import REMEMBERED_MAX, TOLD_EVERY_S, HookFailures

LOGGER = logging.getLogger("hooks of a test")


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_failure_is_one_line_a_minute_which_says_how_many_there_were(
    caplog: pytest.LogCaptureFixture,
) -> None:
    time, hook = Time(), object()
    failures = HookFailures(LOGGER, time)
    for _ in range(1_000):
        failures.tell("send", hook, LookupError("a"))
    assert len(caplog.records) == 1
    time.now = TOLD_EVERY_S
    failures.tell("send", hook, LookupError("a"))
    assert len(caplog.records) == 2
    assert "999 not told before" in caplog.messages[1]
    assert repr(hook) in caplog.messages[1]


def test_another_hook_and_another_error_are_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    failures, hook = HookFailures(LOGGER, Time()), object()
    failures.tell("send", hook, LookupError("a"))
    failures.tell("send", hook, ValueError("a"))
    failures.tell("send", object(), LookupError("a"))
    failures.tell("consume", hook, LookupError("a"))
    assert len(caplog.records) == 4


def test_what_is_remembered_is_bounded() -> None:
    failures = HookFailures(LOGGER, Time())
    for number in range(REMEMBERED_MAX + 1):
        failures.tell(str(number), "hook", LookupError("a"))
    assert len(failures._told) == 1
