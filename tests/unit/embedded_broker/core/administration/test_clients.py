"""Dropping the silent and telling the rest, in the corners."""

from __future__ import annotations

from embedded_broker import VirtualClock
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, consumer

G = consumer("g", {"T": "*"})


def test_a_dropped_client_may_come_back_and_is_watched_again(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    broker = start_broker(session_clock=session)
    for _ in range(2):
        peer = connect(broker.addr)
        assert peer.heartbeat("c1", G).code == 0
        session.advance(120)
        assert peer.wait_closed()
    parts = broker._parts()
    with parts.door:
        assert parts.consumers.groups() == []


def test_a_jump_of_the_message_clock_drops_nobody(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(session_clock=VirtualClock())
    peer = connect(broker.addr)
    peer.heartbeat("c1", G)
    broker.clock.advance(days=30)
    answer = peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    assert answer.body == b'{"consumerIdList":["c1"]}'


def test_the_time_out_is_a_setting(start_broker: StartBroker, connect: Connect) -> None:
    session = VirtualClock()
    broker = start_broker(session_clock=session, config={"channelExpiredTimeout": 5000})
    peer = connect(broker.addr)
    peer.heartbeat("c1", G)
    session.advance(5)
    assert peer.wait_closed()


def test_a_group_that_is_gone_by_then_is_not_told_a_second_time(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    broker = start_broker(session_clock=session)
    peer = connect(broker.addr)
    peer.heartbeat("c1", G)
    peer.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c1", "consumerGroup": "g"})
    peer.pushed.clear()
    session.advance(1)
    peer.barrier()
    assert peer.pushed == []


def test_a_broker_may_be_set_to_tell_nobody(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(config={"notifyConsumerIdsChangedEnable": False})
    peer = connect(broker.addr)
    peer.heartbeat("c1", G)
    peer.barrier()
    assert peer.pushed == []
