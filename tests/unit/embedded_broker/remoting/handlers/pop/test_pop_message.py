"""Requests 200050, 200052, 200054 and 200055: headers, codes and texts of a real 5.3.3 broker."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.clock import wall_ms
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pop import PopMessageResponseHeader
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.remoting.handlers.pop.pop_requests import (
    RETRY,
    ack,
    handle,
    pop,
    pop_fields,
    records,
)
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer


@pytest.fixture
def peer(broker: EmbeddedBroker, connect: Connect) -> WirePeer:
    peer = connect(broker.addr)
    peer.create_topic("T", 2)
    return peer


def fill(peer: WirePeer, count: int) -> None:
    for number in range(count):
        assert peer.send("T", b"m%d" % number, {"TAGS": "A"}, e=str(number % 2)).code == 0


@pytest.mark.case("W103")
def test_an_answer_says_all_that_handles_are_made_of(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    fill(peer, 5)
    answer = pop(peer, invisibleTime="4000")
    ext = dict(answer.ext_fields)
    assert (answer.code, answer.remark) == (0, "FOUND")
    assert sorted(ext.pop("startOffsetInfo").split(";")) == ["0 0 0", "0 1 0"]
    assert sorted(ext.pop("msgOffsetInfo").split(";")) == ["0 0 0,1,2", "0 1 0,1"]
    assert ext == {
        "popTime": str(broker.clock.now_ms),
        "invisibleTime": "4000",
        "reviveQid": "0",
        "restNum": "0",
    }
    assert sorted(record.body for record in records(answer)) == [b"m%d" % n for n in range(5)]
    assert pop(peer).ext_fields["reviveQid"] == "1"


def test_nothing_is_210_with_all_that_java_reads(broker: EmbeddedBroker, peer: WirePeer) -> None:
    answer = pop(peer)
    assert (answer.code, answer.remark) == (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")
    assert answer.ext_fields == {
        "popTime": str(broker.clock.now_ms),
        "invisibleTime": "60000",
        "reviveQid": "0",
        "restNum": "0",
        "startOffsetInfo": "",
        "msgOffsetInfo": "",
    }
    assert pop(peer, maxMsgNums="0").code == ResponseCode.POLLING_TIMEOUT


@pytest.mark.case("W105")
@pytest.mark.parametrize(
    ("changed", "code", "piece"),
    [
        ({"maxMsgNums": "33"}, 29, "pop message's num is greater than 32"),
        ({"queueId": "5"}, 29, "queueId[5] is illegal, topic:[T] topicConfig.readQueueNums:[2]"),
        ({"topic": "nosuch"}, 17, "topic[nosuch] not exist, apply first please!"),
        ({"exp": "||"}, 23, "parse the consumer's subscription failed"),
        ({"exp": "a >", "expType": "SQL92"}, 23, "parse the consumer's subscription failed"),
        ({"exp": "a", "expType": "XX"}, 23, "parse the consumer's subscription failed"),
    ],
)
def test_what_is_wrong_is_told_with_the_code_of_the_original(
    peer: WirePeer, changed: dict[str, str], code: int, piece: str
) -> None:
    answer = pop(peer, **changed)
    assert answer.code == code
    assert piece in str(answer.remark)
    header = PopMessageResponseHeader.from_ext(answer.ext_fields)
    assert (header.pop_time, header.rest_num) == (0, 0)


@pytest.mark.case("W105")
@pytest.mark.parametrize(
    "code", [400, 401, 402, 200050, 200051, 200052, 200053, 200054, 200055, 200151]
)
def test_a_broker_before_5_knows_nothing_of_it(
    start_broker: StartBroker, connect: Connect, code: int
) -> None:
    peer = connect(start_broker(profile="rocketmq-4.9").addr)
    assert peer.ask(code, pop_fields()).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_a_time_that_no_timer_reaches_hides_nothing(peer: WirePeer) -> None:
    fill(peer, 1)
    answer = pop(peer, invisibleTime=str(10 * 86_400_000))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "not handed out: timer message illegal" in str(answer.remark)
    assert "timerMaxDelaySec" in str(answer.remark)
    assert len(records(pop(peer))) == 1


@pytest.mark.parametrize("missing", ["consumerGroup", "topic", "queueId", "invisibleTime"])
def test_a_field_that_is_missing_is_named(peer: WirePeer, missing: str) -> None:
    fields = pop_fields()
    del fields[missing]
    answer = peer.ask(RequestCode.POP_MESSAGE, fields)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert missing in str(answer.remark)


def test_a_pop_waits_and_is_answered_by_a_message(peer: WirePeer, connect: Connect) -> None:
    waiting = peer.post(RequestCode.POP_MESSAGE, pop_fields(pollTime="15000"))
    assert not peer.has_answer(waiting)
    info = {"consumerGroup": "G", "topic": "T", "queueId": "-1"}
    assert peer.ask(RequestCode.POLLING_INFO, info).ext_fields == {"pollingNum": "1"}
    fill(peer, 1)
    answer = peer.answer(waiting)
    assert [record.body for record in records(answer)] == [b"m0"]
    assert peer.ask(RequestCode.POLLING_INFO, info).ext_fields == {"pollingNum": "0"}


def test_a_client_that_has_given_up_gets_nothing(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = connect(start_broker(topics=["T"]).addr)
    fill(peer, 1)
    late = str(wall_ms() - 5_000)
    answer = pop(peer, bornTime=late, pollTime="4000")
    assert answer.code == ResponseCode.POLLING_TIMEOUT
    assert "timeout too much" in str(answer.remark)
    assert pop(peer, bornTime=late, pollTime="4900").code == 0


def test_too_many_that_wait_are_209(start_broker: StartBroker, connect: Connect) -> None:
    peer = connect(start_broker(topics=["T"], config={"maxPopPollingSize": 1}).addr)
    peer.post(RequestCode.POP_MESSAGE, pop_fields(pollTime="15000"))
    answer = pop(peer, pollTime="15000")
    assert (answer.code, answer.remark) == (ResponseCode.POLLING_FULL, "NO_MESSAGE_IN_QUEUE")
    notification = peer.ask(
        RequestCode.NOTIFICATION,
        {"consumerGroup": "G", "topic": "T", "queueId": "-1", "pollTime": "900", "bornTime": "0"},
    )
    assert notification.ext_fields == {"hasMsg": "false", "pollingFull": "true"}


@pytest.mark.case("W101")
def test_two_of_five_come_back_with_their_handles(broker: EmbeddedBroker, peer: WirePeer) -> None:
    for number in range(5):
        peer.send("T", b"m%d" % number, e="0")
    answer = pop(peer, invisibleTime="2000")
    for offset in (0, 1, 2):
        assert ack(peer, handle(answer, offset), offset).code == 0
    waiting = peer.post(RequestCode.POP_MESSAGE, pop_fields(pollTime="15000"))
    broker.clock.advance(2)
    answer = peer.answer(waiting)
    ext = answer.ext_fields
    assert (ext["startOffsetInfo"], ext["msgOffsetInfo"]) == ("1 0 0", "1 0 0,1")
    back = records(answer)
    assert [(one.topic, one.body, one.reconsume_times) for one in back] == [
        ("T", b"m3", 1),
        ("T", b"m4", 1),
    ]
    own = f"0 {ext['popTime']} 60000 {ext['reviveQid']} 1 broker-a 0"
    assert [one.properties["POP_CK"] for one in back] == [f"{own} 0", f"{own} 1"]
    assert ack(peer, f"{own} 0", 0, topic=RETRY).code == 0
    assert [one[1:4] for one in broker._parts().pop.revive.hidden()] == [(RETRY, 0, 1)]


def test_the_retry_topic_can_be_shown_as_it_is(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(topics=["T"], config={"popResponseReturnActualRetryTopic": True})
    peer = connect(broker.addr)
    peer.send("T", b"m", e="0")
    pop(peer, invisibleTime="1000")
    broker.clock.advance(1)
    (back,) = records(pop(peer))
    assert (back.topic, "POP_CK" in back.properties) == (RETRY, False)


@pytest.mark.case("W102")
def test_an_ordered_pop_says_how_often_its_messages_came(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    for number in range(3):
        peer.send("T", b"m%d" % number, e="0")
    ordered = {"order": "true", "queueId": "0", "maxMsgNums": "2", "invisibleTime": "3000"}
    answer = pop(peer, **ordered, attemptId="a")
    assert answer.ext_fields["reviveQid"] == "999"
    assert answer.ext_fields["orderCountInfo"] == "0 0 0"
    nothing = pop(peer, **ordered, attemptId="b")
    assert (nothing.code, nothing.ext_fields["restNum"]) == (ResponseCode.POLLING_TIMEOUT, "0")
    assert nothing.ext_fields["orderCountInfo"] == ""
    broker.clock.advance(3)
    again = pop(peer, **ordered, attemptId="c")
    assert again.ext_fields["orderCountInfo"] == "0 qo0%0 1;0 qo0%1 1;0 0 1"
    beyond = ack(peer, handle(again, 2), 2)
    assert beyond.code == ResponseCode.MESSAGE_ILLEGAL
    assert "offset is illegal, key:T@G@0, old:0, commit:2, next:-1" in str(beyond.remark)
    for offset in (1, 0):
        assert ack(peer, handle(again, offset), offset).code == 0
    following = pop(peer, **ordered, attemptId="d")
    assert [one.body for one in records(following)] == [b"m2"]


def test_a_look_is_19_without_a_message(peer: WirePeer) -> None:
    fields = {"consumerGroup": "G", "topic": "T", "queueId": "-1", "maxMsgNums": "2"}
    answer = peer.ask(RequestCode.PEEK_MESSAGE, fields)
    assert (answer.code, answer.remark) == (ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
    fill(peer, 3)
    answer = peer.ask(RequestCode.PEEK_MESSAGE, fields)
    assert (answer.code, answer.remark) == (0, "FOUND")
    assert answer.ext_fields["restNum"] == "3"
    assert len(records(answer)) == 2
    assert len(records(pop(peer))) == 3
    wrong = peer.ask(RequestCode.PEEK_MESSAGE, fields | {"topic": "nosuch"})
    assert (wrong.code, wrong.ext_fields["popTime"]) == (ResponseCode.TOPIC_NOT_EXIST, "0")


def test_a_notification_tells_of_a_message_once_there_is_one(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    peer = connect(start_broker(topics=["T"], session_clock=session).addr)
    fields = {"consumerGroup": "G", "topic": "T", "queueId": "-1", "bornTime": "0"}
    at_once = peer.ask(RequestCode.NOTIFICATION, fields | {"pollTime": "0"})
    assert at_once.ext_fields == {"hasMsg": "false", "pollingFull": "false"}
    waiting = peer.post(RequestCode.NOTIFICATION, fields | {"pollTime": "5000"})
    assert not peer.has_answer(waiting)
    session.advance(5)
    assert peer.answer(waiting).ext_fields["hasMsg"] == "false"
    waiting = peer.post(RequestCode.NOTIFICATION, fields | {"pollTime": "5000"})
    fill(peer, 1)
    assert peer.answer(waiting).ext_fields["hasMsg"] == "true"
    assert len(records(pop(peer))) == 1


def test_a_message_that_a_consumer_gives_up_goes_to_the_dead_letters(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    """The broker gives up nothing by itself: clients send back what they gave up (36), and ack."""
    peer.send("T", b"poison", e="0")
    pop(peer, invisibleTime="1000")
    for _ in range(20):
        broker.clock.advance(1)
        answer = pop(peer, invisibleTime="1000")
    (record,) = records(answer)
    assert record.reconsume_times == 20
    back = {"offset": str(record.commit_log_offset), "group": "G", "delayLevel": "-1"}
    assert peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back).code == 0
    own = record.properties["POP_CK"]
    assert ack(peer, own, record.queue_offset, topic=RETRY).code == 0
    broker.clock.advance(60)
    assert pop(peer).code == ResponseCode.POLLING_TIMEOUT
    dead = broker._parts().store.message("%DLQ%G", 0, 0)
    assert dead is not None
    assert dead.body == b"poison"
