"""Requests of the broker to its clients on the wire, and the answers of those that give one."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.core.client_calls import Answer, ClientCalls, End, GroupChanged
from rocketmq_py.protocol.codes import FLAG_ONEWAY, FLAG_RESPONSE, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.core.transactions.prepared import send_half
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, consumer

GROUP = "g"


def calls_of(broker: EmbeddedBroker) -> ClientCalls:
    return broker._parts().calls


def ends(broker: EmbeddedBroker) -> dict[End, int]:
    with broker._parts().door:
        return dict(calls_of(broker).counts)


def reply(peer: WirePeer, opaque: int, code: int = 0, body: bytes = b"") -> None:
    """Answer a request of the broker, and return when the broker has seen it."""
    answer = RemotingCommand(code=code, opaque=opaque, flag=FLAG_RESPONSE, body=body)
    peer.write(answer.encode())
    peer.barrier()


def check(broker: EmbeddedBroker, peer: WirePeer) -> RemotingCommand:
    """Let the broker ask about a transaction."""
    peer.heartbeat("client", producers=["P"])
    send_half(peer)
    broker.clock.advance(6)
    return peer.push()


def reset(broker: EmbeddedBroker, peer: WirePeer) -> RemotingCommand:
    """Let a broker of 4.9 send a member of a group to another place."""
    peer.create_topic("T")
    peer.send("T")
    peer.heartbeat("client", consumer(GROUP, {"T": "*"}))
    peer.barrier()
    peer.pushed.clear()
    broker.groups[GROUP].reset(topic="T", to="latest")
    return peer.push()


@pytest.fixture
def session() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=[RequestCode.CHECK_TRANSACTION_STATE, 220], ids=["39", "220"])
def asked(
    request: pytest.FixtureRequest,
    start_broker: StartBroker,
    connect: Connect,
    session: VirtualClock,
) -> tuple[EmbeddedBroker, WirePeer, RemotingCommand]:
    """A broker, a client, and what the broker has just asked it."""
    broker = start_broker(profile="rocketmq-4.9", session_clock=session)
    peer = connect(broker.addr)
    code = int(request.param)
    push = check(broker, peer) if code == 39 else reset(broker, peer)
    assert (push.code, push.flag) == (code, FLAG_ONEWAY)
    assert len(calls_of(broker)) == 1
    return broker, peer, push


Asked = tuple[EmbeddedBroker, WirePeer, RemotingCommand]


def test_an_answer_is_matched_with_the_request_it_belongs_to(asked: Asked) -> None:
    broker, peer, push = asked
    reply(peer, push.opaque)
    assert ends(broker) == {End.ANSWERED: 1}
    assert (len(calls_of(broker)), calls_of(broker).unmatched) == (0, 0)


def test_a_client_that_does_not_answer_is_waited_for_no_longer_than_its_time(
    asked: Asked, session: VirtualClock
) -> None:
    broker, peer, push = asked
    session.advance(3)
    assert ends(broker) == {End.TIMED_OUT: 1}
    reply(peer, push.opaque)
    assert calls_of(broker).unmatched == 1


def test_a_client_that_leaves_has_ended_its_calls(asked: Asked) -> None:
    broker, peer, _ = asked
    peer.close()
    broker.wait_for(lambda _: ends(broker) == {End.GONE: 1})
    assert len(calls_of(broker)) == 0


def test_answers_that_belong_to_nothing_are_dropped_and_the_connection_lives(
    asked: Asked, connect: Connect
) -> None:
    broker, peer, push = asked
    stranger = connect(broker.addr)
    reply(stranger, push.opaque)
    reply(peer, push.opaque + 1000)
    assert calls_of(broker).unmatched == 2
    assert ends(broker) == {}
    reply(peer, push.opaque)
    reply(peer, push.opaque)
    assert calls_of(broker).unmatched == 3
    assert ends(broker) == {End.ANSWERED: 1}


def test_who_asks_gets_the_values_of_the_answer(broker: EmbeddedBroker, peer: WirePeer) -> None:
    peer.barrier()
    parts, heard = broker._parts(), list[tuple[End, Answer | None]]()
    with parts.door:
        (connection,) = parts.endpoint.connections
        parts.calls.ask(
            connection, GroupChanged("g"), on_end=lambda end, answer: heard.append((end, answer))
        )
    push = peer.push()
    assert push.ext_fields == {"consumerGroup": "g"}
    reply(peer, push.opaque, 1, b"because")
    assert heard == [(End.ANSWERED, Answer(False, None, b"because"))]


def test_after_a_reset_answers_to_the_old_broker_state_match_nothing(asked: Asked) -> None:
    broker, peer, push = asked
    broker.reset()
    reply(peer, push.opaque)
    assert (calls_of(broker).unmatched, ends(broker)) == (1, {})
    parts = broker._parts()
    with parts.door:
        parts.calls.tell(next(iter(parts.endpoint.connections)), GroupChanged("again"))
    peer.barrier()
    assert peer.pushed[-1].ext_fields == {"consumerGroup": "again"}
    assert peer.pushed[-1].opaque > push.opaque


def test_the_name_server_drops_answers(broker: EmbeddedBroker, connect: Connect) -> None:
    peer = connect(broker.namesrv_addr)
    reply_frame = RemotingCommand(code=0, opaque=1, flag=FLAG_RESPONSE)
    peer.write(reply_frame.encode())
    assert peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0
