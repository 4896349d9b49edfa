"""Requests 43, 300, 303, 308, 314, 317, 321, 343 and 345."""

from __future__ import annotations

import json
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.bodies.consumption import ConsumeStatsList, ConsumeTimeSpans
from rocketmq_py.protocol.bodies.topics import TopicList
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.lenient_json import loads_lenient
from rocketmq_py.protocol.tag_hash import java_hash
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, consumer, topic_fields


def commit(peer: WirePeer, group: str, topic: str, offset: int, queue_id: int = 0) -> None:
    peer.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})  # makes it
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "commitOffset": str(offset),
    }
    assert peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields).code == 0


def shown(peer: WirePeer, code: int, **fields: str) -> Any:
    answer = peer.ask(code, fields)
    assert answer.code == 0, answer.remark
    return loads_lenient(answer.body)


def test_those_are_readers_who_subscribe_or_have_committed(peer: WirePeer) -> None:
    def readers() -> list[str]:
        return list(shown(peer, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, topic="T")["groupList"])

    peer.create_topic("T")
    seen = [readers()]
    peer.heartbeat("c", consumer("online", {"T": "*"}))
    seen.append(readers())
    commit(peer, "was-there", "T", 1)
    commit(peer, "online", "T", 1)
    seen.append(readers())
    gone = {"groupName": "was-there", "cleanOffset": "true"}
    assert peer.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, gone).code == 0
    seen.append(readers())
    assert seen == [[], ["online"], ["online", "was-there"], ["online"]]


def test_the_topics_of_a_group_are_those_in_which_it_has_committed(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    code = RequestCode.QUERY_TOPICS_BY_CONSUMER
    assert TopicList.decode(peer.ask(code, {"group": "g"}).body).topic_list == []
    for topic in ("T", "U"):
        peer.create_topic(topic)
        commit(peer, "g", topic, 1)
    told = TopicList.decode(peer.ask(code, {"group": "g"}).body)
    assert (told.topic_list, told.broker_addr) == (["T", "U"], broker.addr)


def test_the_subscription_of_a_group_is_told_while_it_is_there(peer: WirePeer) -> None:
    code, fields = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": "g", "topic": "T"}
    assert json.loads(peer.ask(code, fields).body) == fields
    peer.heartbeat("c", consumer("g", {"T": "TagA"}, sub_version=5))
    told = json.loads(peer.ask(code, fields).body)
    assert (told["subscriptionData"]["subString"], told["group"]) == ("TagA", "g")


def test_everything_that_was_committed_is_told(peer: WirePeer) -> None:
    peer.create_topic("T", queues=2)
    assert shown(peer, RequestCode.GET_ALL_CONSUMER_OFFSET)["offsetTable"] == {}
    commit(peer, "g", "T", 5)
    commit(peer, "g", "T", 7, queue_id=1)
    body = peer.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body
    assert b'"T@g":{0:5,1:7}' in body


def test_time_spans_tell_how_old_the_backlog_is(broker: EmbeddedBroker, peer: WirePeer) -> None:
    begin = broker.clock.now_ms
    peer.create_topic("T", queues=2)
    for _ in range(3):
        peer.send("T")
        broker.clock.advance(10)

    def span() -> tuple[int, ...]:
        answer = peer.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "T", "group": "g"})
        one, empty = ConsumeTimeSpans.decode(answer.body).consume_time_span_set
        assert (empty.message_queue.queue_id, empty.min_time_stamp, empty.delay_time) == (1, -1, 0)
        stamps = (one.min_time_stamp, one.max_time_stamp, one.consume_time_stamp)
        return (*(stamp - begin for stamp in stamps), one.delay_time)

    seen = [span()]
    for offset in (2, 3):
        commit(peer, "g", "T", offset)
        seen.append(span())
    assert seen == [(0, 20_000, 0, 30_000), (0, 20_000, 10_000, 10_000), (0, 20_000, 20_000, 0)]
    fields = {"topic": "Unknown", "group": "g"}
    assert peer.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, fields).code == 17


def test_corrections_are_the_least_offsets_of_the_others(peer: WirePeer) -> None:
    peer.create_topic("T")
    for _ in range(9):
        peer.send("T")

    def least(**fields: str) -> dict[int, int]:
        told = shown(
            peer, RequestCode.QUERY_CORRECTION_OFFSET, topic="T", compareGroup="mine", **fields
        )
        return {int(queue): offset for queue, offset in told["correctionOffsets"].items()}

    assert least() == {}
    commit(peer, "a", "T", 5)
    commit(peer, "b", "T", 8)
    assert (least(), least(filterGroups="a")) == ({0: 5}, {0: 8})
    commit(peer, "mine", "T", 3)
    assert least(filterGroups="mine") == {0: 2**63 - 1}
    # What is left out stays as it is, unlike at a real broker.
    assert least(filterGroups="a,b,mine") == {0: 2**63 - 1}
    assert least() == {0: 3}


