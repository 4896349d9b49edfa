"""Types of topics: asked of a broker once in half a minute, and unknown when nobody tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultMQProducer
from rocketmq_py.client import topic_types
from rocketmq_py.protocol.codes import RequestCode, ResponseCode

PATIENCE_S = 10.0
ASK = RequestCode.GET_TOPIC_CONFIG


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["plain"], config={"enableMixedMessageType": True}) as started:
        yield started


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Iterator[DefaultMQProducer]:
    with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as started:
        yield started


def type_of(producer: DefaultMQProducer, topic: str) -> str | None:
    return producer.topic_message_type(topic).result(PATIENCE_S)


def asked(broker: EmbeddedBroker) -> int:
    return len(broker.journal.requests(code=ASK))


def test_a_topic_says_its_type_and_is_asked_again_after_half_a_minute(
    broker: EmbeddedBroker, producer: DefaultMQProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr(topic_types, "monotonic", lambda: now_s)
    broker.topics.create("later", message_type="DELAY")
    assert [type_of(producer, "later") for _ in range(3)] == ["DELAY"] * 3
    assert asked(broker) == 1
    broker.topics.create("later", message_type="MIXED")
    now_s = topic_types.REMEMBERED_S - 1
    assert type_of(producer, "later") == "DELAY"
    now_s = topic_types.REMEMBERED_S
    assert type_of(producer, "later") == "MIXED"
    assert asked(broker) == 2


def test_a_topic_without_a_type_and_a_broker_that_refuses_are_remembered(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    assert type_of(producer, "plain") is None
    broker.topics.create("hidden", message_type="FIFO")
    broker.faults.on(ASK).respond(ResponseCode.NO_PERMISSION)
    assert [type_of(producer, "hidden") for _ in range(2)] == [None, None]
    assert asked(broker) == 2


def test_what_nobody_could_be_asked_about_is_asked_again(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    assert type_of(producer, "new") is None
    broker.topics.create("new", message_type="FIFO")
    assert type_of(producer, "new") == "FIFO"


@pytest.mark.parametrize("given", [{"message.type": "DELAY"}, {"+message.type": "Delay"}])
def test_a_topic_is_created_with_its_type_as_tools_write_it(
    broker: EmbeddedBroker, producer: DefaultMQProducer, given: dict[str, str]
) -> None:
    producer.create_topic("TBW102", "later", 4, attributes=given)
    assert type_of(producer, "later") == "DELAY"
    assert topic_types.clean_attributes(given) == {"message.type": "DELAY"}
