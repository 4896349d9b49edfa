"""The broker under the SDK's own clients, over TCP and in one process."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
)
from rocketmq_py.transport import inproc as registry
from tests.unit.embedded_broker.peers import open_files

GUARD_S = 30.0


class Listener:
    """A push consumer's listener that keeps what it got."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        self.bodies += [message.body for message in messages]
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


def consumer_of(broker: EmbeddedBroker, listener: Listener, topic: str) -> DefaultMQPushConsumer:
    consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe(topic, "*")
    consumer.register_message_listener(listener)
    return consumer


@pytest.mark.case("K3")
def test_thirty_days_pass_at_once_and_clients_stay_connected() -> None:
    clock = VirtualClock()
    listener = Listener()
    with (
        EmbeddedBroker(
            clock=clock, topics=["T"], inproc=False, config={"timerMaxDelaySec": 3_456_000}
        ) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        consumer_of(broker, listener, "T"),
    ):
        producer.send(Message("T", b"in a month", delay=timedelta(days=30)))
        broker.wait_for(lambda b: b.journal.requests(code=11, topic="T"), timeout=GUARD_S)
        connections = set(broker._parts().endpoint.connections)

        done = clock.advance(days=30)
        broker.wait_for(lambda _: listener.bodies, timeout=GUARD_S)

        assert done.fired == 1
        assert listener.bodies == [b"in a month"]
        assert set(broker._parts().endpoint.connections) == connections
        assert broker._parts().consumers.get("G") is not None


@pytest.mark.case("K16")
def test_without_tcp_sdk_clients_work_and_nothing_listens() -> None:
    before = {one for one in open_files() if "socket" in one}
    listener = Listener()
    with (
        EmbeddedBroker(tcp=False, topics=["T"]) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        consumer_of(broker, listener, "T"),
    ):
        assert broker.addr.endswith(".invalid:10911")
        producer.send(Message("T", b"no socket"))
        broker.wait_for(lambda _: listener.bodies == [b"no socket"], timeout=GUARD_S)

        assert {one for one in open_files() if "socket" in one} == before


@pytest.mark.case("K16")
def test_without_the_in_process_channel_sdk_clients_work_over_tcp_alone() -> None:
    listener = Listener()
    with (
        EmbeddedBroker(inproc=False, topics=["T"]) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        consumer_of(broker, listener, "T"),
    ):
        assert registry.lookup(broker.addr) is None
        producer.send(Message("T", b"by socket"))
        broker.wait_for(lambda _: listener.bodies == [b"by socket"], timeout=GUARD_S)
