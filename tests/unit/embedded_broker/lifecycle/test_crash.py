"""A broker that dies as a killed process does, and what opening its store again reports."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

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
            parts.tables.offsets.commit("G", "T", 0, 1)

        broker.crash()
        broker.restart()

        assert [one.body for one in broker.messages.in_topic("T")] == [b"kept"]
        assert broker._parts().tables.offsets.query("G", "T", 0) == -1


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


SLOW_FLUSH = {
    "flushIntervalCommitLog": 60_000,
    "timerFlushIntervalMs": 60_000,
    "flushDelayOffsetInterval": 60_000,
}


@pytest.mark.parametrize("in_directory", [False, True])
@pytest.mark.parametrize("engine", ["wheel", "sliced"])
def test_the_report_after_a_power_loss_counts_what_is_gone(
    tmp_path: Path, in_directory: bool, engine: Literal["wheel", "sliced"]
) -> None:
    store = tmp_path if in_directory else None
    clock = VirtualClock()
    with EmbeddedBroker(
        store=store, clock=clock, tcp=False, topics=["T"], config=SLOW_FLUSH, engine=engine
    ) as broker:
        broker.send("T", b"safe", delay=120)
        broker.send("T", b"level", delay_level=1)
        broker.restart()
        clock.advance(5)
        for body in (b"1", b"2"):
            broker.send("T", body)
        for delay in (60, 70, 80):
            broker.send("T", b"timer", delay=delay)
        recalled = broker.send("T", b"recalled", delay=90)
        broker.timers.recall(recalled)

        broker.crash()
        report = broker.restart()
        assert (report.messages_lost, report.timers_lost) == (0, 0)

        broker.send("T", b"3")
        for delay in (100, 110):
            broker.send("T", b"timer", delay=delay)
        broker.send("T", b"level", delay_level=9)
        before = broker.timers.count()
        broker.faults.disk.lose_unsynced()
        broker.crash()
        report = broker.restart()

        assert (report.messages_lost, report.timers_lost) == (1, 3)
        assert broker.timers.count() == before - 3
        assert broker.restart().timers_lost == 0


def test_what_is_released_once_more_is_not_lost() -> None:
    clock = VirtualClock()
    with EmbeddedBroker(clock=clock, tcp=False, topics=["T"], config=SLOW_FLUSH) as broker:
        broker.send("T", b"timer", delay=60)
        broker.send("T", b"level", delay_level=5)
        broker.restart()
        clock.advance(60)
        broker.wait_delivered("T", 2, timeout=GUARD_S)
        broker.faults.disk.lose_unsynced()
        broker.crash()

        report = broker.restart()

        assert (report.messages_lost, report.timers_lost) == (0, 0)
        broker.wait_delivered("T", 2, timeout=GUARD_S)


KILLED = """
import os, signal, sys
from embedded_broker import EmbeddedBroker, TopicSpec, VirtualClock

clock = VirtualClock()
topics = ["T", TopicSpec("Two", queues=2)]
broker = EmbeddedBroker(store=sys.argv[1], clock=clock, topics=topics, tcp=False).start()
if sys.argv[2] == "advanced":
    clock.advance(30)
print(clock.now_ms, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("life", ["started", "advanced"])
def test_topics_and_the_time_of_a_process_that_was_killed_come_back(
    tmp_path: Path, life: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), life],
        capture_output=True,
        text=True,
        check=False,
        timeout=GUARD_S,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr

    with EmbeddedBroker(store=tmp_path, clock=VirtualClock(), tcp=False) as broker:
        assert [broker.topics[name].queues for name in ("T", "Two")] == [4, 2]
        assert not broker.recovery.clean
        assert not [one for one in broker.recovery.problems if "topic" in one]
        if life == "advanced":
            assert broker.clock.now_ms == int(done.stdout)
