"""Sends that wait for slaves: what producers hear, by role, profile and what slaves report."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.errors import MQBrokerException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.ha.raw_slave import RawSlave, service_of
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, send_fields

SYNC = {"haListenPort": 0, "brokerRole": "SYNC_MASTER"}
TWO = {**SYNC, "totalReplicas": 2, "inSyncReplicas": 2}


def end_of(broker: EmbeddedBroker) -> int:
    with broker._parts().door:
        return broker._parts().store.log.max_offset


def follow(broker: EmbeddedBroker, slave: RawSlave, offset: int) -> None:
    """Let a slave say that it has the log up to an offset."""
    slave.report(offset)
    service = service_of(broker)
    broker.wait_for(lambda _: service.push_to_slave_max_offset >= offset)


def post(peer: WirePeer) -> int:
    return peer.post(RequestCode.SEND_MESSAGE_V2, send_fields("T"), b"hello")


def is_stored(answer: RemotingCommand) -> bool:
    return "msgId" in answer.ext_fields


@pytest.mark.case("W49")
def test_before_5_0_a_send_without_slaves_is_stored_and_answered_11(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(profile="rocketmq-4.9", config=SYNC, topics=["T"])
    peer = connect(broker.addr)
    answer = peer.send("T")
    assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert is_stored(answer)
    assert peer.send("T", properties={"WAIT": "false"}).code == ResponseCode.SUCCESS


@pytest.mark.case("W49")
@pytest.mark.parametrize(
    ("profile", "config"), [("rocketmq-4.9", SYNC), ("rocketmq-5.x", TWO)], ids=["4.9", "5.x"]
)
def test_a_send_waits_for_its_slave_and_not_longer_than_slaveTimeout(  # noqa: N802
    start_broker: StartBroker, connect: Connect, profile: str, config: dict[str, object]
) -> None:
    session = VirtualClock()
    broker = start_broker(profile=profile, config=config, topics=["T"], session_clock=session)
    peer = connect(broker.addr)
    with RawSlave(broker.ha_addr) as slave:
        follow(broker, slave, 1)
        before = end_of(broker)
        acknowledged = post(peer)
        broker.wait_for(lambda _: end_of(broker) > before)
        assert not peer.has_answer(acknowledged)
        follow(broker, slave, end_of(broker))
        answer = peer.answer(acknowledged)
        assert answer.code == ResponseCode.SUCCESS

        before = end_of(broker)
        late = post(peer)
        broker.wait_for(lambda _: end_of(broker) > before)
        session.advance(3)
        answer = peer.answer(late)
    assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    assert is_stored(answer)


def test_since_5_0_too_few_slaves_refuse_a_send_that_waits(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(config=TWO, topics=["T"])
    peer = connect(broker.addr)
    answer = peer.send("T")
    assert (answer.code, answer.remark) == (1, "in-sync replicas not enough")
    assert not is_stored(answer)
    assert peer.send("T", properties={"WAIT": "false"}).code == ResponseCode.SUCCESS
    broker.config.update(enableAutoInSyncReplicas=True)
    assert peer.send("T").code == ResponseCode.SUCCESS
    broker.config.update(minInSyncReplicas=2)
    assert peer.send("T").code == ResponseCode.SYSTEM_ERROR


def test_since_5_0_one_replica_is_the_master_itself(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(config={"brokerRole": "SYNC_MASTER"}, topics=["T"])
    assert connect(broker.addr).send("T").code == ResponseCode.SUCCESS


def test_a_slave_that_is_far_behind_is_none(start_broker: StartBroker, connect: Connect) -> None:
    config = {**TWO, "haMaxGapNotInSync": 300}
    broker = start_broker(config=config, topics=["T"])
    peer = connect(broker.addr)
    with RawSlave(broker.ha_addr) as slave:
        follow(broker, slave, 1)
        for _ in range(3):
            peer.send("T", properties={"WAIT": "false"})
        assert peer.send("T").code == ResponseCode.SYSTEM_ERROR


def test_what_a_test_sends_hears_of_slow_slaves_too(start_broker: StartBroker) -> None:
    broker = start_broker(profile="rocketmq-4.9", config=SYNC, topics=["T"])
    with pytest.raises(MQBrokerException) as raised:
        broker.send("T", b"x")
    assert raised.value.response_code == ResponseCode.SLAVE_NOT_AVAILABLE


def test_disk_and_slaves_are_waited_for_together(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    config = {**TWO, "flushDiskType": "SYNC_FLUSH"}
    broker = start_broker(config=config, topics=["T"], session_clock=session)
    peer = connect(broker.addr)
    parts = broker._parts()
    with RawSlave(broker.ha_addr) as slave:
        follow(broker, slave, 1)
        sent = post(peer)
        broker.wait_for(lambda _: parts.store.flushed_offset == end_of(broker) > 0)
        assert not peer.has_answer(sent)
        follow(broker, slave, end_of(broker))
        assert peer.answer(sent).code == ResponseCode.SUCCESS
