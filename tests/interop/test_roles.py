"""A real 5.3.3 slave follows our master, and ours a real one; each serves when that is gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from queue import Queue

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster
from embedded_broker.kit.process import Servers, servers
from embedded_broker.kit.real import wait_until
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
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint, TimerCounts
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.lenient_json import loads_lenient
from tests.interop.java_tools import CACHE
from tests.interop.real_broker import real_cluster
from tests.unit.embedded_broker.wire_peer import WirePeer, consumer
from tests.waiting import HANG_S

CLOCK = SystemClock()
TOPIC, GROUP = "Followed", "G_followed"
MESSAGES = 200
eventually = partial(wait_until, timeout=HANG_S)
SIZES = {"mappedFileSizeCommitLog": 67_108_864, "mappedFileSizeConsumeQueue": 600_000}
SLAVE = {
    "brokerRole": "SLAVE",
    "brokerId": "1",
    "brokerName": "broker-a",
    "slaveReadEnable": "true",
}


def log_end(address: str) -> int:
    """The end of a broker's commit log; -1 while it does not answer yet."""
    with WirePeer(address) as peer:
        answer = peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    if answer.code != ResponseCode.SUCCESS:
        return -1
    return int(loads_lenient(answer.body)["table"]["commitLogMaxOffset"])


def fill(cluster: EmbeddedCluster) -> None:
    """Put all that a slave takes over into the master."""
    master = cluster["broker-a"]
    with WirePeer(master.addr) as peer:
        peer.create_topic(TOPIC, queues=4)
        peer.heartbeat("c1", consumer(GROUP, {TOPIC: "*"}))
        committed = peer.ask(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "2", "commitOffset": "7"},
        )
        assert committed.code == ResponseCode.SUCCESS
    with DefaultMQProducer("P_followed", namesrv_addr=cluster.namesrv_addr) as producer:
        for number in range(MESSAGES):
            producer.send(Message(TOPIC, b"%d" % number, tags="t", keys=f"k{number}"))
        producer.send(Message(TOPIC, b"timer").set_delay_time_sec(3600))
        producer.send(Message(TOPIC, b"level").set_delay_time_level(1))
    eventually(
        lambda: len(master.messages.in_topic(TOPIC)) == MESSAGES + 1, "the level is delivered"
    )


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Our master, and another broker that keeps the name server there."""
    config = {**SIZES, "haListenPort": 0}
    with EmbeddedCluster(brokers=1, config=config) as made:
        yield made


@pytest.fixture
def slave(cluster: EmbeddedCluster, tmp_path: Path) -> Iterator[Servers]:
    """A real slave that has everything the master has."""
    fill(cluster)
    cluster.add("broker-b")
    with servers(
        tmp_path, "5.3.3", settings=SLAVE, cache=CACHE, beside=cluster.namesrv_addr, politely=False
    ) as made:
        master = cluster["broker-a"]
        eventually(lambda: log_end(made.broker_addr) == log_end(master.addr), "the log follows")
        eventually(lambda: not differences(master, made), f"tables: {differences(master, made)}")
        yield made


def table(address: str, code: int) -> object:
    """What a broker answers, without the parts that are each broker's own."""
    with WirePeer(address) as peer:
        answer = peer.ask(code)
    if answer.code != ResponseCode.SUCCESS:
        return answer.remark
    if code == RequestCode.GET_TIMER_CHECK_POINT:
        return TimerCheckpoint.decode(answer.body).master_timer_queue_offset
    if code == RequestCode.GET_TIMER_METRICS:
        counts = TimerCounts.decode(answer.body).timing_count
        return {name: count.count for name, count in counts.items()}
    document = loads_lenient(answer.body)
    if code == RequestCode.GET_ALL_TOPIC_CONFIG:
        return set(document["topicConfigTable"])
    if code == RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
        return set(document["subscriptionGroupTable"])
    return document.get("offsetTable", document)


TABLES = (
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_TIMER_CHECK_POINT,
    RequestCode.GET_TIMER_METRICS,
)


def differences(master: EmbeddedBroker, slave: Servers) -> dict[int, tuple[object, object]]:
    """The tables of a slave that are not those of its master."""
    both = {
        int(code): (table(master.addr, code), table(slave.broker_addr, code)) for code in TABLES
    }
    return {code: pair for code, pair in both.items() if pair[0] != pair[1]}


