"""An orderly listener may wait for its own settlement, however few threads there are."""

from __future__ import annotations

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Delivery,
    Message,
    MessageListenerOrderly,
)
from tests.waiting import until

GUARD_S = 10.0


def test_an_orderly_listener_that_waits_for_its_settlement_needs_no_second_thread() -> None:
    handled: list[bytes] = []

    def handle(delivery: Delivery) -> None:
        delivery.ack().result(GUARD_S)
        handled.append(delivery.message.body)

    with EmbeddedBroker(topics=["T"], tcp=False, clock=VirtualClock()) as broker:
        with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
            queue = producer.fetch_publish_message_queues("T")[0]
            for number in range(3):
                producer.send(Message("T", b"%d" % number), queue=queue)
        consumer = DefaultMQPushConsumer(
            "G",
            namesrv_addr=broker.namesrv_addr,
            consume_thread_min=1,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        consumer.subscribe("T")
        consumer.register_message_listener(MessageListenerOrderly(handle))
        with consumer:
            until(lambda: len(handled) == 3, GUARD_S)
    assert handled == [b"0", b"1", b"2"]
