"""One judge for all sends: an error, a warning for the message, or nothing."""

from __future__ import annotations

import logging

import pytest

from rocketmq_py.client import delay_policy
from rocketmq_py.client.delay_policy import judge, judge_broker, mentions_delay
from rocketmq_py.errors import DelayConflictError, DelayValueError
from rocketmq_py.protocol.codes import MQVersion
from rocketmq_py.protocol.delay import Delay, DelayKind

TIMER = Delay(DelayKind.SEC, 9)


def never() -> str:
    raise AssertionError("the message is named only in a warning")


def test_a_strict_judge_raises_what_names_the_setting() -> None:
    with pytest.raises(DelayValueError, match=r"level.*delay_policy='strict'") as caught:
        judge("strict", "T", {"DELAY": "19"}, never)
    assert (caught.value.property_name, caught.value.value) == ("DELAY", 19)
    with pytest.raises(DelayConflictError, match="delay_policy"):
        judge("strict", "T", {"DELAY": "3", "TIMER_DELAY_SEC": "5"}, never)


def test_a_warning_is_one_for_each_message_and_names_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for number in (1, 2):
            properties = {"DELAY": "-1", "TIMER_DELAY_SECS": "5"}
            judge("warn", "Orders", properties, f"id-{number}".__str__)
        judge("warn", "Orders", {"DELAY": "3"}, never)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    for number, text in enumerate(told, 1):
        assert f"topic=Orders message=id-{number}:" in text
        assert "negative level" in text
        assert "TIMER_DELAY_SECS" in text


def test_javas_way_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    judge("as_java", "T", {"DELAY": "abc", "TIMER_DELAY_SEC": "-1"}, never)
    assert not judge_broker("as_java", "T", TIMER, never, "mq:10911", MQVersion.V4_9_4)
    assert caplog.records == []


def test_a_timer_for_an_old_broker_is_judged_by_the_same_policy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert not judge_broker("strict", "T", TIMER, never, "mq:10911", MQVersion.V5_0_0)
    with pytest.raises(DelayValueError, match=r"4\.9\.4.*level 3 \(10s\).*delay_policy"):
        judge_broker("strict", "T", TIMER, never, "mq:10911", MQVersion.V4_9_4)
    with caplog.at_level(logging.WARNING):
        assert judge_broker("warn", "T", TIMER, lambda: "id-1", "mq:10911", MQVersion.V4_9_4)
    assert "message=id-1: delay property TIMER_DELAY_SEC = 9: broker mq:10911" in caplog.text


def test_names_without_a_delay_are_learnt_and_forgotten_when_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delay_policy, "_plain_names", set())
    monkeypatch.setattr(delay_policy, "NAMES_MAX", 3)
    assert not mentions_delay({"TAGS": "a", "KEYS": "k"})
    assert delay_policy._plain_names == {"TAGS", "KEYS"}
    assert mentions_delay({"TAGS": "a", "TIMER_X": "1", "B": "2", "C": "3"})
    assert delay_policy._plain_names == {"C"}
