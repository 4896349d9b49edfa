"""Requests 202, 208, 29 to 32, 41 and 42."""

from __future__ import annotations

import json

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.groups import ConsumeStats, LockBatchResponse
from rocketmq_py.protocol.bodies.topics import TopicStatsTable
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, consumer

# -- tables ---------------------------------------------------------------------------------


def test_topic_stats_show_every_queue(broker: EmbeddedBroker, peer: WirePeer) -> None:
    peer.create_topic("T", queues=2)
    peer.send("T", e="1")
    answer = peer.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "T"})
    assert b'{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{' in answer.body
    table = TopicStatsTable.decode(answer.body).offset_table
    shown = {
        queue.queue_id: (one.min_offset, one.max_offset, one.last_update_timestamp)
        for queue, one in table.items()
    }
    assert shown == {0: (0, 0, 0), 1: (0, 1, broker.clock.now_ms)}
    answer = peer.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "Unknown"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


def test_consume_stats_show_how_far_a_group_is(broker: EmbeddedBroker, peer: WirePeer) -> None:
    peer.create_topic("T")
    peer.send("T")
    peer.send("T")
    peer.heartbeat("c1", consumer("g", {"T": "*"}))
    peer.ask(
        RequestCode.UPDATE_CONSUMER_OFFSET,
        {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": "1"},
    )
    for fields in ({}, {"topic": "T"}, {"topicList": "T;"}):
        answer = peer.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"} | fields)
        table = ConsumeStats.decode(answer.body).offset_table
        one = table[MessageQueueKey("T", "broker-a", 0)]
        assert (one.broker_offset, one.consumer_offset, one.pull_offset) == (2, 1, 1)
        assert one.last_timestamp == broker.clock.now_ms
    other = {"consumerGroup": "g", "topic": "Other"}
    answer = peer.ask(RequestCode.GET_CONSUME_STATS, other)
    assert ConsumeStats.decode(answer.body).offset_table == {}


@pytest.mark.parametrize(
    ("profile", "shown"), [("rocketmq-5.x", [3, 2, 2, 4]), ("rocketmq-4.9", [0] * 4)]
)
def test_how_far_pulls_have_come_is_told_apart_from_what_is_committed(
    start_broker: StartBroker, connect: Connect, profile: str, shown: list[int]
) -> None:
    """4.9 does not tell it; Java reads 0."""
    peer = connect(start_broker(profile=profile).addr)
    peer.create_topic("T")
    for _ in range(5):
        peer.send("T")

    def told() -> int:
        fields = {"consumerGroup": "consumers", "topic": "T"}
        answer = peer.ask(RequestCode.GET_CONSUME_STATS, fields)
        assert (b"pullOffset" in answer.body) == (profile == "rocketmq-5.x")
        one = ConsumeStats.decode(answer.body).offset_table[MessageQueueKey("T", "broker-a", 0)]
        return one.pull_offset or 0

    seen = []
    for offset, most in ((0, 3), (0, 2)):
        peer.pull("T", offset, maxMsgNums=str(most))
        seen.append(told())
    for committed in (1, 4):
        fields = {"consumerGroup": "consumers", "topic": "T", "queueId": "0"}
        peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields | {"commitOffset": str(committed)})
        seen.append(told())
    assert seen == shown


# -- queue offsets --------------------------------------------------------------------------


@pytest.mark.case("W74")
@pytest.mark.case("W75")
@pytest.mark.parametrize(
    ("profile", "boundary", "inside", "behind"),
    [
        ("rocketmq-4.9", None, "1", "2"),
        ("rocketmq-5.x", "LOWER", "2", "3"),
        ("rocketmq-5.x", None, "2", "3"),
        ("rocketmq-5.x", "UPPER", "1", "2"),
    ],
)
def test_offsets_are_found_by_store_time(
    start_broker: StartBroker,
    connect: Connect,
    profile: str,
    boundary: str | None,
    inside: str,
    behind: str,
) -> None:
    broker = start_broker(profile=profile)
    peer = connect(broker.addr)
    begin = broker.clock.now_ms
    for _ in range(3):
        broker.clock.advance(10)
        peer.send("T")
    found = []
    for seconds in (24, 99):
        fields = {"topic": "T", "queueId": "0", "timestamp": str(begin + seconds * 1000)}
        if boundary is not None:
            fields["boundaryType"] = boundary
        answer = peer.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields)
        found.append(answer.ext_fields["offset"])
    assert found == [inside, behind]


@pytest.mark.case("W76")
def test_an_empty_topic_has_the_offsets_0_0_and_the_time_minus_1(peer: WirePeer) -> None:
    peer.create_topic("T")
    fields = {"topic": "T", "queueId": "0"}
    assert peer.ask(RequestCode.GET_MAX_OFFSET, fields).ext_fields == {"offset": "0"}
    assert peer.ask(RequestCode.GET_MIN_OFFSET, fields).ext_fields == {"offset": "0"}
    answer = peer.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, fields)
    assert answer.ext_fields == {"timestamp": "-1"}


def test_offsets_and_times_of_a_filled_queue(broker: EmbeddedBroker, peer: WirePeer) -> None:
    begin = broker.clock.now_ms
    peer.send("T")
    broker.clock.advance(1)
    peer.send("T")
    fields = {"topic": "T", "queueId": "0"}
    assert peer.ask(RequestCode.GET_MAX_OFFSET, fields).ext_fields == {"offset": "2"}
    answer = peer.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, fields)
    assert answer.ext_fields == {"timestamp": str(begin)}


def test_an_unknown_boundary_is_refused(peer: WirePeer) -> None:
    fields = {"topic": "T", "queueId": "0", "timestamp": "0", "boundaryType": "MIDDLE"}
    assert peer.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields).code == 1


# -- locks ----------------------------------------------------------------------------------


def locks(peer: WirePeer, code: int, client_id: str, *queue_ids: int) -> list[int]:
    queues = [
        {"topic": "T", "brokerName": "broker-a", "queueId": queue_id} for queue_id in queue_ids
    ]
    body = {"consumerGroup": "g", "clientId": client_id, "mqSet": queues}
    answer = peer.ask(code, body=json.dumps(body).encode())
    assert answer.code == 0
    if not answer.body:
        return []
    return [queue.queue_id for queue in LockBatchResponse.decode(answer.body).lock_ok_mq_set]


LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ


@pytest.mark.case("W83")
def test_a_locked_queue_is_free_for_others_after_60_seconds(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    peer = connect(start_broker(session_clock=session).addr)
    assert locks(peer, LOCK, "X", 0) == [0]
    assert locks(peer, LOCK, "Y", 0, 1) == [1]
    session.advance(59)
    assert locks(peer, LOCK, "Y", 0, 1) == [1]
    session.advance(1)
    assert locks(peer, LOCK, "Y", 0, 1) == [0, 1]


@pytest.mark.case("W84")
def test_only_the_owner_can_unlock(peer: WirePeer) -> None:
    assert locks(peer, LOCK, "X", 0) == [0]
    locks(peer, UNLOCK, "Y", 0)
    assert locks(peer, LOCK, "Y", 0) == []
    locks(peer, UNLOCK, "X", 0)
    assert locks(peer, LOCK, "Y", 0) == [0]
