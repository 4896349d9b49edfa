"""Requests 203, 204, 328, and 223, 307 and 309, which are handed on to clients."""

from __future__ import annotations

import json

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.bodies.groups import ConsumerConnection
from rocketmq_py.protocol.codes import FLAG_RESPONSE, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, consumer, records

INFO, DIRECT = RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY
STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
WHO = {"consumerGroup": "g", "clientId": "c1"}


def reply(
    peer: WirePeer, push: RemotingCommand, body: bytes = b"", code: int = 0, remark: str = ""
) -> None:
    answer = RemotingCommand(
        code=code, opaque=push.opaque, flag=FLAG_RESPONSE, body=body, remark=remark
    )
    peer.write(answer.encode())


def join(peer: WirePeer, client_id: str, group: str = "g") -> WirePeer:
    """Let a connection be a member; what it was told of that is dropped."""
    peer.heartbeat(client_id, consumer(group, {"T": "*"}))
    peer.barrier()
    peer.pushed.clear()
    return peer


@pytest.fixture
def member(broker: EmbeddedBroker, connect: Connect) -> WirePeer:
    return join(connect(broker.addr), "c1")


def test_consumer_connections_show_members_and_subscriptions(peer: WirePeer) -> None:
    peer.heartbeat("c1", consumer("g", {"T": "TagA"}, sub_version=5))
    answer = peer.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "g"})
    shown = ConsumerConnection.decode(answer.body)
    (one,) = shown.connection_set
    assert (one.client_id, one.language, one.version) == ("c1", "JAVA", 479)
    assert one.client_addr == f"127.0.0.1:{peer.port}"
    assert shown.subscription_table["T"].sub_string == "TagA"
    assert (shown.consume_type, shown.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")


def test_producers_are_shown_while_they_are_there(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    peer = connect(start_broker(session_clock=session).addr)
    code = RequestCode.GET_PRODUCER_CONNECTION_LIST
    answer = peer.ask(code, {"producerGroup": "P"})
    assert (answer.code, answer.remark) == (1, "the producer group[P] not exist")
    peer.heartbeat("p1", producers=["P", "Q"])
    (one,) = json.loads(peer.ask(code, {"producerGroup": "P"}).body)["connectionSet"]
    assert (one["clientId"], one["clientAddr"]) == ("p1", f"127.0.0.1:{peer.port}")
    data = json.loads(peer.ask(RequestCode.GET_ALL_PRODUCER_INFO).body)["data"]
    assert sorted(data) == ["P", "Q"]
    assert data["P"] == [
        {
            "clientId": "p1",
            "language": "JAVA",
            "lastUpdateTimestamp": session.now_ms,
            "remoteIP": f"127.0.0.1:{peer.port}",
            "version": 479,
        }
    ]
    peer.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "p1", "producerGroup": "P"})
    assert peer.ask(code, {"producerGroup": "P"}).code == 1
    assert sorted(json.loads(peer.ask(RequestCode.GET_ALL_PRODUCER_INFO).body)["data"]) == ["Q"]


def test_a_member_is_asked_how_it_is(peer: WirePeer, member: WirePeer) -> None:
    opaque = peer.post(INFO, WHO | {"jstackEnable": "true"})
    push = member.push()
    assert (push.code, push.flag) == (INFO, 0)
    assert push.ext_fields == WHO | {"jstackEnable": "true"}
    assert not peer.has_answer(opaque)
    reply(member, push, b'{"properties":{}}')
    answer = peer.answer(opaque)
    assert (answer.code, answer.body) == (0, b'{"properties":{}}')


@pytest.mark.parametrize("code", [INFO, DIRECT])
def test_a_member_that_is_not_there_cannot_be_asked(peer: WirePeer, code: int) -> None:
    peer.create_topic("T")
    msg_id = peer.send("T").ext_fields["msgId"]
    answer = peer.ask(code, WHO | {"msgId": msg_id})
    assert (answer.code, answer.remark) == (1, "The Consumer <g> <c1> not online")


