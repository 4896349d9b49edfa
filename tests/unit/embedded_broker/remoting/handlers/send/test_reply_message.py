"""Requests 324 and 325, and the push 326 to who asked."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.codes import FLAG_RESPONSE, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from rocketmq_py.protocol.properties import decode_properties
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, bodies, records, send_fields

TOPIC = "DefaultCluster_REPLY_TOPIC"
ASKED = {"CORRELATION_ID": "c-1", "REPLY_TO_CLIENT": "asker", "MSG_TYPE": "reply", "TTL": "3000"}


def post_reply(
    peer: WirePeer, properties: dict[str, str] | None = None, *, long: bool = False
) -> int:
    fields = send_fields(TOPIC, ASKED if properties is None else properties)
    if not long:
        return peer.post(RequestCode.SEND_REPLY_MESSAGE_V2, fields, b"yes")
    fields = SendMessageRequestHeader.from_ext_v2(fields).to_ext()
    return peer.post(RequestCode.SEND_REPLY_MESSAGE, fields, b"yes")


def answer(peer: WirePeer, push: RemotingCommand, code: int = 0) -> None:
    peer.write(RemotingCommand(code=code, opaque=push.opaque, flag=FLAG_RESPONSE).encode())


@pytest.fixture
def asker(broker: EmbeddedBroker, connect: Connect) -> WirePeer:
    """A client that waits for a reply."""
    asker = connect(broker.addr)
    asker.heartbeat("asker", producers=["askers"])
    return asker


@pytest.mark.case("W93")
@pytest.mark.parametrize("long", [False, True], ids=["325", "324"])
def test_a_reply_is_pushed_to_who_asked_and_answered_when_it_was_taken(
    broker: EmbeddedBroker, peer: WirePeer, asker: WirePeer, long: bool
) -> None:
    opaque = post_reply(peer, long=long)
    push = asker.push()
    assert (push.code, push.flag, push.body) == (326, 0, b"yes")
    assert not peer.has_answer(opaque)
    properties = decode_properties(push.ext_fields.pop("properties"))
    assert properties.pop("PUSH_REPLY_TIME") == str(broker.clock.now_ms)
    assert properties == ASKED | {"UNIQ_KEY": "ID0001", "WAIT": "true"}
    assert push.ext_fields == {
        "producerGroup": "producers",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "0",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "bornHost": f"127.0.0.1:{peer.port}",
        "storeHost": broker.addr,
        "storeTimestamp": str(broker.clock.now_ms),
    }
    answer(asker, push)
    told = peer.answer(opaque)
    assert told.code == 0
    assert (told.ext_fields["queueId"], told.ext_fields["queueOffset"]) == ("0", "0")
    assert (told.ext_fields["MSG_REGION"], told.ext_fields["TRACE_ON"]) == ("DefaultRegion", "true")
    stored = peer.ask(
        RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(int(told.ext_fields["msgId"][16:], 16))}
    )
    (record,) = records(stored)
    assert (record.topic, record.body) == (TOPIC, b"yes")
    assert record.properties["CORRELATION_ID"] == "c-1"


@pytest.mark.case("W93")
def test_a_reply_to_somebody_who_is_gone_is_1_and_stored(peer: WirePeer, asker: WirePeer) -> None:
    asker.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "asker", "producerGroup": "askers"})
    told = peer.answer(post_reply(peer))
    assert (told.code, told.remark) == (1, "push reply message fail, channel of <asker> not found.")
    assert told.ext_fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    assert bodies(peer.pull(TOPIC)) == [b"yes"]


def test_a_reply_that_names_nobody_is_1(peer: WirePeer) -> None:
    told = peer.answer(post_reply(peer, {}))
    assert (told.code, told.remark) == (1, "reply message properties[REPLY_TO_CLIENT] is null")


def test_a_reply_that_the_client_refuses_is_1(peer: WirePeer, asker: WirePeer) -> None:
    opaque = post_reply(peer)
    answer(asker, asker.push(), code=1)
    told = peer.answer(opaque)
    assert (told.code, told.remark) == (1, "push reply message to askerfail.")


def test_a_client_has_ten_seconds_to_take_a_reply(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    broker = start_broker(session_clock=session)
    peer, asker = connect(broker.addr), connect(broker.addr)
    asker.heartbeat("asker", producers=["askers"])
    opaque = post_reply(peer)
    asker.push()
    session.advance(9.999)
    assert not peer.has_answer(opaque)
    session.advance(0.001)
    assert peer.answer(opaque).code == 1


def test_replies_are_not_stored_when_that_is_switched_off(
    broker: EmbeddedBroker, peer: WirePeer, asker: WirePeer
) -> None:
    broker.config.update(storeReplyMessageEnable=False)
    opaque = post_reply(peer)
    answer(asker, asker.push())
    told = peer.answer(opaque)
    assert (told.code, told.ext_fields["msgId"], told.ext_fields["queueOffset"]) == (0, "0", "0")
    assert peer.pull(TOPIC).code == ResponseCode.PULL_NOT_FOUND


def test_what_no_message_may_be_no_reply_may_be(peer: WirePeer, asker: WirePeer) -> None:
    fields = send_fields("SCHEDULE_TOPIC_XXXX", ASKED)
    told = peer.ask(RequestCode.SEND_REPLY_MESSAGE_V2, fields, b"yes")
    assert (told.code, told.ext_fields["TRACE_ON"]) == (ResponseCode.NO_PERMISSION, "true")
    asker.barrier()
    assert asker.pushed == []


def test_a_reply_goes_to_the_connection_on_which_the_client_was_heard_of_last(
    broker: EmbeddedBroker, peer: WirePeer, asker: WirePeer, connect: Connect
) -> None:
    again = connect(broker.addr)
    again.heartbeat("asker", producers=["askers"])
    asker.close()
    peer.barrier()
    opaque = post_reply(peer)
    answer(again, again.push())
    assert peer.answer(opaque).code == 0