@pytest.mark.parametrize("fields", [{"topic": "T"}, {}])
def test_a_group_gets_the_offsets_of_another_one(peer: WirePeer, fields: dict[str, str]) -> None:
    for topic in ("T", "U"):
        peer.create_topic(topic)
        commit(peer, "from", topic, 5)
    commit(peer, "to", "T", 1)
    clone = {"srcGroup": "from", "destGroup": "to", "offline": "false"} | fields
    assert peer.ask(RequestCode.CLONE_GROUP_OFFSET, clone).code == 0
    table = shown(peer, RequestCode.GET_ALL_CONSUMER_OFFSET)["offsetTable"]
    assert table["T@to"] == {0: 5} or table["T@to"] == {"0": 5}
    assert ("U@to" in table) == (not fields)


def test_a_group_that_is_there_lends_only_what_it_subscribes_to(peer: WirePeer) -> None:
    for topic in ("T", "U"):
        peer.create_topic(topic)
        commit(peer, "from", topic, 5)
    peer.heartbeat("c", consumer("from", {"T": "*"}))
    clone = {"srcGroup": "from", "destGroup": "to"}
    keys = []
    for offline in ("false", "true"):
        peer.ask(RequestCode.CLONE_GROUP_OFFSET, clone | {"offline": offline})
        keys.append("U@to" in shown(peer, RequestCode.GET_ALL_CONSUMER_OFFSET)["offsetTable"])
    assert keys == [False, True]


def test_the_progress_of_all_groups_is_told(broker: EmbeddedBroker, peer: WirePeer) -> None:
    peer.create_topic("T")
    ordered = topic_fields("Ordered") | {"order": "true"}
    assert peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ordered).code == 0
    for topic in ("T", "Ordered"):
        for _ in range(4):
            peer.send(topic)
        commit(peer, "g", topic, 1)
    peer.pull("T", consumerGroup="g", maxMsgNums="3")

    def told(order: str) -> tuple[int, int | None, list[int]]:
        answer = peer.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": order})
        table = ConsumeStatsList.decode(answer.body)
        assert table.broker_addr == broker.addr
        rows = next(rows["g"] for rows in table.consume_stats_list if "g" in rows)
        offsets = [one.consumer_offset for row in rows for one in row.offset_table.values()]
        return table.total_diff, table.total_inflight_diff, offsets

    assert told("false") == (6, 2, [1, 1])
    assert told("true") == (3, 0, [1])
    commit(peer, "g", "T", 4)
    assert told("false") == (3, 0, [4, 1])


def test_4_9_has_no_messages_in_flight(start_broker: StartBroker, connect: Connect) -> None:
    peer = connect(start_broker(profile="rocketmq-4.9").addr)
    body = peer.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}).body
    assert b'"totalDiff":0' in body
    assert b"totalInflightDiff" not in body


def test_entries_of_a_queue_are_shown(peer: WirePeer) -> None:
    fields = {"topic": "T", "queueId": "0", "index": "1", "count": "2"}
    code = RequestCode.QUERY_CONSUME_QUEUE
    answer = peer.ask(code, fields)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "0@T is not exist!")
    for tag in "abcd":
        peer.send("T", properties={"TAGS": tag})
    told = json.loads(peer.ask(code, fields).body)
    assert (told["minQueueIndex"], told["maxQueueIndex"]) == (0, 4)
    assert [one["tagsCode"] for one in told["queueData"]] == [java_hash("b"), java_hash("c")]
    offset = str(told["queueData"][0]["physicOffset"])
    record = peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset}).body
    assert len(record) == told["queueData"][0]["physicSize"]
    asked = fields | {"consumerGroup": "g"}
    assert json.loads(peer.ask(code, asked).body)["filterData"] == "g@T is not online!"
    peer.heartbeat("c", consumer("g", {"T": "a"}))
    told = json.loads(peer.ask(code, asked).body)
    assert (told["subscriptionData"]["subString"], told["filterData"]) == ("a", "null")
    by_sql = consumer("g", {"T": "a = 7"}, sub_version=2, expression_type="SQL92")
    peer.heartbeat("c", by_sql)
    filter_data = json.loads(json.loads(peer.ask(code, asked).body)["filterData"])
    assert (filter_data["expression"], filter_data["clientVersion"]) == ("a = 7", 2)
    assert json.loads(peer.ask(code, fields | {"index": "9"}).body)["queueData"] == []
