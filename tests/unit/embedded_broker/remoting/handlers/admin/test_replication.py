"""Requests 906 and 907: where a master is followed, and how far its slaves are."""

from __future__ import annotations

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.bodies.replication import HARuntimeInfo
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.ha.raw_slave import RawSlave, service_of
from tests.unit.embedded_broker.wire_peer import Connect


def status(connect: Connect, broker: EmbeddedBroker) -> HARuntimeInfo:
    return HARuntimeInfo.decode(connect(broker.addr).ask(RequestCode.GET_BROKER_HA_STATUS).body)


def test_a_master_tells_where_it_is_followed(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(config={"haListenPort": 0})
    answer = connect(broker.addr).ask(RequestCode.EXCHANGE_BROKER_HA_INFO)
    assert answer.ext_fields == {
        "masterHaAddress": broker.ha_addr,
        "masterFlushOffset": "0",
        "masterAddress": broker.addr,
    }


def test_a_master_tells_how_far_each_slave_is(start_broker: StartBroker, connect: Connect) -> None:
    session = VirtualClock()
    config = {"haListenPort": 0, "haMaxGapNotInSync": 200}
    broker = start_broker(config=config, topics=["T"], session_clock=session)
    assert status(connect, broker).ha_connection_info == []
    broker.send("T", b"x" * 100)
    end = status(connect, broker).master_commit_log_max_offset
    with RawSlave(broker.ha_addr) as slave:
        service = service_of(broker)
        slave.report(1)
        assert slave.read_to(end)
        broker.wait_for(lambda _: service.push_to_slave_max_offset == 1)
        session.advance(1)
        (told,) = status(connect, broker).ha_connection_info
        assert (told.slave_ack_offset, told.diff, told.in_sync) == (1, end - 1, False)
        assert (told.transfer_from_where, told.transferred_byte_in_second) == (end, end - 1)
        slave.report(end)
        broker.wait_for(lambda _: service.push_to_slave_max_offset == end)
        found = status(connect, broker)
        (told,) = found.ha_connection_info
        assert (told.diff, told.in_sync, found.in_sync_slave_nums) == (0, True, 1)
        assert found.master


def test_a_slave_tells_of_itself(start_broker: StartBroker, connect: Connect) -> None:
    master = start_broker(config={"haListenPort": 0}, topics=["T"])
    master.send("T", b"x")
    config = {"brokerRole": "SLAVE", "brokerId": 1, "namesrvAddr": master.namesrv_addr}
    slave = start_broker(config=config)
    end = status(connect, master).master_commit_log_max_offset
    slave.wait_for(lambda _: slave._parts().store.log.max_offset == end)
    found = status(connect, slave)
    assert not found.master
    assert found.ha_client_runtime_info.master_addr == master.ha_addr
    assert found.ha_client_runtime_info.max_offset == end
    answer = connect(slave.addr).ask(RequestCode.EXCHANGE_BROKER_HA_INFO)
    assert "masterAddress" not in answer.ext_fields
