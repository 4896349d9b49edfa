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
        assert broker._parts().tables.consumers.get("G") is not None


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


@pytest.mark.parametrize("run", range(5))
@pytest.mark.parametrize("crash", [False, True])
def test_clients_of_the_process_wait_while_a_broker_is_restarted(crash: bool, run: int) -> None:
    with (
        EmbeddedBroker(topics=["T"]) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        producer.send(Message("T", b"first"))
        futures = [producer.send_async(Message("T", b"%d" % number)) for number in range(50)]
        report = broker.restart(crash=crash)
        for _ in range(20):
            producer.send(Message("T", b"more"))
        for future in futures:
            future.exception(timeout=GUARD_S)
        assert report.clean is not crash
        assert len([one for one in broker.messages.in_topic("T") if one.body == b"more"]) == 20
        address = broker.addr
        assert registry.lookup(address) is not None
    assert registry.lookup(address) is None


def test_a_message_is_delivered_again_to_all_groups_or_to_one() -> None:
    first, second = Listener(), Listener()
    with EmbeddedBroker(topics=["T"], clock=VirtualClock()) as broker:
        others = DefaultMQPushConsumer("H", namesrv_addr=broker.namesrv_addr)
        others.subscribe("T", "*")
        others.register_message_listener(second)
        with consumer_of(broker, first, "T"), others:
            sent = broker.send("T", b"x", tags="a", keys="k", delay=60)
            with pytest.raises(LookupError, match="not delivered yet"):
                broker.redeliver(sent)
            broker.clock.run(60)
            copy = broker.redeliver(sent)
            assert copy.msg_id == sent.msg_id
            broker.clock.settle()
            assert (first.bodies, second.bodies) == ([b"x"] * 2, [b"x"] * 2)
            broker.redeliver(sent.msg_id, group="G")
            broker.clock.settle()
            assert (first.bodies, second.bodies) == ([b"x"] * 3, [b"x"] * 2)
            assert broker.timers.count() == 0
            with pytest.raises(KeyError, match="no group 'X'"):
                broker.redeliver(sent, group="X")
            with pytest.raises(LookupError):
                broker.redeliver("nobody")