def test_a_member_that_is_too_old_is_not_asked(peer: WirePeer) -> None:
    body = {"clientID": "c1", "consumerDataSet": [consumer("g", {"T": "*"})]}
    peer.ask(RequestCode.HEART_BEAT, body=json.dumps(body).encode(), version=61)
    answer = peer.ask(INFO, WHO)
    assert answer.code == 1
    assert "too low to finish" in (answer.remark or "")


def test_what_a_member_refuses_is_refused(peer: WirePeer, member: WirePeer) -> None:
    opaque = peer.post(INFO, WHO)
    reply(member, member.push(), code=1, remark="no such group here")
    answer = peer.answer(opaque)
    assert (answer.code, answer.remark) == (1, "no such group here")


def test_a_member_has_ten_seconds_to_answer(start_broker: StartBroker, connect: Connect) -> None:
    session = VirtualClock()
    broker = start_broker(session_clock=session)
    peer, member = connect(broker.addr), join(connect(broker.addr), "c1")
    opaque = peer.post(INFO, WHO)
    member.push()
    session.advance(9.999)
    assert not peer.has_answer(opaque)
    session.advance(0.001)
    assert peer.answer(opaque).code == ResponseCode.CONSUME_MSG_TIMEOUT


def test_a_member_that_leaves_answers_nothing(peer: WirePeer, member: WirePeer) -> None:
    opaque = peer.post(INFO, WHO)
    member.push()
    member.close()
    answer = peer.answer(opaque)
    assert answer.code == 1
    assert "it left" in (answer.remark or "")


def test_a_member_is_let_consume_a_message_now(peer: WirePeer, member: WirePeer) -> None:
    peer.create_topic("T", topicSysFlag="1")
    msg_id = peer.send("T", b"now").ext_fields["msgId"]
    opaque = peer.post(DIRECT, WHO | {"msgId": msg_id, "topic": "T"})
    push = member.push()
    (record,) = records(push)
    assert (push.code, push.flag, record.body) == (DIRECT, 0, b"now")
    assert push.ext_fields == WHO | {
        "msgId": msg_id,
        "brokerName": "broker-a",
        "topic": "T",
        "topicSysFlag": "1",
        "groupSysFlag": "0",
    }
    reply(member, push, b'{"consumeResult":"CR_SUCCESS"}')
    assert peer.answer(opaque).body == b'{"consumeResult":"CR_SUCCESS"}'


@pytest.mark.parametrize("msg_id", ["", "no id", "7F00000100002A9F0000000000000001"])
def test_a_message_that_is_not_there_cannot_be_consumed(
    peer: WirePeer, member: WirePeer, msg_id: str
) -> None:
    assert peer.ask(DIRECT, WHO | {"msgId": msg_id}).code == 1
    member.barrier()
    assert member.pushed == []


def test_members_tell_how_far_they_are(
    broker: EmbeddedBroker, peer: WirePeer, member: WirePeer, connect: Connect
) -> None:
    other = join(connect(broker.addr), "c2")
    member.barrier()
    member.pushed.clear()
    opaque = peer.post(STATUS, {"topic": "T", "group": "g"})
    for one, offset in ((member, 5), (other, 7)):
        push = one.push()
        assert (push.code, push.ext_fields) == (221, {"topic": "T", "group": "g"})
        assert not peer.has_answer(opaque)
        table = b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:%d}}' % offset
        reply(one, push, table)
    told = peer.answer(opaque).body
    assert b'"c1":{{"brokerName":"b","queueId":0,"topic":"T"}:5}' in told
    assert b'"c2":{{"brokerName":"b","queueId":0,"topic":"T"}:7}' in told
    opaque = peer.post(STATUS, {"topic": "T", "group": "g", "clientAddr": "c2"})
    reply(other, other.push(), b"nonsense")
    assert peer.answer(opaque).body == b'{"consumerTable":{"c2":{}}}'
    answer = peer.ask(STATUS, {"topic": "T", "group": "nobody"})
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
    unknown = {"topic": "T", "group": "g", "clientAddr": "c9"}
    assert peer.ask(STATUS, unknown).body == b'{"consumerTable":{}}'
