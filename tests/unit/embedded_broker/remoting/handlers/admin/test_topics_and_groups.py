"""Requests 17, 200, 351 and 352."""

from __future__ import annotations

import json

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer

BY_PROFILE = [("rocketmq-4.9", 1), ("rocketmq-5.x", 29)]


def put_topic(peer: WirePeer, topic: str, **fields: str) -> RemotingCommand:
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
    }
    return peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext | fields)


# -- 17 and 200 -----------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["a b", "TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster"])
@pytest.mark.parametrize(("profile", "code"), BY_PROFILE)
def test_bad_names_and_system_topics_cannot_be_created(
    start_broker: StartBroker, connect: Connect, profile: str, code: int, topic: str
) -> None:
    assert put_topic(connect(start_broker(profile=profile).addr), topic).code == code


@pytest.mark.case("W95")
def test_attributes_are_stored_without_their_sign_and_bad_ones_are_1(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    assert put_topic(peer, "T", attributes="+message.type=FIFO").code == 0
    parts = broker._parts()
    with parts.door:
        topic = parts.topics.get("T")
    assert topic is not None
    assert topic.attributes == {"message.type": "FIFO"}
    for wrong in ("+message.type=fifo", "+colour=red", "message.type=FIFO", "-queue.type"):
        answer = put_topic(peer, "T", attributes=wrong)
        assert answer.code == 1
        assert "attribute" in (answer.remark or "")
    assert put_topic(peer, "U", attributes="").code == 0


def test_the_type_mixed_needs_its_switch(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker()
    peer = connect(broker.addr)
    answer = put_topic(peer, "T", attributes="+message.type=MIXED")
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "enableMixedMessageType=false" in (answer.remark or "")
    broker.config.update(enableMixedMessageType=True)
    assert put_topic(peer, "T", attributes="+message.type=MIXED").code == 0


def test_4_9_does_not_look_at_attributes(start_broker: StartBroker, connect: Connect) -> None:
    peer = connect(start_broker(profile="rocketmq-4.9").addr)
    assert put_topic(peer, "T", attributes="nonsense").code == 0


@pytest.mark.parametrize(("profile", "code"), [("rocketmq-4.9", 0), ("rocketmq-5.x", 29)])
def test_a_bad_group_name_is_refused_by_5_x_only(
    start_broker: StartBroker, connect: Connect, profile: str, code: int
) -> None:
    peer = connect(start_broker(profile=profile).addr)
    body = b'{"groupName":"a b"}'
    answer = peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert answer.code == code


def test_settings_of_a_group_are_replaced(broker: EmbeddedBroker, peer: WirePeer) -> None:
    for times in (3, 5):
        body = json.dumps({"groupName": "g", "retryMaxTimes": times}).encode()
        assert peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body).code == 0
    parts = broker._parts()
    with parts.door:
        group = parts.groups.get("g")
    assert group is not None
    assert group.retry_max_times == 5


def test_the_settings_of_a_topic_are_told_as_a_real_broker_tells_them(peer: WirePeer) -> None:
    answer = peer.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "TBW102"})
    assert answer.body == (
        b'{"attributes":{},"order":false,"perm":7,"readQueueNums":8,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":"TBW102","topicSysFlag":0,"writeQueueNums":8}'
    )
    answer = peer.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "nosuch"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.remark == "No topic in this broker. topic: nosuch"


@pytest.mark.case("W95")
def test_a_change_of_a_topic_is_seen_in_its_settings(peer: WirePeer) -> None:
    ask = {"topic": "T", "lo": "false"}
    assert peer.ask(RequestCode.GET_TOPIC_CONFIG, ask).code == ResponseCode.TOPIC_NOT_EXIST
    put_topic(peer, "T", attributes="+message.type=FIFO")
    first = json.loads(peer.ask(RequestCode.GET_TOPIC_CONFIG, ask).body)
    assert (first["attributes"], first["readQueueNums"]) == ({"message.type": "FIFO"}, 4)
    put_topic(peer, "T", attributes="-message.type", readQueueNums="2", perm="4")
    second = json.loads(peer.ask(RequestCode.GET_TOPIC_CONFIG, ask).body)
    assert (second["attributes"], second["readQueueNums"], second["perm"]) == ({}, 2, 4)


def test_the_settings_of_a_group_are_told(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker()
    peer = connect(broker.addr)
    body = json.dumps({"groupName": "g", "retryMaxTimes": 3}).encode()
    shown = []
    for _ in range(2):
        answer = peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "g"})
        shown.append(json.loads(answer.body)["retryMaxTimes"])
        peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
    assert shown == [16, 3]
    broker.config.update(autoCreateSubscriptionGroup=False)
    answer = peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "other"})
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_4_9_knows_neither_351_nor_352(start_broker: StartBroker, connect: Connect) -> None:
    peer = connect(start_broker(profile="rocketmq-4.9").addr)
    for code in (RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG):
        assert peer.ask(code, {"topic": "TBW102"}).code == 3
