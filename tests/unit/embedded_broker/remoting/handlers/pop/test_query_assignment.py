"""Requests 400, 401 and 402: bodies of a real 5.3.3 broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.core.pop.assignment import in_blocks, in_turn
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.json_text import loads
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.remoting.handlers.pop.pop_requests import ask_json
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, consumer


@pytest.fixture
def peer(broker: EmbeddedBroker, connect: Connect) -> WirePeer:
    return members(broker, connect, 1)


def members(broker: EmbeddedBroker, connect: Connect, number: int) -> WirePeer:
    """Let c1, c2 ... be members of G; a topic has four queues."""
    for one in range(1, number + 1):
        peer = connect(broker.addr)
        peer.create_topic("T", 4)
        peer.heartbeat(f"c{one}", consumer("G", {"T": "*"}))
    return peer


def set_mode(peer: WirePeer, **changed: object) -> RemotingCommand:
    mode = {"topic": "T", "consumerGroup": "G", "mode": "POP", "popShareQueueNum": 0} | changed
    return ask_json(peer, RequestCode.SET_MESSAGE_REQUEST_MODE, **mode)


def assigned(peer: WirePeer, **changed: object) -> list[tuple[str, int]] | None:
    """Mode and queue id of each queue; None: keep what you have."""
    asked = {
        "topic": "T",
        "consumerGroup": "G",
        "clientId": "c1",
        "strategyName": "AVG",
        "messageModel": "CLUSTERING",
    } | changed
    answer = ask_json(peer, RequestCode.QUERY_ASSIGNMENT, **asked)
    assert answer.code == 0, answer.remark
    document: dict[str, Any] = loads(answer.body)
    found = document.get("messageQueueAssignments")
    if found is None:
        return None
    assert {one["messageQueue"]["brokerName"] for one in found} <= {"broker-a"}
    return [(one["mode"], one["messageQueue"]["queueId"]) for one in found]


def test_who_pops_gets_all_queues_as_one_and_who_pulls_its_own(peer: WirePeer) -> None:
    assert assigned(peer) == [("PULL", 0), ("PULL", 1), ("PULL", 2), ("PULL", 3)]
    assert set_mode(peer).code == 0
    assert assigned(peer) == [("POP", -1)]
    assert assigned(peer, clientId="nobody") == [("POP", -1)]
    assert assigned(peer, messageModel="BROADCASTING") == [("POP", one) for one in range(4)]
    assert assigned(peer, topic="%RETRY%G") == [("PULL", 0)]


@pytest.mark.parametrize(
    "changed", [{"topic": "nosuch"}, {"strategyName": "XX"}, {"consumerGroup": "unknown"}]
)
def test_what_cannot_be_distributed_leaves_everything_as_it_is(
    peer: WirePeer, changed: dict[str, str]
) -> None:
    assert assigned(peer, **changed) is None


def test_members_pull_their_shares(broker: EmbeddedBroker, connect: Connect) -> None:
    peer = members(broker, connect, 3)
    shares = [assigned(peer, clientId=f"c{one}") for one in (1, 2, 3)]
    assert shares == [[("PULL", 0), ("PULL", 1)], [("PULL", 2)], [("PULL", 3)]]
    assert assigned(peer, strategyName="AVG_BY_CIRCLE") == [("PULL", 0), ("PULL", 3)]
    assert assigned(peer, clientId="nobody") == []


def test_poppers_may_share_with_those_behind_them(broker: EmbeddedBroker, connect: Connect) -> None:
    peer = members(broker, connect, 4)
    set_mode(peer, popShareQueueNum=1)
    assert assigned(peer, clientId="c4") == [("POP", 3), ("POP", 0)]
    set_mode(peer, popShareQueueNum=3)
    assert assigned(peer, clientId="c4") == [("POP", -1)]
    peer.create_topic("T", 2)
    set_mode(peer, popShareQueueNum=1)
    assert assigned(peer, clientId="c4") == [("POP", 1)]


@pytest.mark.parametrize("crash", [False, True])
def test_what_was_set_is_shown_and_kept(
    start_broker: StartBroker, connect: Connect, tmp_path: Path, crash: bool
) -> None:
    broker = start_broker(store=tmp_path)
    peer = members(broker, connect, 1)
    set_mode(peer)
    broker.restart(crash=crash)
    peer = connect(broker.addr)
    answer = peer.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    mode = {"consumerGroup": "G", "mode": "POP", "popShareQueueNum": 0, "topic": "T"}
    assert loads(answer.body) == {"messageRequestModeMap": {"T": {"G": mode}}}


@pytest.mark.parametrize(
    ("changed", "code", "remark"),
    [
        ({"topic": "nosuch"}, ResponseCode.TOPIC_NOT_EXIST, "topic[nosuch] not exist"),
        ({"topic": "%RETRY%G"}, 16, "retry topic is not allowed to set mode"),
        ({"mode": "PUSH"}, 1, "mode[PUSH] is none of PULL and POP"),
        ({"topic": ""}, 1, "topic and consumerGroup are required"),
    ],
)
def test_a_mode_that_cannot_be_is_refused(
    peer: WirePeer, changed: dict[str, str], code: int, remark: str
) -> None:
    answer = set_mode(peer, **changed)
    assert (answer.code, answer.remark) == (code, remark)


@pytest.mark.parametrize("body", [b"", b"{}", b"nonsense"])
@pytest.mark.parametrize("code", [400, 401])
def test_a_body_that_says_nothing_is_told(peer: WirePeer, code: int, body: bytes) -> None:
    assert peer.ask(code, body=body).code == ResponseCode.SYSTEM_ERROR


def test_queues_are_divided_as_clients_divide_them() -> None:
    queues = [MessageQueueKey("T", "b", one) for one in range(5)]
    clients = ["a", "b", "c"]
    assert [[q.queue_id for q in in_blocks(one, clients, queues)] for one in clients] == [
        [0, 1],
        [2, 3],
        [4],
    ]
    assert [[q.queue_id for q in in_turn(one, clients, queues)] for one in clients] == [
        [0, 3],
        [1, 4],
        [2],
    ]
    many = ["a", "b", "c", "d", "e", "f"]
    assert [len(in_blocks(one, many, queues)) for one in many] == [1, 1, 1, 1, 1, 0]
