from __future__ import annotations

import threading
from typing import Any

import pytest

import rocketmq_py
from compat.ons import Message, ONSClientException, ONSFactory, Producer, SendCallback, SendResult
from embedded_broker import EmbeddedBroker
from rocketmq_py import MQClientException
from tests.unit.compat.ons.ons_bench import PATIENCE, Outcome


@pytest.mark.case("T86")
def test_the_id_is_known_when_send_async_returns_and_equals_the_callbacks(
    broker: EmbeddedBroker, producer: Producer
) -> None:
    for number in range(20):
        message = Message("TopicTestMQ", "TagA", str(number).encode())
        outcome = Outcome()
        producer.sendAsync(message, outcome)
        known = message.getMsgID()
        assert known
        assert outcome.known.wait(PATIENCE)
        assert [result.getMessageId() for result in outcome.results] == [known]
    stored = {message.msg_id for message in broker.messages.in_topic("TopicTestMQ")}
    assert known in stored


def test_an_instance_has_its_own_topics_and_the_program_bare_names(broker: EmbeddedBroker) -> None:
    broker.topics.create("MQ_INST_1%TopicTestMQ")
    settings = {"NAMESRV_ADDR": broker.namesrv_addr, "INSTANCE_ID": "MQ_INST_1"}
    with ONSFactory.create_producer(settings) as producer:
        assert producer.send(Message("TopicTestMQ", "TagA", b"x")).getTopic() == "TopicTestMQ"
    assert len(broker.messages.in_topic("MQ_INST_1%TopicTestMQ")) == 1
    assert broker.messages.in_topic("TopicTestMQ") == []


@pytest.mark.case("T86")
def test_a_send_async_that_cannot_work_reaches_the_callback_only(producer: Producer) -> None:
    outcome = Outcome()
    message = Message("a b", "TagA", b"x")
    producer.send_async(message, outcome)
    assert outcome.known.wait(PATIENCE)
    (failure,) = outcome.failures
    assert failure.getTopic() == "a b"
    assert isinstance(failure.getException().__cause__, MQClientException)
    assert failure.getMessageId() == failure.message_id == message.getMsgID() is not None


@pytest.mark.parametrize("wrong", [None, "text", rocketmq_py.Message("TopicTestMQ", b"x")])
def test_what_is_no_message_of_ons_is_refused(
    broker: EmbeddedBroker, producer: Producer, wrong: Any
) -> None:
    named = r"^a Message of compat\.ons is needed, not (NoneType|str|Message): made by Message\("
    for send in (producer.send, producer.send_oneway, lambda m: producer.send_async(m, Outcome())):
        with pytest.raises(TypeError, match=named):
            send(wrong)
    in_order = ONSFactory.createOrderProducer({"NAMESRV_ADDR": broker.namesrv_addr})
    with in_order, pytest.raises(TypeError, match=named):
        in_order.send(wrong, "key")


def test_two_callables_make_a_callback(producer: Producer) -> None:
    known = threading.Event()
    results: list[SendResult] = []

    def success(result: SendResult) -> None:
        results.append(result)
        known.set()

    message = Message("TopicTestMQ", "TagA", b"x")
    producer.send_async(message, SendCallback(success))
    assert known.wait(PATIENCE)
    assert results == [SendResult("TopicTestMQ", str(message.msg_id))]


def test_every_send_leaves_the_id_in_the_message(
    broker: EmbeddedBroker, producer: Producer
) -> None:
    message = Message("TopicTestMQ", "TagA", b"x")
    assert producer.send(message).message_id == message.msg_id
    oneway = Message("TopicTestMQ", "TagA", b"y")
    producer.sendOneway(oneway)
    broker.wait_delivered("TopicTestMQ", 2)
    assert oneway.getMsgID() in {m.msg_id for m in broker.messages.in_topic("TopicTestMQ")}


def test_every_failure_is_one_kind_of_error_with_topic_id_and_cause(producer: Producer) -> None:
    message = Message("TopicTestMQ", "TagA", b"")
    with pytest.raises(ONSClientException, match="TopicTestMQ") as raised:
        producer.send(message)
    assert raised.value.topic == "TopicTestMQ"
    assert raised.value.response_code == 13
    assert isinstance(raised.value.__cause__, MQClientException)
    with pytest.raises(ONSClientException) as negative:
        producer.send(Message("TopicTestMQ", "TagA", b"x").setStartDeliverTime(-1))
    assert isinstance(negative.value.__cause__, ValueError)


@pytest.mark.case("T88")
def test_a_delay_over_forty_days_is_not_sent(broker: EmbeddedBroker, producer: Producer) -> None:
    day_ms = 86_400_000
    late = Message("TopicTestMQ", "TagA", b"x")
    late.setStartDeliverTime(broker.clock.now_ms + 41 * day_ms)
    with pytest.raises(ONSClientException, match="40"):
        producer.send(late)
    late.setStartDeliverTime(broker.clock.now_ms + 39 * day_ms)
    producer.send(late)
    assert broker.timers.count() == 1
