"""A broker that dies as a killed process does, and what opening its store again reports."""

from collections.abc import Callable
from pathlib import Path

import pytest

from embedded_broker import BrokerStateError, EmbeddedBroker, RecoveryReport, VirtualClock
from embedded_broker.api.cluster import EmbeddedCluster
from rocketmq_py import DefaultMQProducer, Message
from tests.unit.embedded_broker.peers import RawClient

GUARD_S = 30.0


@pytest.mark.case("K12")
def test_every_acknowledged_message_is_there_after_a_crash_on_the_same_ports(
    tmp_path: Path, dial: Callable[[str], RawClient]
) -> None:
    clock = VirtualClock()
    with EmbeddedBroker(store=tmp_path, clock=clock, topics=["T"]) as broker:
        addresses = (broker.namesrv_addr, broker.addr)
        client = dial(broker.addr)
        with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
            sent = [f"message {number}".encode() for number in range(50)]
            for body in sent:
                producer.send(Message("T", body))
            producer.send(Message("T", b"timer", properties={"TIMER_DELAY_MS": "60000"}))
            broker.topics.create("Other", queues=7)

            broker.crash()

            assert not broker.is_running
            assert client.closed_by_server()
            with pytest.raises(BrokerStateError, match=r"call start\(\)"):
                broker.topics.names()
            report = broker.restart()

        assert isinstance(report, RecoveryReport)
        assert not report.clean
        assert report.records_read == 51
        assert (report.truncated_bytes, report.entries_dropped) == (0, 0)
        assert report.timers_pending == 1
        assert (broker.namesrv_addr, broker.addr) == addresses
        assert dial(broker.addr).ask(9999).code == 3
        assert sorted(one.body for one in broker.messages.in_topic("T")) == sorted(sent)
        clock.advance(60)
        assert broker.messages.in_topic("T")[-1].body == b"timer"
        assert broker.restart().clean


def test_a_crash_resets_connections_where_a_close_ends_them(
    dial: Callable[[str], RawClient],
) -> None:
    with EmbeddedBroker() as broker:
        client = dial(broker.addr)
        assert client.ask(9999).code == 3
        broker.crash()
        with pytest.raises(ConnectionResetError):
            client.socket.recv(1)

        broker.start()
        client = dial(broker.addr)
        assert client.ask(9999).code == 3
        broker.close()
        assert client.socket.recv(1) == b""


def test_what_was_not_written_is_gone_but_the_file_system_stays() -> None:
    with EmbeddedBroker(tcp=False, config={"flushConsumerOffsetInterval": 3_600_000}) as broker:
        broker.send("T", b"kept")
        parts = broker._parts()
        with parts.door:
            parts.offsets.commit("G", "T", 0, 1)

        broker.crash()
        broker.restart()

        assert [one.body for one in broker.messages.in_topic("T")] == [b"kept"]
        assert broker._parts().offsets.query("G", "T", 0) == -1


def test_a_topic_made_by_a_send_keeps_its_queues_when_the_broker_dies_at_once() -> None:
    with EmbeddedBroker(tcp=False) as broker:
        broker.send("T", b"in the first queue", queue=0)
        queues = broker.topics["T"].queues
        broker.crash()
        broker.restart()
        assert broker.topics["T"].queues == queues > 1


def test_a_broker_that_does_not_run_cannot_crash_and_leaving_the_block_is_no_error() -> None:
    broker = EmbeddedBroker(tcp=False)
    with pytest.raises(BrokerStateError, match=r"call start\(\)"):
        broker.crash()
    with broker:
        broker.crash()
    assert not broker.is_running


def test_crashes_leave_no_deadlines_behind_on_a_shared_clock() -> None:
    clock = VirtualClock()
    with EmbeddedBroker(tcp=False, clock=clock) as broker:
        for _ in range(3):
            broker.send("T", b"x", delay=5)
            broker.crash()
            broker.restart()
        assert clock.advance(5).fired == 3
        assert len(clock._tracks) == 1
        assert len(clock.residents()) == 1
    assert clock.residents() == []


def test_all_brokers_of_a_cluster_die_together() -> None:
    with EmbeddedCluster(brokers=2, tcp=False) as cluster:
        first, second = cluster.brokers
        for broker in (first, second):
            broker.send("T", broker.broker_name.encode())
        first.crash()
        assert not second.is_running
        cluster.start()
        assert [one.body for one in second.messages.in_topic("T")] == [b"broker-b"]
