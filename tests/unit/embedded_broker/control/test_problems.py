"""What is told when something is not possible."""

from __future__ import annotations

import logging

import pytest

from embedded_broker.control.problems import problem_of
from embedded_broker.errors import MessageNotFound, SettleTimeout, StoreError
from rocketmq_py.errors import ConfigError, MQBrokerException


def test_value_limit_and_setting_are_members_of_their_own() -> None:
    told = problem_of(ConfigError("queues", 0, "1 or more"))
    assert told == {
        "type": "about:blank",
        "title": "ConfigError",
        "status": 400,
        "detail": "setting queues = 0 is not possible: 1 or more",
        "setting": "queues",
        "value": 0,
        "limit": "1 or more",
    }


def test_a_value_that_json_cannot_hold_is_told_as_text() -> None:
    assert problem_of(ConfigError("x", object, "y"))["value"] == "<class 'object'>"


@pytest.mark.parametrize(
    ("error", "status", "title", "member"),
    [
        (KeyError("no topic 'X'"), 404, "NotFound", None),
        (MessageNotFound("no message"), 404, "MessageNotFound", None),
        (SettleTimeout("late", ("G is busy",)), 504, "SettleTimeout", ("busy", ["G is busy"])),
        (MQBrokerException(13, "illegal", "a:1"), 422, "MQBrokerException", ("code", 13)),
        (StoreError("no room"), 500, "StoreError", None),
        (TypeError("wrong"), 400, "WrongType", None),
    ],
)
def test_each_error_has_its_status(
    error: Exception,
    status: int,
    title: str,
    member: tuple[str, object] | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = problem_of(error)
    assert (told["status"], told["title"]) == (status, title)
    if member is not None:
        assert told[member[0]] == member[1]
    assert caplog.records == []


def test_an_error_that_nobody_foresaw_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert problem_of(ZeroDivisionError("by zero"))["status"] == 500
    (record,) = caplog.records
    assert record.exc_info is not None
