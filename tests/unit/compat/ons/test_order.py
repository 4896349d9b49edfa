from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from compat.ons import (
    ConsumeOrderContext,
    Message,
    MessageOrderListener,
    ONSClientException,
    ONSFactory,
    OrderAction,
    OrderConsumer,
    OrderProducer,
    PropertyKeyConst,
)
from compat.ons import order as ons_order
from embedded_broker import EmbeddedBroker
from rocketmq_py import DelayConflictError, MessageQueue
from tests.unit.compat.ons.ons_bench import PATIENCE

TOPIC = "TopicTestMQ"
KEY_OF_LEAST_HASH = "polygenelubricants"
"""Its ``String.hashCode`` is the least int of Java, whose absolute value is negative there."""


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Iterator[OrderProducer]:
    with ONSFactory.createOrderProducer({"NAMESRV_ADDR": broker.namesrv_addr}) as made:
        yield made


def consumer_of(broker: EmbeddedBroker, **more: object) -> OrderConsumer:
    properties = {"NAMESRV_ADDR": broker.namesrv_addr, "GROUP_ID": "GID_order", **more}
    return ONSFactory.createOrderedConsumer(properties)


def test_messages_of_a_key_go_to_one_queue_and_arrive_in_order(
    broker: EmbeddedBroker, producer: OrderProducer
) -> None:
    received: list[tuple[str | None, bytes]] = []

    class Listener(MessageOrderListener):
        def consume(self, message: Message, context: ConsumeOrderContext) -> OrderAction:
            received.append((message.getShardingKey(), message.getBody()))
            return OrderAction.Success

    running = consumer_of(broker)
    running.subscribe(TOPIC, "*", Listener())
    with running:
        for number in range(12):
            message = Message(TOPIC, "TagA", str(number).encode())
            assert producer.send(message, f"order-{number % 3}").getMessageId() == message.msg_id
        broker.wait_for(lambda _: len(received) == 12, timeout=PATIENCE)
    for key in range(3):
        bodies = [body for sharding_key, body in received if sharding_key == f"order-{key}"]
        assert bodies == [str(number).encode() for number in range(key, 12, 3)]
    queues: dict[str, set[int]] = {}
    for stored in broker.messages.in_topic(TOPIC):
        queues.setdefault(stored.properties["__SHARDINGKEY"], set()).add(stored.queue_id)
    assert [len(ids) for ids in queues.values()] == [1, 1, 1]


@pytest.mark.parametrize(
    ("key", "queues", "expected"),
    [("order-1", 8, 6), ("abc", 8, 2), ("g1", 8, 2), (KEY_OF_LEAST_HASH, 3, 0)],
)
def test_the_queue_of_a_key_is_that_of_javas_client(key: str, queues: int, expected: int) -> None:
    given = [MessageQueue(TOPIC, "broker-a", number) for number in range(queues)]
    unused: Any = SimpleNamespace()
    assert ons_order._queue_of_key(given, unused, key).queue_id == expected


@pytest.mark.case("T90")
@pytest.mark.parametrize("key", ["", "  ", None, 7])
def test_a_blank_key_is_refused(broker: EmbeddedBroker, producer: OrderProducer, key: Any) -> None:
    with pytest.raises(ONSClientException, match=r"sharding_key = .* is blank, or no str"):
        producer.send(Message(TOPIC, "TagA", b"x"), key)
    assert broker.messages.in_topic(TOPIC) == []


def test_a_delay_is_refused_unless_it_is_allowed(
    broker: EmbeddedBroker, producer: OrderProducer
) -> None:
    message = Message(TOPIC, "TagA", b"x").setStartDeliverTime(broker.clock.now_ms + 5000)
    with pytest.raises(DelayConflictError, match="allow_delay=True") as raised:
        producer.send(message, "k")
    assert isinstance(raised.value, ValueError)
    by_property = Message(TOPIC, "TagA", b"x")
    by_property.putUserProperties("TIMER_DELAY_SEC", "5")
    with pytest.raises(ValueError, match="TIMER_DELAY_SEC"):
        producer.send(by_property, "k")
    assert broker.timers.count() == 0
    producer.send(message, "k", allow_delay=True)
    assert broker.timers.count() == 1


def test_a_send_in_order_is_not_tried_again(
    broker: EmbeddedBroker, producer: OrderProducer
) -> None:
    broker.faults.on("SEND_MESSAGE_V2", topic=TOPIC).respond("SYSTEM_BUSY")
    with pytest.raises(ONSClientException, match="overloaded"):
        producer.send(Message(TOPIC, "TagA", b"x"), "k")
    assert len(broker.journal.requests(code="SEND_MESSAGE_V2", topic=TOPIC)) == 1


def test_a_message_that_is_not_handled_comes_again_in_its_place(
    broker: EmbeddedBroker, producer: OrderProducer, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[object] = [OrderAction.Suspend, None, OrderAction.SUCCESS, OrderAction.Success]
    received: list[tuple[bytes, int]] = []
    done = threading.Event()

    def listen(message: Message, context: ConsumeOrderContext) -> OrderAction:
        received.append((message.body, message.getReconsumeTimes()))
        answer: Any = answers[len(received) - 1]
        if len(received) == len(answers):
            done.set()
        return answer  # type: ignore[no-any-return]

    running = consumer_of(broker, **{PropertyKeyConst.SuspendTimeMillis: 10})
    running.subscribe(TOPIC, "TagA", listen)
    with running:
        for body in (b"1", b"2"):
            producer.send(Message(TOPIC, "TagA", body), "k")
        assert done.wait(PATIENCE)
    assert received == [(b"1", 0), (b"1", 1), (b"1", 2), (b"2", 0)]
    assert "returned None instead of an OrderAction" in caplog.text


def test_a_listener_base_without_a_function_says_so() -> None:
    with pytest.raises(ONSClientException, match="override it"):
        MessageOrderListener().consume(Message(), ConsumeOrderContext())
