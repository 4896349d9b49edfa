"""What a test sees of the SDK's own consumers, and moving them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from threading import Event

import pytest

from embedded_broker import EmbeddedBroker, MessageState, VirtualClock
from embedded_broker.settings.profiles import ProfileName
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
)

GUARD_S = 30.0


class Listener:
    """Keeps what it got; waits for `gate` first, and fails as often as it is told."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.gate = Event()
        self.gate.set()
        self.failures = 0

    def __call__(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        self.gate.wait(GUARD_S)
        if self.failures:
            self.failures -= 1
            return ConsumeConcurrentlyStatus.RECONSUME_LATER
        self.bodies += [message.body for message in messages]
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def consumer_of(broker: EmbeddedBroker, listener: Listener) -> DefaultMQPushConsumer:
    consumer = DefaultMQPushConsumer(
        "G",
        namesrv_addr=broker.namesrv_addr,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer.subscribe("T", "*")
    consumer.register_message_listener(listener)
    return consumer


@pytest.mark.case("K11")
def test_the_life_of_a_delayed_message_from_a_producer_to_its_acknowledgement() -> None:
    clock, listener = VirtualClock(), Listener()
    listener.gate.clear()
    with (
        EmbeddedBroker(clock=clock, tcp=False, topics=["T"]) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        consumer_of(broker, listener),
    ):
        broker.wait_members("G", timeout=GUARD_S)
        start = clock.now()
        sent = producer.send(Message("T", b"later", keys="K1", delay=timedelta(seconds=10)))
        assert broker.messages.trace(sent).state is MessageState.SCHEDULED
        assert broker.messages.by_key("T", "K1") == []

        clock.advance(10)
        broker.wait_for(
            lambda b: b.messages.trace(sent).state is MessageState.IN_FLIGHT, timeout=GUARD_S
        )
        clock.advance(1)
        listener.gate.set()
        broker.wait_for(lambda b: b.groups["G"].lag() == 0, timeout=GUARD_S)

        seen = broker.messages.trace(sent)
        assert seen.state is MessageState.ACKNOWLEDGED
        mine = seen.groups["G"]
        assert seen.ready_at == mine.in_flight_at
        assert mine.in_flight_at is not None
        assert mine.acknowledged_at is not None
        assert (mine.in_flight_at - start).total_seconds() == 10
        assert (mine.acknowledged_at - start).total_seconds() == 11
        assert [one.body for one in broker.messages.by_key("T", "K1")] == [b"later"]


@pytest.mark.case("T81")
@pytest.mark.parametrize("profile", ["rocketmq-5.x", "rocketmq-4.9"])
def test_a_running_consumer_reads_again_from_where_its_group_is_moved_to(
    profile: ProfileName,
) -> None:
    listener = Listener()
    with EmbeddedBroker(clock=VirtualClock(), tcp=False, topics=["T"], profile=profile) as broker:
        for number in range(3):
            broker.send("T", str(number).encode(), queue=0)
        with consumer_of(broker, listener):
            broker.wait_for(lambda _: len(listener.bodies) == 3, timeout=GUARD_S)
            broker.wait_for(lambda b: b.groups["G"].lag() == 0, timeout=GUARD_S)

            broker.groups["G"].reset(topic="T", to=1, queue=0)

            broker.wait_for(lambda _: len(listener.bodies) == 5, timeout=GUARD_S)
            assert sorted(listener.bodies) == [b"0", b"1", b"1", b"2", b"2"]
            broker.wait_for(lambda b: b.groups["G"].lag() == 0, timeout=GUARD_S)


def test_a_failed_message_is_among_the_retries_until_it_succeeds() -> None:
    clock, listener = VirtualClock(), Listener()
    listener.failures = 1
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"]) as broker:
        sent = broker.send("T", b"x")
        with consumer_of(broker, listener):
            broker.wait_for(lambda b: b.groups["G"].retries(), timeout=GUARD_S)
            (retry,) = broker.groups["G"].retries()
            assert (retry.msg_id, retry.topic, retry.waiting) == (sent.msg_id, "T", True)
            assert broker.messages.trace(sent).groups["G"].retry_due_at == retry.due_at

            clock.advance(10)
            broker.wait_for(lambda _: listener.bodies == [b"x"], timeout=GUARD_S)
            broker.wait_for(lambda b: not b.groups["G"].retries(), timeout=GUARD_S)
            assert broker.messages.trace(sent).state is MessageState.ACKNOWLEDGED
            assert broker.messages.trace(sent).groups["G"].attempts == 2
