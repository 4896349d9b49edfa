"""Which error a refusal becomes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, TopicSpec
from embedded_broker.settings.profiles import LimitsName
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.client.answers import broker_error
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

OUR_PROXY = (
    "timer message illegal: TIMER_DELAY_SEC=5 asks for 5000 ms; the delay time should not be "
    "longer than 1000 ms (maxDelayTimeMills, limits=proxy)"
)
PROXY = "the max delay time of message is too large, max is 86400000"
OUR_TYPE = (
    "the topic[delay-timer] takes messages of type NORMAL (message.type), this one is of type DELAY"
)
FIFO_TYPE = "the topic[T] takes messages of type NORMAL (message.type), this one is of type FIFO"
PROXY_TYPE = (
    "TopicMessageType validate failed, the expected type is NORMAL, but actual type is DELAY"
)


def error_of(code: int, remark: str, properties: dict[str, str]) -> MQBrokerException:
    answer = RemotingCommand(code, flag=1, remark=remark)
    return broker_error(answer, "h:1", topic="T", properties=properties)


@pytest.mark.parametrize(
    ("code", "remark", "properties", "kind", "advice"),
    [
        (13, "body too long", {}, MQBrokerException, "limits"),
        (13, "body too long", DELAYED, MQBrokerException, "limits"),
        (13, TOO_FAR, DELAYED, DelayOutOfRangeError, "timerMaxDelaySec"),
        (13, OUR_PROXY, DELAYED, DelayOutOfRangeError, "delay, or raise maxDelayTimeMills at"),
        (13, PROXY, DELAYED, DelayOutOfRangeError, "or maxDelayTimeMills at the proxy"),
        (13, OUR_TYPE, DELAYED, MQBrokerException, "topic of type DELAY (attribute message.type)"),
        (13, PROXY_TYPE, DELAYED, MQBrokerException, "to a topic of type DELAY (attribute"),
        (13, OUR_TYPE, JUNK, MQBrokerException, "topic of type DELAY"),
        (13, FIFO_TYPE, {}, MQBrokerException, "topic of type FIFO"),
        (13, "the topic delay-timer is odd", DELAYED, MQBrokerException, "limits"),
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


@pytest.mark.parametrize(
    ("limits", "setting"), [("proxy", "maxDelayTimeMills"), ("broker", "timerMaxDelaySec")]
)
def test_the_embedded_brokers_limit_is_named_in_the_advice(
    limits: LimitsName, setting: str
) -> None:
    config = {"timerMaxDelaySec": 100, "maxDelayTimeMills": 50_000}
    topics = [TopicSpec("D", message_type="DELAY")]
    with (
        EmbeddedBroker(config=config, topics=topics, limits=limits) as broker,
        DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer,
        pytest.raises(DelayOutOfRangeError, match=f"shorter delay, or raise {setting} at"),
    ):
        producer.send(Message("D", b"x", delay=timedelta(days=1)))


def test_a_message_of_a_wrong_type_is_not_told_to_be_too_late() -> None:
    with (
        EmbeddedBroker(topics=["T"], limits="proxy") as broker,
        DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer,
        pytest.raises(MQBrokerException, match=r"to a topic of type DELAY \(") as caught,
    ):
        producer.send(Message("T", b"x", delay=timedelta(seconds=1)))
    assert type(caught.value) is MQBrokerException
