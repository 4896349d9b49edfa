"""Our broker as a slave of ours: what it takes over, what it serves and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.lifecycle.slave import REJECTED
from embedded_broker.timer.wheel.engine import TimerMessageStore
from rocketmq_py.errors import ConfigError, MQBrokerException
from rocketmq_py.protocol.bodies.topics import ClusterInfo
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.ha.raw_slave import service_of
from tests.unit.embedded_broker.wire_peer import Connect, bodies, consumer, pull_fields

FILES = {"mappedFileSizeCommitLog": 4096, "haTransferBatchSize": 100}
Slave = Callable[..., EmbeddedBroker]


@pytest.fixture
def master(start_broker: StartBroker) -> EmbeddedBroker:
    return start_broker(config={**FILES, "haListenPort": 0}, topics=["T"])


@pytest.fixture
def start_slave(start_broker: StartBroker, master: EmbeddedBroker) -> Slave:
    def start(**arguments: Any) -> EmbeddedBroker:
        more = arguments.pop("config", {})
        config = {
            **FILES,
            "brokerRole": "SLAVE",
            "brokerId": 1,
            "slaveReadEnable": True,
            "namesrvAddr": master.namesrv_addr,
            **more,
        }
        return start_broker(config=config, **arguments)

    return start


def log_end(broker: EmbeddedBroker) -> int:
    with broker._parts().door:
        return broker._parts().store.log.max_offset


def wait_for_log(master: EmbeddedBroker, slave: EmbeddedBroker) -> None:
    end = log_end(master)
    slave.wait_for(lambda _: slave._parts().store.log.max_offset == end)


def log_bytes(broker: EmbeddedBroker) -> bytes:
    with broker._parts().door:
        files = broker._parts().store.log.files
        parts = files.chunks(files.min_offset, files.max_offset, with_zeros=True)
        return b"".join(bytes(part) for _, part in parts)


def entries(broker: EmbeddedBroker) -> dict[tuple[str, int], list[tuple[int, Any]]]:
    with broker._parts().door:
        queues = broker._parts().store.queues
        return {key: list(queue.iterate(0)) for key, queue in queues.items()}


def test_a_slave_has_the_masters_log_and_queues_byte_for_byte(
    master: EmbeddedBroker, start_slave: Slave
) -> None:
    slave = start_slave()
    master.wait_for(lambda _: any(one.next_offset == 0 for one in service_of(master).slaves))
    for number in range(60):
        master.send("T", b"%d" % number * 10, tags="a", keys=f"k{number}")
    assert log_end(master) > 2 * 4096
    wait_for_log(master, slave)
    assert log_bytes(slave) == log_bytes(master)
    assert entries(slave) == entries(master)
    found = slave._parts().queries.with_key("T", "k7")
    assert [record.body for record in found] == [b"7" * 10]


def test_a_slave_serves_pulls_also_those_that_wait(
    master: EmbeddedBroker, start_slave: Slave, connect: Connect
) -> None:
    slave = start_slave()
    slave.wait_for(lambda _: "T" in slave._parts().tables.topics)
    peer = connect(slave.addr)
    peer.heartbeat("c1")
    fields = {"sysFlag": "6", "suspendTimeoutMillis": "15000", "queueId": "0"}
    master.send("T", b"first", queue=0)
    wait_for_log(master, slave)
    assert bodies(peer.pull("T", 0, queueId="0")) == [b"first"]
    waiting = peer.post(RequestCode.PULL_MESSAGE, pull_fields("T", 1, **fields))
    master.send("T", b"second", queue=0)
    assert bodies(peer.answer(waiting)) == [b"second"]


def test_a_slave_refuses_sends_as_the_original_and_pulls_unless_slaveReadEnable(  # noqa: N802
    start_slave: Slave, connect: Connect
) -> None:
    slave = start_slave(config={"slaveReadEnable": False})
    slave.wait_for(lambda _: "T" in slave._parts().tables.topics)
    peer = connect(slave.addr)
    for answer in (peer.send("T"), peer.pull("T")):
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, REJECTED)
    slave.config.update(slaveReadEnable=True)
    assert peer.pull("T").code != ResponseCode.SYSTEM_BUSY


def test_a_slave_stands_in_the_routes_of_its_masters_name_server_until_it_ends(
    master: EmbeddedBroker, start_slave: Slave, connect: Connect
) -> None:
    slave = start_slave()
    address = slave.addr
    peer = connect(master.namesrv_addr)

    def registered() -> dict[int, str]:
        body = peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body
        return ClusterInfo.decode(body).broker_addr_table["broker-a"].broker_addrs

    master.wait_for(lambda _: bool(registered().get(1)))
    assert registered() == {0: master.addr, 1: address}
    slave.close()
    assert registered() == {0: master.addr}


def test_a_slave_takes_over_topics_groups_and_offsets(
    master: EmbeddedBroker, start_slave: Slave, connect: Connect
) -> None:
    peer = connect(master.addr)
    peer.create_topic("Later", queues=3, perm=4)
    peer.heartbeat("c1", consumer("G", {"T": "*"}))
    commit = {"consumerGroup": "G", "topic": "T", "queueId": "1", "commitOffset": "5"}
    assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit).code == ResponseCode.SUCCESS
    slave = start_slave()
    parts = slave._parts()
    slave.wait_for(lambda _: parts.tables.offsets.query("G", "T", 1) == 5)
    topic = parts.tables.topics.get("Later")
    assert topic is not None
    assert (topic.read_queue_nums, topic.perm) == (3, 4)
    assert parts.tables.topics.data_version() == master._parts().tables.topics.data_version()
    slave.wait_for(lambda _: "G" in parts.tables.groups)
    assert parts.tables.groups.data_version() == master._parts().tables.groups.data_version()


def entered(broker: EmbeddedBroker) -> int:
    """How many messages of the timer topic entered the wheel."""
    timers = broker._parts().timers
    assert isinstance(timers, TimerMessageStore)
    return timers._state.curr_queue_offset


def test_a_slave_fills_its_wheel_and_delivers_nothing(
    master: EmbeddedBroker, start_slave: Slave
) -> None:
    clock = VirtualClock()
    slave = start_slave(clock=clock)
    master.send("T", b"timer", delay=timedelta(seconds=5))
    master.send("T", b"level", delay_level=1)
    wait_for_log(master, slave)
    master._parts().flush_everything()
    slave.wait_for(lambda _: entered(slave) == 1)
    clock.advance(60)
    assert log_end(slave) == log_end(master)
    # Nothing was tried: an attempt would have been refused, and be tried again and again.
    assert not slave._parts().timers.retry.is_on
    assert slave._parts().levels._retries == {}
    assert slave.messages.in_topic("T") == []
    master.clock.advance(60)
    wait_for_log(master, slave)
    assert sorted(one.body for one in slave.messages.in_topic("T")) == [b"level", b"timer"]


def test_a_slave_goes_on_after_a_restart_and_after_a_crash(
    master: EmbeddedBroker, start_slave: Slave, tmp_path: Path
) -> None:
    slave = start_slave(store=tmp_path / "slave")
    for crash in (False, True):
        master.send("T", b"x" * 50)
        wait_for_log(master, slave)
        slave.restart(crash=crash)
        master.send("T", b"y" * 50)
        wait_for_log(master, slave)
    assert log_bytes(slave) == log_bytes(master)
    assert entries(slave) == entries(master)


def test_a_new_slave_of_an_old_master_begins_with_its_last_file(
    master: EmbeddedBroker, start_slave: Slave, tmp_path: Path
) -> None:
    for number in range(60):
        master.send("T", b"%d" % number * 10)
    slave = start_slave(store=tmp_path / "slave")
    wait_for_log(master, slave)
    begin = slave._parts().store.log.min_offset
    assert begin == log_end(master) // 4096 * 4096
    slave.restart()
    master.send("T", b"more")
    wait_for_log(master, slave)
    assert slave._parts().store.log.min_offset == begin
    last = slave.messages.in_topic("T")[-1]
    assert last.body == b"more"


def test_what_a_slave_has_is_delivered_by_it_as_a_master(
    master: EmbeddedBroker, start_slave: Slave, start_broker: StartBroker, tmp_path: Path
) -> None:
    slave = start_slave(store=tmp_path / "slave")
    master.send("T", b"soon", delay=timedelta(seconds=5))
    master.send("T", b"late", delay=timedelta(seconds=50))
    master.clock.advance(10)
    wait_for_log(master, slave)
    slave.close()
    master.close()
    clock = VirtualClock()
    heir = start_broker(store=tmp_path / "slave", config=FILES, clock=clock)
    clock.advance(100)
    assert [one.body for one in heir.messages.in_topic("T")] == [b"soon", b"late"]


@pytest.mark.parametrize(
    ("setting", "changes"),
    [
        ("brokerId", {"brokerId": 0}),
        ("namesrvAddr", {"namesrvAddr": ""}),
        ("timerEngine", {"timerEngine": "sliced"}),
        ("brokerId", {"brokerRole": "ASYNC_MASTER"}),
    ],
)
def test_a_slave_that_could_not_be_one_is_refused(setting: str, changes: dict[str, Any]) -> None:
    config = {"brokerRole": "SLAVE", "brokerId": 1, "namesrvAddr": "127.0.0.1:9876", **changes}
    with pytest.raises(ConfigError, match=setting):
        EmbeddedBroker(config=config)


def suggested(connect: Connect, broker: EmbeddedBroker) -> str:
    return connect(broker.addr).pull("T", maxMsgNums="1").ext_fields["suggestWhichBrokerId"]


def test_a_reader_far_behind_is_sent_to_a_slave_if_slaves_are_read(
    start_broker: StartBroker, connect: Connect
) -> None:
    master = start_broker(topics=["T"])
    with connect(master.addr) as peer:
        peer.heartbeat("c1")
    for number in range(3):
        master.send("T", b"%d" % number, queue=0)
    told = [suggested(connect, master)]
    for changes in (
        {"slaveReadEnable": True},
        {"accessMessageInMemoryMaxRatio": 0},
        {"slaveReadEnable": False},
    ):
        master.config.update(**changes)
        told.append(suggested(connect, master))
    assert told == ["0", "0", "1", "0"]


def test_what_a_test_sends_to_a_slave_is_refused_too(start_slave: Slave) -> None:
    slave = start_slave()
    slave.wait_for(lambda _: "T" in slave._parts().tables.topics)
    with pytest.raises(MQBrokerException, match="is a slave") as raised:
        slave.send("T", b"x")
    assert raised.value.response_code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_a_slave_asks_nobody_about_open_transactions(
    master: EmbeddedBroker, start_slave: Slave, connect: Connect
) -> None:
    clock = VirtualClock()
    slave = start_slave(clock=clock)
    half = {"TRAN_MSG": "true", "PGROUP": "producers"}
    assert connect(master.addr).send("T", properties=half, f="4").code == ResponseCode.SUCCESS
    wait_for_log(master, slave)
    asked = {}
    for name, broker in (("master", master), ("slave", slave)):
        peer = connect(broker.addr)
        peer.heartbeat("p", producers=["producers"])
        broker.clock.advance(120)
        peer.barrier()
        asked[name] = len(peer.pushed) > 0
    assert asked == {"master": True, "slave": False}
