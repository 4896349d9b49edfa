"""A few compressed bytes cannot take a consumer's memory, and no message of theirs is lost."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    BodyTooLargeError,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
)

MIB = 1 << 20
COUNT = 24
DONE = ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def test_listeners_of_a_consumer_together_hold_no_more_than_the_bound() -> None:
    lock, together = threading.Lock(), threading.Barrier(2)
    all_here = threading.Event()
    held, most = 0, 0
    arrived: set[str] = set()

    def listen(messages: list[MessageExt], _: Any) -> ConsumeConcurrentlyStatus:
        nonlocal held, most
        size = sum(len(message.body) for message in messages)
        with lock:
            held += size
            most = max(most, held)
        together.wait(60)  # two fit, so two are there at some time
        with lock:
            held -= size
            arrived.update(message.msg_id for message in messages)
            if len(arrived) == COUNT:
                all_here.set()
        return DONE

    with EmbeddedBroker(topics=["T"]) as broker:
        with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
            for _ in range(COUNT):
                producer.send(Message("T", bytes(MIB)))
        consumer = DefaultMQPushConsumer(
            "G",
            namesrv_addr=broker.namesrv_addr,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            decompressed_body_max_bytes=MIB,
            decompressed_total_max_bytes=2 * MIB,
        )
        consumer.subscribe("T")
        consumer.register_message_listener(listen)
        with consumer:
            assert all_here.wait(60)
    assert most == 2 * MIB


def test_a_message_over_the_bound_is_retried_and_ends_in_the_dead_letters() -> None:
    bodies: list[bytes] = []

    def listen(messages: list[MessageExt], _: Any) -> ConsumeConcurrentlyStatus:
        bodies.extend(message.body for message in messages)
        return DONE

    with EmbeddedBroker(topics=["T"], clock=VirtualClock(), tcp=False) as broker:
        consumer = DefaultMQPushConsumer(
            "G",
            namesrv_addr=broker.namesrv_addr,
            max_reconsume_times=2,
            decompressed_body_max_bytes=MIB,
        )
        consumer.subscribe("T")
        consumer.register_message_listener(listen)
        with consumer, DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
            large = producer.send(Message("T", bytes(MIB + 1)))
            producer.send(Message("T", b"behind it"))
            broker.clock.settle()
            assert bodies == [b"behind it"]
            broker.clock.run(timedelta(hours=1))
            (dead,) = broker.messages.in_topic("%DLQ%G")
            assert dead.body == bytes(MIB + 1)
            assert dead.properties["ORIGIN_MESSAGE_ID"] in {large.msg_id, large.offset_msg_id}
            assert bodies == [b"behind it"]


def test_a_larger_bound_that_is_set_while_it_runs_lets_the_retry_through() -> None:
    bodies: list[int] = []

    def listen(messages: list[MessageExt], _: Any) -> ConsumeConcurrentlyStatus:
        bodies.extend(len(message.body) for message in messages)
        return DONE

    with EmbeddedBroker(topics=["T"], clock=VirtualClock(), tcp=False) as broker:
        consumer = DefaultMQPushConsumer(
            "G", namesrv_addr=broker.namesrv_addr, decompressed_body_max_bytes=MIB
        )
        consumer.subscribe("T")
        consumer.register_message_listener(listen)
        with consumer, DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
            producer.send(Message("T", bytes(MIB + 1)))
            broker.clock.settle()
            assert bodies == []
            consumer.decompressed_body_max_bytes = 2 * MIB
            broker.clock.run(timedelta(minutes=1))
            assert bodies == [MIB + 1]


def test_clients_that_share_connections_have_limits_of_their_own() -> None:
    """The limit of the client that asks counts, and the newest one, not that of the first."""
    with EmbeddedBroker(topics=["T"]) as broker:

        def client(group: str, limit: int) -> DefaultMQProducer:
            return DefaultMQProducer(
                group,
                namesrv_addr=broker.namesrv_addr,
                instance_name="shared",
                decompressed_body_max_bytes=limit,
            )

        with client("first", 2 * MIB) as first, client("second", MIB) as second:
            sent = first.send(Message("T", bytes(2 * MIB)))
            assert len(first.view_message("T", sent.msg_id).body) == 2 * MIB
            with pytest.raises(BodyTooLargeError, match="decompressed_body_max_bytes"):
                second.view_message("T", sent.msg_id)
            second.decompressed_body_max_bytes = 2 * MIB
            assert len(second.view_message("T", sent.msg_id).body) == 2 * MIB
