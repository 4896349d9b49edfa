"""The container module on a live engine, with an image made here: published ports answer.

A real broker in it delivers and recalls delayed messages to clients of this machine.
"""

from __future__ import annotations

import queue

import docker
import pytest

from embedded_broker.containers import RocketMQContainer
from embedded_broker.kit.backend import Ability
from embedded_broker.kit.container import ContainerBackend
from embedded_broker.kit.real import version_at
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    SystemClock,
)
from tests.interop.container_engine import VERSION
from tests.waiting import HANG_S

DELAY_MS = 1500


class Inbox:
    """A listener that keeps what arrived and when."""

    def __init__(self) -> None:
        self.arrived: queue.Queue[tuple[bytes, int]] = queue.Queue()

    def __call__(
        self, messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            self.arrived.put((message.body, SystemClock().now_ms))
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


@pytest.mark.smoke
def test_a_container_delivers_and_recalls_delayed_messages(engine_image: str) -> None:
    backend = ContainerBackend(engine_image)
    assert Ability.RECALL in backend.abilities
    with backend:
        assert version_at(backend.namesrv_addr) == backend.version
        backend.create_topic("Orders", 2)
        check_a_delay_and_a_recall(backend.namesrv_addr)
    assert any("boot success" in line for line in backend.log_tail())
    assert containers() == []


def check_a_delay_and_a_recall(namesrv_addr: str) -> None:
    inbox = Inbox()
    consumer = DefaultMQPushConsumer("G_container", namesrv_addr=namesrv_addr)
    consumer.consume_from_where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    consumer.subscribe("Orders", "*")
    consumer.register_message_listener(inbox)
    with DefaultMQProducer("P_container", namesrv_addr=namesrv_addr) as producer, consumer:
        unwanted = producer.send(Message("Orders", b"unwanted").set_delay_time_ms(4 * DELAY_MS))
        asked_ms = SystemClock().now_ms
        producer.send(Message("Orders", b"wanted").set_delay_time_ms(DELAY_MS))
        assert unwanted.recall_handle is not None
        producer.recall_message("Orders", unwanted.recall_handle)
        producer.send(Message("Orders", b"last").set_delay_time_ms(6 * DELAY_MS))
        body, at_ms = inbox.arrived.get(timeout=HANG_S)
        assert body == b"wanted"
        assert at_ms >= asked_ms + DELAY_MS
        assert inbox.arrived.get(timeout=HANG_S)[0] == b"last"


def test_a_container_with_settings_of_the_users_own(engine_image: str) -> None:
    with RocketMQContainer(engine_image, settings={"brokerName": "broker-own"}) as rocketmq:
        with DefaultMQProducer("P_own", namesrv_addr=rocketmq.get_namesrv_addr()) as producer:
            result = producer.send(Message("Own", b"now"))
            assert result.message_queue.broker_name == "broker-own"
        assert rocketmq.get_broker_addr() != rocketmq.get_namesrv_addr()
    assert containers() == []


def containers() -> list[object]:
    """What still runs or lies around at the engine."""
    client = docker.from_env()
    try:
        return list(client.containers.list(all=True, filters={"ancestor": f"rocketmq:{VERSION}"}))
    finally:
        client.close()
