"""Requests 17, 18, 21, 215, 305 and 351 about topics, 200, 201, 207, 225 and 352 about groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.bodies.groups import ConsumeStats
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.lenient_json import loads_lenient
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, bodies, consumer
from tests.waiting import until

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
        topic = parts.tables.topics.get("T")
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
        group = parts.tables.groups.get("g")
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


# -- 18, 21, 215, 225, 201, 207, 305 ----------------------------------------------------------


def topics_of(peer: WirePeer) -> dict[str, Any]:
    table = loads_lenient(peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)
    return dict(table["topicConfigTable"])


def groups_of(peer: WirePeer) -> dict[str, Any]:
    table = loads_lenient(peer.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
    return dict(table["subscriptionGroupTable"])


def test_all_topics_are_listed_with_the_version_of_the_table(peer: WirePeer) -> None:
    first = loads_lenient(peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)
    put_topic(peer, "T", perm="4")
    second = loads_lenient(peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)
    assert "T" not in first["topicConfigTable"]
    assert second["topicConfigTable"]["T"]["perm"] == 4
    assert second["dataVersion"]["counter"] == first["dataVersion"]["counter"] + 1
    assert second["topicQueueMappingDetailMap"] == {}


def test_4_9_has_no_static_topics_to_list(start_broker: StartBroker, connect: Connect) -> None:
    peer = connect(start_broker(profile="rocketmq-4.9").addr)
    table = loads_lenient(peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)
    assert set(table) == {"dataVersion", "topicConfigTable"}


def test_several_topics_are_made_at_once(peer: WirePeer) -> None:
    body = {
        "topicConfigList": [
            {"topicName": "A", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6},
            {"topicName": "B", "attributes": {"+message.type": "FIFO"}},
        ]
    }
    code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    assert peer.ask(code, body=json.dumps(body).encode()).code == 0
    made = topics_of(peer)
    assert made["A"]["readQueueNums"] == 2
    assert made["B"]["attributes"] == {"message.type": "FIFO"}
    body["topicConfigList"] = [{"topicName": "a b"}]
    assert peer.ask(code, body=json.dumps(body).encode()).code == 29


def test_several_groups_are_made_at_once_and_listed(peer: WirePeer) -> None:
    body = {"groupConfigList": [{"groupName": "g1", "retryMaxTimes": 3}, {"groupName": "g2"}]}
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
    assert "g1" not in groups_of(peer)
    assert peer.ask(code, body=json.dumps(body).encode()).code == 0
    made = groups_of(peer)
    assert (made["g1"]["retryMaxTimes"], made["g2"]["retryMaxTimes"]) == (3, 16)
    assert made["TOOLS_CONSUMER"]["groupName"] == "TOOLS_CONSUMER"


def commit(peer: WirePeer, group: str, topic: str, offset: int) -> int:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
    return peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields).code


def committed(peer: WirePeer, group: str, topic: str) -> RemotingCommand:
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": "0",
        "setZeroIfNotFound": "false",
    }
    return peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)


@pytest.mark.case("W96")
@pytest.mark.parametrize("switch", ["removeOffset", "cleanOffset", None])
def test_a_group_is_deleted_and_its_offsets_when_that_is_asked_for(
    peer: WirePeer, switch: str | None
) -> None:
    put_topic(peer, "T")
    for group in ("g", "other"):
        peer.heartbeat("c", consumer(group, {"T": "*"}))
        assert commit(peer, group, "T", 7) == 0
        peer.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c", "consumerGroup": group})
    fields = {"groupName": "g"} | ({} if switch is None else {switch: "true"})
    assert peer.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields).code == 0
    assert set(groups_of(peer)) & {"g", "other"} == {"other"}
    assert committed(peer, "g", "T").code == (0 if switch is None else 22)
    assert committed(peer, "other", "T").ext_fields == {"offset": "7"}
    assert peer.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "unknown"}).code == 0


def test_a_deleted_topic_takes_along_messages_offsets_and_routes(
    broker: EmbeddedBroker, peer: WirePeer, connect: Connect
) -> None:
    names = connect(broker.namesrv_addr)
    for topic in ("T", "%RETRY%g_T", "Stays"):
        peer.create_topic(topic)
        peer.send(topic)
    with broker._parts().door:  # no request can name it
        broker._parts().tables.topics.ensure("%RETRY%g+T", 1)
    peer.heartbeat("c", consumer("g", {"T": "*"}))
    commit(peer, "g", "T", 1)
    commit(peer, "g", "Stays", 1)
    peer.pull("T", consumerGroup="g")
    assert peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}).code == 0
    assert set(topics_of(peer)) & {"T", "%RETRY%g_T", "%RETRY%g+T", "Stays"} == {"Stays"}
    assert names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}).code == 17
    assert peer.pull("T").code == ResponseCode.TOPIC_NOT_EXIST
    assert (committed(peer, "g", "T").code, committed(peer, "g", "Stays").code) == (22, 0)
    # A new topic of that name does not bring anything back.
    peer.create_topic("T")
    assert peer.pull("T").code == ResponseCode.PULL_OFFSET_MOVED
    peer.send("T", b"new")
    at = int(peer.pull("T").ext_fields["nextBeginOffset"])
    assert bodies(peer.pull("T", at)) == [b"new"]
    stats = peer.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "T"})
    (one,) = ConsumeStats.decode(stats.body).offset_table.values()
    assert (one.consumer_offset, one.pull_offset) == (0, 0)


@pytest.mark.parametrize(("profile", "code"), BY_PROFILE)
def test_a_system_topic_cannot_be_deleted(
    start_broker: StartBroker, connect: Connect, profile: str, code: int
) -> None:
    peer = connect(start_broker(profile=profile).addr)
    for topic in ("TBW102", "DefaultCluster", " "):
        assert peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic}).code == code
    assert peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "unknown"}).code == 0


def test_a_deleted_topic_stays_deleted_when_the_broker_starts_again(
    tmp_path: Path, connect: Connect
) -> None:
    with EmbeddedBroker(store=tmp_path) as first:
        peer = connect(first.addr)
        for topic in ("Gone", "Again", "Stays"):
            peer.create_topic(topic)
            peer.send(topic, b"old")
        for topic in ("Gone", "Again"):
            peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
        peer.create_topic("Again")
        peer.send("Again", b"new")
        peer.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "TOOLS_CONSUMER"})
    for _ in range(2):
        with EmbeddedBroker(store=tmp_path) as later:
            peer = connect(later.addr)
            assert set(topics_of(peer)) & {"Gone", "Again", "Stays"} == {"Again", "Stays"}
            assert bodies(peer.pull("Again", 1)) == [b"new"]
            assert peer.pull("Again", 0).code == ResponseCode.PULL_OFFSET_MOVED
            assert bodies(peer.pull("Stays")) == [b"old"]
            assert later.recovery is None or "Gone" not in str(later.recovery)


def test_system_topics_are_listed(peer: WirePeer) -> None:
    answer = peer.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    listed = set(json.loads(answer.body)["topicList"])
    assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "broker-a"} <= listed


def test_what_came_for_a_topic_after_its_end_is_taken_away(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    peer.create_topic("T")
    peer.send("T", properties={"TIMER_DELAY_SEC": "10"})
    assert peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}).code == 0
    broker.clock.advance(10)
    entries = {"topic": "T", "queueId": "0", "index": "0", "count": "9"}

    def bounds() -> tuple[int, int]:
        told = json.loads(peer.ask(RequestCode.QUERY_CONSUME_QUEUE, entries).body)
        return told["minQueueIndex"], told["maxQueueIndex"]

    assert bounds() == (0, 1)
    assert peer.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE).code == 0
    assert bounds() == (0, 1)
    assert peer.ask(RequestCode.CLEAN_UNUSED_TOPIC).code == 0
    assert bounds() == (1, 1)


def test_old_files_go_whatever_the_hour(start_broker: StartBroker, connect: Connect) -> None:
    hours = {"fileReservedTime": 1000}
    broker = start_broker(config={"mappedFileSizeCommitLog": 4096, **hours})
    peer = connect(broker.addr)
    peer.create_topic("T")
    for _ in range(20):
        peer.send("T", b"x" * 1000)
    broker.clock.advance(days=3, age=True)
    queue = {"topic": "T", "queueId": "0"}

    def first() -> int:
        return int(peer.ask(RequestCode.GET_MIN_OFFSET, queue).ext_fields["offset"])

    assert peer.ask(RequestCode.DELETE_EXPIRED_COMMITLOG).code == 0
    broker._parts().flush_everything()
    assert first() == 0
    peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=1\n")
    assert peer.ask(RequestCode.DELETE_EXPIRED_COMMITLOG).code == 0
    until(lambda: first() > 0)


def test_a_group_is_forbidden_to_read_a_topic_and_allowed_again(
    tmp_path: Path, connect: Connect
) -> None:
    code, ask = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, {"group": "g", "topic": "T"}
    heartbeat = consumer("g", {"T": "*"})

    def pulled(peer: WirePeer) -> RemotingCommand:
        peer.heartbeat("c", heartbeat)
        return peer.pull("T", consumerGroup="g", sysFlag="0")

    with EmbeddedBroker(store=tmp_path, topics=["T"]) as first:
        peer = connect(first.addr)
        assert json.loads(peer.ask(code, ask).body) == {**ask, "readable": True}
        assert pulled(peer).code == ResponseCode.PULL_NOT_FOUND
        forbidden = peer.ask(code, ask | {"readable": "false"})
        assert json.loads(forbidden.body) == {**ask, "readable": False}
        refused = pulled(peer)
        assert (refused.code, refused.ext_fields) == (16, {"forbiddenType": "5"})
        assert refused.remark == "the consumer group[g] is forbidden for topic[T]"
        table = loads_lenient(peer.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG).body)
        assert table["forbiddenTable"] == {"g": {"T": 4}}
    with EmbeddedBroker(store=tmp_path) as second:
        peer = connect(second.addr)
        assert pulled(peer).code == 16
        assert json.loads(peer.ask(code, ask | {"readable": "true"}).body)["readable"] is True
        assert pulled(peer).code == ResponseCode.PULL_NOT_FOUND
