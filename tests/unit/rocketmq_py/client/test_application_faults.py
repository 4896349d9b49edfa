"""What code of the application raises is logged once a minute."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from rocketmq_py.client.application_faults import REMEMBERED_MAX, TOLD_EVERY_S, ApplicationFaults

LOGGER = logging.getLogger("hooks of a test")


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def one() -> None:
    raise LookupError("one")


def another() -> None:
    raise LookupError("another")


def fail(faults: ApplicationFaults, call: Callable[[], None], what: str = "send hook") -> None:
    """Let code raise, and tell it."""
    try:
        call()
    except LookupError as error:
        faults.tell(what, call, error)


def test_one_fault_is_one_line_a_minute_which_says_how_often_it_came(
    caplog: pytest.LogCaptureFixture,
) -> None:
    time = Time()
    faults = ApplicationFaults(LOGGER, time)
    for _ in range(1_000):
        fail(faults, one)
    assert len(caplog.records) == 1
    time.now = TOLD_EVERY_S
    fail(faults, one)
    assert len(caplog.records) == 2
    assert "999 not told before" in caplog.messages[1]
    assert repr(one) in caplog.messages[1]


def test_another_place_another_error_and_another_kind_are_told_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faults = ApplicationFaults(LOGGER, Time())
    fail(faults, one)
    fail(faults, another)
    fail(faults, one, "consume hook")
    faults.tell("send hook", one, ValueError("without a place"))
    assert len(caplog.records) == 4


def test_what_is_remembered_is_bounded() -> None:
    faults = ApplicationFaults(LOGGER, Time())
    for number in range(REMEMBERED_MAX + 1):
        fail(faults, one, str(number))
    assert len(faults._told) == 1
