"""A broker that crashes after a chosen request."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.errors import WaitTimeoutError
from embedded_broker.kit.crash import CrashPlan
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.errors import ConfigError, SendFailedError

GUARD_S = 30.0


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"]) as broker:
        yield broker


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Iterator[DefaultMQProducer]:
    with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
        yield producer


@pytest.mark.parametrize("run", range(10))
def test_the_request_is_carried_out_and_its_answer_lost(
    broker: EmbeddedBroker, producer: DefaultMQProducer, run: int
) -> None:
    plan = CrashPlan(broker, "SEND_MESSAGE_V2", nth=2, topic="T")
    for body in (b"1", b"2", b"3"):
        producer.send(Message("T", body))
    plan.end()
    assert plan.crashes == 1
    assert not broker.recovery.clean
    bodies = sorted(one.body for one in broker.messages.in_topic("T"))
    assert bodies == [b"1", b"2", b"2", b"3"]


def test_it_may_lose_what_was_not_synced_and_stay_down(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    producer.send(Message("T", b"1"))
    plan = CrashPlan(broker, "SEND_MESSAGE_V2", lose_unsynced=True, restart=False)
    with pytest.raises(SendFailedError):
        producer.send(Message("T", b"2"))
    plan.end()
    assert plan.crashes == 1
    assert not broker.is_running
    broker.restart()
    assert broker.messages.in_topic("T") == []


def test_a_plan_that_ends_before_its_request_lets_the_broker_live(broker: EmbeddedBroker) -> None:
    plan = CrashPlan(broker, "SEND_MESSAGE_V2", nth=3)
    plan.end()
    plan.end()
    assert plan.crashes == 0
    assert broker.is_running
    assert repr(plan) == "rocketmq_crash(after='SEND_MESSAGE_V2', nth=3)"


def test_an_unknown_request_is_named(broker: EmbeddedBroker) -> None:
    with pytest.raises(ConfigError, match="SEND_MESSAGE"):
        CrashPlan(broker, "SEND_MESAGE")
    assert issubclass(WaitTimeoutError, TimeoutError)
