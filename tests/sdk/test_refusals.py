"""What cannot be sent: the same error with the same words from every broker and both faces."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    DefaultMQProducer,
    Message,
    MQBrokerException,
    MQClientException,
    NoRouteError,
    QueueAccess,
    RocketMQError,
    TopicNotExistError,
)
from tests.sdk.conftest import GUARD_S

NOBODYS = "no-broker-has-this-topic"
MAX = 4_194_304


class Refused(NamedTuple):
    """What is sent, given the topic of the test, and what is said."""

    message: Callable[[str], Message]
    error: type[RocketMQError]
    text: str


CASES: dict[str, Refused] = {
    "empty": Refused(lambda t: Message(t, b""), MQClientException, "body is empty"),
    "too large": Refused(
        lambda t: Message(t, b"x" * (MAX + 1)), MQClientException, "over max_message_size"
    ),
    "illegal topic": Refused(
        lambda _: Message("a b", b"x"), MQClientException, "a b, contains illegal characters"
    ),
    "long topic": Refused(lambda _: Message("t" * 128, b"x"), MQClientException, "longer than"),
    "topic of the broker": Refused(
        lambda _: Message("SCHEDULE_TOPIC_XXXX", b"x"), MQClientException, "is forbidden"
    ),
    "unknown topic": Refused(
        lambda t: Message(f"{t}-unknown", b"x"), NoRouteError, r"no route of topic .*-unknown"
    ),
    "long properties": Refused(
        lambda t: Message(t, b"x").put_user_property("p", "v" * 40_000),
        MQClientException,
        "the limit is 32767",
    ),
}


@pytest.fixture
def producer(rocketmq_broker: EmbeddedBroker) -> Iterator[DefaultMQProducer]:
    """A producer whose messages create no topics."""
    with DefaultMQProducer(
        "refused", namesrv_addr=rocketmq_broker.namesrv_addr, create_topic_key=NOBODYS
    ) as made:
        yield made


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_sent_is_refused_by_both_faces_alike(
    rocketmq_topic: str, producer: DefaultMQProducer, access: QueueAccess, name: str
) -> None:
    case = CASES[name]
    with pytest.raises(case.error, match=case.text) as caught:
        producer.send(case.message(rocketmq_topic))
    error = producer.send_async(case.message(rocketmq_topic)).exception(GUARD_S)
    assert type(error) is type(caught.value) is case.error
    assert str(error) == str(caught.value)
    assert {one.max_offset for one in access.bounds(rocketmq_topic).values()} == {0}


def test_a_body_that_only_the_broker_finds_too_large_is_refused_once_with_its_code(
    rocketmq_topic: str, producer: DefaultMQProducer
) -> None:
    producer.max_message_size = 2 * MAX
    body = os.urandom(MAX + 1)
    with pytest.raises(MQBrokerException) as caught:
        producer.send(Message(rocketmq_topic, body))
    error = producer.send_async(Message(rocketmq_topic, body)).exception(GUARD_S)
    assert isinstance(error, MQBrokerException)
    assert caught.value.code == error.code == 13


def test_a_oneway_message_without_a_route_is_refused(
    rocketmq_topic: str, producer: DefaultMQProducer
) -> None:
    with pytest.raises(NoRouteError, match="no route of topic"):
        producer.send_oneway(Message(f"{rocketmq_topic}-unknown", b"x"))


def test_a_pull_of_an_unknown_topic_is_refused(rocketmq_topic: str, access: QueueAccess) -> None:
    (queue, *_) = access.read_queues(rocketmq_topic)
    with pytest.raises(NoRouteError, match="no route of topic"):
        access.read_queues(f"{rocketmq_topic}-unknown")
    unknown = type(queue)(f"{rocketmq_topic}-unknown", queue.broker_name, 0)
    with pytest.raises(TopicNotExistError):
        access.pull(unknown, 0).result(GUARD_S)
