"""Connections that nobody uses are closed after 120 s of session time, as the original does it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.codes import PullSysFlag, RequestCode, ResponseCode
from tests.unit.embedded_broker.peers import Peer, RawClient
from tests.unit.embedded_broker.wire_peer import Connect, pull_fields

StartBroker = Callable[..., EmbeddedBroker]
IDLE_S = 120


@pytest.fixture
def session() -> VirtualClock:
    return VirtualClock()


@pytest.mark.case("W18")
@pytest.mark.parametrize("address", ["addr", "namesrv_addr"])
def test_a_connection_is_closed_after_120_idle_seconds_and_the_others_stay(
    start_broker: StartBroker, session: VirtualClock, connect: Connect, address: str
) -> None:
    broker = start_broker(session_clock=session)
    silent, idle, used = (connect(getattr(broker, address)) for _ in range(3))
    idle.barrier()
    session.advance(seconds=IDLE_S - 0.001)
    used.barrier()
    session.advance(seconds=0.001)
    assert silent.wait_closed()
    assert idle.wait_closed()
    used.barrier()
    session.advance(seconds=IDLE_S)
    assert used.wait_closed()


def test_an_answer_that_comes_late_is_a_use(
    start_broker: StartBroker, session: VirtualClock, connect: Connect
) -> None:
    broker = start_broker(session_clock=session, topics=["T"])
    parked = connect(broker.addr)
    flags = str(int(PullSysFlag.SUBSCRIPTION | PullSysFlag.SUSPEND))
    fields = pull_fields("T", sysFlag=flags, suspendTimeoutMillis="110000")
    opaque = parked.post(RequestCode.PULL_MESSAGE, fields)
    assert not parked.has_answer(opaque)
    session.advance(110)
    assert parked.answer(opaque).code == ResponseCode.PULL_NOT_FOUND
    session.advance(119)
    parked.barrier()


def test_a_notice_of_the_broker_is_a_use(
    start_broker: StartBroker, session: VirtualClock, connect: Connect
) -> None:
    broker = start_broker(session_clock=session, config={"channelExpiredTimeout": 1_000_000})
    told, other = connect(broker.addr), connect(broker.addr)
    member = {"groupName": "g", "consumeType": "CONSUME_PASSIVELY"}
    told.heartbeat("c1", member)
    session.advance(100)
    other.heartbeat("c2", member)
    told.pushed.clear()
    assert told.push().code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    session.advance(100)
    told.barrier()


def test_bytes_that_are_no_whole_frame_are_no_use(
    start_broker: StartBroker, session: VirtualClock, connect: Connect
) -> None:
    broker = start_broker(session_clock=session)
    slow = connect(broker.addr)
    slow.barrier()
    session.advance(100)
    slow.write(b"\0\0\1\0")
    connect(broker.addr).barrier()
    session.advance(20)
    assert slow.wait_closed()


def test_another_limit_can_be_set(
    start_broker: StartBroker, session: VirtualClock, connect: Connect
) -> None:
    config = {"serverChannelMaxIdleTimeSeconds": 5}
    peer = connect(start_broker(session_clock=session, config=config).addr)
    peer.barrier()
    session.advance(5)
    assert peer.wait_closed()


def test_without_a_limit_connections_are_idle_for_ever(
    start_broker: StartBroker, session: VirtualClock, connect: Connect
) -> None:
    config = {"serverChannelMaxIdleTimeSeconds": 0}
    broker = start_broker(session_clock=session, config=config)
    peer = connect(broker.addr)
    peer.barrier()
    connections = list(broker._parts().endpoint.connections)
    assert [one.remote[1] for one in connections] == [peer.port]
    session.advance(days=1)
    peer.barrier()
    assert list(broker._parts().endpoint.connections) == connections


def test_who_is_new_after_all_were_closed_is_watched_too(
    start_broker: StartBroker, session: VirtualClock, dial: Callable[[str], RawClient]
) -> None:
    broker = start_broker(session_clock=session)
    endpoint = broker._parts().endpoint
    for _ in range(2):
        client = dial(broker.addr)
        broker.wait_for(lambda _: len(endpoint.connections) == 1)
        session.advance(IDLE_S)
        assert client.closed_by_server()
        broker.wait_for(lambda _: not endpoint.connections)


def test_a_reset_that_sets_the_time_back_forgets_nobody(
    start_broker: StartBroker, session: VirtualClock, connect: Connect
) -> None:
    broker = start_broker(clock=session, session_clock=session)
    peer = connect(broker.addr)
    session.advance(seconds=50)
    peer.barrier()
    broker.reset(clock=True)
    session.advance(seconds=IDLE_S - 1)
    peer.barrier()
    session.advance(seconds=IDLE_S)
    assert peer.wait_closed()


def test_a_client_of_this_process_may_be_idle_for_ever(
    start_broker: StartBroker, session: VirtualClock, connect: Connect
) -> None:
    broker = start_broker(session_clock=session, topics=["T"])
    idle = connect(broker.addr)
    idle.barrier()
    inside = Peer()
    parts = broker._parts()
    parts.endpoint.connected(inside)
    session.advance(seconds=IDLE_S + 1)
    assert idle.wait_closed()
    assert not inside.closed