def read_all(namesrv_addr: str, count: int) -> list[bytes]:
    """What a new group reads of the topic, sorted."""
    got: Queue[bytes] = Queue()

    def take(
        messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            got.put(bytes(message.body))
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    reader = DefaultMQPushConsumer("G_reader", namesrv_addr=namesrv_addr)
    reader.consume_from_where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    reader.subscribe(TOPIC, "*")
    reader.register_message_listener(take)
    with reader:
        return sorted(got.get(timeout=HANG_S) for _ in range(count))


def test_a_real_slave_follows_and_serves_what_it_has_when_the_master_is_gone(
    cluster: EmbeddedCluster, slave: Servers
) -> None:
    wanted = sorted(one.body for one in cluster["broker-a"].messages.in_topic(TOPIC))
    cluster.stop("broker-a")
    assert read_all(cluster.namesrv_addr, len(wanted)) == wanted
    with WirePeer(slave.broker_addr) as peer:
        refused = peer.send(TOPIC, b"to a slave")
    assert refused.code == ResponseCode.SYSTEM_BUSY
    assert (refused.remark or "").startswith("[REJECTREQUEST]system busy")


def test_our_slave_follows_a_real_master_and_serves_what_it_has_when_that_is_gone(
    tmp_path: Path,
) -> None:
    with real_cluster(tmp_path) as master:
        with WirePeer(master.broker_addr) as peer:
            peer.create_topic(TOPIC, queues=4)
        with EmbeddedBroker(
            config={
                **SIZES,
                "brokerRole": "SLAVE",
                "brokerId": 1,
                "slaveReadEnable": True,
                "namesrvAddr": master.namesrv_addr,
            }
        ) as ours:
            with DefaultMQProducer("P_real", namesrv_addr=master.namesrv_addr) as producer:
                for number in range(MESSAGES):
                    producer.send(Message(TOPIC, b"%d" % number, keys=f"k{number}"))
                producer.send(Message(TOPIC, b"timer").set_delay_time_sec(2))
                producer.send(Message(TOPIC, b"level").set_delay_time_level(1))
            wanted = sorted([b"%d" % number for number in range(MESSAGES)] + [b"timer", b"level"])

            def has_all() -> bool:
                ends = log_end(master.broker_addr) == log_end(ours.addr)
                return ends and TOPIC in ours.topics and len(ours.messages.in_topic(TOPIC)) == 202

            eventually(has_all, "our slave has what the master has")
            assert [one.body for one in ours.messages.by_key(TOPIC, "k7")] == [b"7"]
            os.kill(master.broker_pid, signal.SIGKILL)
            assert read_all(master.namesrv_addr, len(wanted)) == wanted


def test_a_real_slave_acts_as_master_for_what_is_due_and_puts_it_on_our_other_broker(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    master = cluster["broker-a"]
    acting = {**SLAVE, "enableSlaveActingMaster": "true", "enableRemoteEscape": "true"}
    with WirePeer(master.addr) as peer:
        peer.create_topic(TOPIC, queues=4)
    with servers(
        tmp_path, "5.3.3", settings=acting, cache=CACHE, beside=cluster.namesrv_addr, politely=False
    ) as slave:
        other = cluster.add("broker-b")
        with WirePeer(other.addr) as peer:
            peer.create_topic(TOPIC, queues=4)
        with DefaultMQProducer("P_due", namesrv_addr=cluster.namesrv_addr) as producer:
            queues = producer.fetch_publish_message_queues(TOPIC)
            (queue, *_) = [one for one in queues if one.broker_name == "broker-a"]
            due_ms = CLOCK.now_ms + 45_000
            timer = Message(TOPIC, b"timer").set_deliver_time_ms(due_ms)
            producer.send(timer, queue=queue)
            producer.send(Message(TOPIC, b"level").set_delay_time_level(5), queue=queue)

        def follows() -> bool:
            checkpoints = [
                table(address, RequestCode.GET_TIMER_CHECK_POINT)
                for address in (master.addr, slave.broker_addr)
            ]
            is_there = log_end(slave.broker_addr) == log_end(master.addr)
            return is_there and checkpoints == [1, 1]

        eventually(follows, "the slave has both, and knows how far the wheel is")
        assert CLOCK.now_ms < due_ms, "the machine is too slow for this test"
        cluster.stop("broker-a")
        eventually(lambda: len(other.messages.in_topic(TOPIC)) == 2, "both are delivered")
        found = {one.body: one for one in other.messages.in_topic(TOPIC)}
    assert found.keys() == {b"timer", b"level"}
    assert int(found[b"timer"].stored_at.timestamp() * 1000) >= due_ms
