"""Which error a refusal becomes."""

from __future__ import annotations

import pytest

from rocketmq_py.client.answers import broker_error, check_answer
from rocketmq_py.errors import (
    DelayOutOfRangeError,
    FlowControlError,
    InvalidDelayError,
    MQBrokerException,
    PermissionDeniedError,
    TopicNotExistError,
)
from rocketmq_py.protocol.command import RemotingCommand

DELAYED = {"TIMER_DELAY_SEC": "5"}
JUNK = {"TIMER_DELAY_SEC": "five"}
TOO_FAR = "timer message illegal, the delay time should not be bigger than the max delay"


def error_of(code: int, remark: str, properties: dict[str, str]) -> MQBrokerException:
    answer = RemotingCommand(code, flag=1, remark=remark)
    return broker_error(answer, "h:1", topic="T", properties=properties)


@pytest.mark.parametrize(
    ("code", "remark", "properties", "kind", "advice"),
    [
        (13, "body too long", {}, MQBrokerException, "limits"),
        (13, "body too long", DELAYED, MQBrokerException, "limits"),
        (13, TOO_FAR, DELAYED, DelayOutOfRangeError, "timerMaxDelaySec"),
        (13, "illegal", JUNK, InvalidDelayError, "five"),
        (2, "[REJECTREQUEST]", {}, FlowControlError, "later"),
        (215, "", {}, FlowControlError, "later"),
        (1, "timer message is under flow control", DELAYED, FlowControlError, "EachSlot"),
        (1, "timer message is not enabled", DELAYED, MQBrokerException, "timerWheelEnable"),
        (1, "java.lang.NullPointerException", {}, MQBrokerException, "NullPointer"),
        (1, "org.apache.rocketmq.acl.common.AclException: x", {}, PermissionDeniedError, "key"),
        (16, "no", {}, PermissionDeniedError, "permissions"),
        (17, "", {}, TopicNotExistError, "autoCreateTopicEnable"),
        (604, "x", {}, MQBrokerException, "x"),
    ],
)
def test_code_remark_and_message_decide_class_and_advice(
    code: int,
    remark: str,
    properties: dict[str, str],
    kind: type[MQBrokerException],
    advice: str,
) -> None:
    error = error_of(code, remark, properties)
    assert type(error) is kind
    assert (error.code, error.broker_addr, error.topic) == (code, "h:1", "T")
    assert advice in str(error)


def test_only_success_passes() -> None:
    check_answer(RemotingCommand(0, flag=1), "h:1")
    with pytest.raises(TopicNotExistError):
        check_answer(RemotingCommand(17, flag=1), "h:1", "T")


@pytest.mark.case("W19")
def test_success_passes_whatever_its_remark_says() -> None:
    check_answer(RemotingCommand(0, flag=1, remark="not set any response code"), "h:1")
