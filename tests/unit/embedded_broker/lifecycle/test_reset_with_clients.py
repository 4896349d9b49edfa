"""A broker that begins anew behind its connections."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from embedded_broker import (
    BrokerStateError,
    ClockError,
    Connected,
    EmbeddedBroker,
    TopicSpec,
    VirtualClock,
)
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
)
from rocketmq_py.protocol.codes import RequestCode

GUARD_S = 30.0


class Inbox:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.came = Event()

    def __call__(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        self.bodies += [message.body for message in messages]
        self.came.set()
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS


@pytest.mark.case("K32")
@pytest.mark.parametrize("inproc", [True, False])
@pytest.mark.parametrize("in_directory", [False, True])
def test_connected_clients_go_on_after_a_reset_and_see_nothing_of_before(
    tmp_path: Path, inproc: bool, in_directory: bool
) -> None:
    clock, inbox = VirtualClock(), Inbox()
    store = tmp_path / "store" if in_directory else None
    with (
        EmbeddedBroker(
            store=store, clock=clock, inproc=inproc, topics=[TopicSpec("T", queues=2)]
        ) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
        consumer.subscribe("T")
        consumer.register_message_listener(inbox)
        with consumer:
            for number in range(20):
                producer.send(Message("T", b"before %d" % number))
            producer.send(Message("T", b"timer", properties={"TIMER_DELAY_MS": "60000"}))
            broker.send("T", b"level", delay_level=5)
            broker.topics.create("Gone", queues=3)
            clock.settle(GUARD_S)
            assert len(inbox.bodies) == 20
            inbox.bodies.clear()
            addresses = (broker.namesrv_addr, broker.addr)
            connections = set(broker._parts().endpoint.connections)

            broker.reset()

            assert (broker.namesrv_addr, broker.addr) == addresses
            assert set(broker._parts().endpoint.connections) == connections
            assert broker.topics.names() == ["T", "%RETRY%G"]
            assert broker.topics["T"].queues == 2
            assert broker.topics["T"].count() == 0
            assert broker.timers.count() == 0
            assert broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2) == []
            for number in range(20):
                producer.send(Message("T", b"after %d" % number))
            clock.settle(GUARD_S)
            clock.advance(days=1)
            clock.settle(GUARD_S)
            assert sorted(inbox.bodies) == sorted(b"after %d" % number for number in range(20))
            committed = [
                broker._parts().tables.offsets.query("G", "T", queue) for queue in range(2)
            ]
            assert committed == [broker.topics["T"].max_offset(queue) for queue in range(2)]
    if in_directory:
        with EmbeddedBroker(store=store, tcp=False) as again:
            assert again.topics["T"].count() == 20


@pytest.mark.case("K32")
@pytest.mark.parametrize("inproc", [True, False])
def test_a_consumer_misses_nothing_though_as_many_messages_come_as_before(inproc: bool) -> None:
    clock, inbox = VirtualClock(), Inbox()
    with (
        EmbeddedBroker(clock=clock, inproc=inproc) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        broker.topics.create("T", queues=4)
        consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
        consumer.subscribe("T")
        consumer.register_message_listener(inbox)
        with consumer:
            for round_number in range(3):
                bodies = [b"%d/%d" % (round_number, number) for number in range(8)]
                for body in bodies:
                    producer.send(Message("T", body))
                clock.settle(GUARD_S)
                assert sorted(inbox.bodies) == bodies
                inbox.bodies.clear()
                broker.reset()
                assert broker.topics.names() == ["T", "%RETRY%G"]


def test_a_reset_can_be_repeated_and_leaves_no_deadlines_of_before() -> None:
    clock = VirtualClock()
    with EmbeddedBroker(tcp=False, clock=clock) as broker:
        for _ in range(5):
            broker.send("T", b"x", delay=5)
            broker.faults.disk.fail_next_flush()
            broker.reset()
            assert broker.topics.names() == []
            assert clock.next_deadline() is None
        broker.faults.assert_all_used()
        broker.send("T", b"x", delay=5)
        assert clock.advance(5).fired == 1
        assert broker.topics["T"].count() == 1
        assert len(clock._tracks) == 1


def test_files_that_are_no_store_survive_a_reset_and_a_paused_broker_stays_paused(
    tmp_path: Path,
) -> None:
    with EmbeddedBroker(store=tmp_path, tcp=False) as broker:
        (tmp_path / "notes.txt").write_text("mine")
        broker.pause()
        broker.send("T", b"x")
        broker.reset()

        assert (tmp_path / "notes.txt").read_text() == "mine"
        assert not (tmp_path / "consumequeue" / "T").exists()
        assert broker._parts().door.pause.on
        broker.resume()


def test_a_broker_that_does_not_run_cannot_be_reset() -> None:
    with pytest.raises(BrokerStateError, match=r"call start\(\)"):
        EmbeddedBroker(tcp=False).reset()


def test_a_reset_can_begin_time_anew() -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    clock = VirtualClock(start=start)
    with EmbeddedBroker(clock=clock, topics=["T"], tcp=False) as broker:
        for _ in range(2):
            broker.send("T", b"x", delay=60)
            assert broker.timers.next_due() == start + timedelta(minutes=1)
            clock.advance(days=1)
            assert broker.topics["T"].count() == 1
            broker.reset(clock=True)
            assert clock.now() == start
            assert clock.next_deadline() is None
        clock.advance(days=1)
        broker.reset()
        assert clock.now() == start + timedelta(days=1)


def test_time_of_others_does_not_begin_anew() -> None:
    clock = VirtualClock()
    with EmbeddedBroker(clock=clock, topics=["T"], tcp=False) as broker:
        broker.send("T", b"stays")
        with (
            EmbeddedBroker(clock=clock, tcp=False),
            pytest.raises(ClockError, match="1 other brokers live by this clock"),
        ):
            broker.reset(clock=True)
        assert broker.topics["T"].count() == 1
        broker.reset(clock=True)
    with EmbeddedBroker(tcp=False) as broker, pytest.raises(ClockError, match="VirtualClock"):
        broker.reset(clock=True)


def test_a_reset_says_who_is_still_connected(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedBroker(topics=["T"], tcp=False) as broker:
        assert broker.reset() == Connected(consumers={}, producers={})
        assert "still connected" not in caplog.text
        consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
        consumer.subscribe("T")
        consumer.register_message_listener(Inbox())
        with consumer:
            connected = broker.reset()
            assert connected.consumers == {"G": (consumer.client_id,)}
            assert (
                f"still connected and get what is sent from now on: G ({consumer.client_id})"
                in (caplog.text)
            )
        assert broker.reset().consumers == {}


@pytest.mark.parametrize("inproc", [True, False])
def test_what_a_connected_consumer_reads_is_there_at_once_after_a_reset(inproc: bool) -> None:
    inbox, clock = Inbox(), VirtualClock()
    with EmbeddedBroker(clock=clock, inproc=inproc) as broker:
        broker.topics.create("T", queues=2)
        consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
        consumer.subscribe("T")
        consumer.register_message_listener(inbox)
        with consumer:
            clock.settle(GUARD_S)
            broker.reset()
            assert broker.topics["T"].queues == 2
            assert broker.topics["T"].count() == 0
            broker.send("T", b"first")
            # Less than the second that a consumer waits when its topic is gone.
            clock.settle(0.8)
            assert inbox.bodies == [b"first"]
