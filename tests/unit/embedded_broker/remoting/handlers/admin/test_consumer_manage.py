"""Requests 38, 14 and 15."""

from __future__ import annotations

import pytest

from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.store.store_tools import delete_before
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, consumer

KEY = {"consumerGroup": "consumers", "topic": "T", "queueId": "0"}


def query(peer: WirePeer, **fields: str) -> RemotingCommand:
    return peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, KEY | fields)


@pytest.mark.case("W71")
def test_a_group_without_offset_starts_a_young_queue_at_0(peer: WirePeer) -> None:
    peer.create_topic("T")
    answer = query(peer)
    assert (answer.code, answer.ext_fields) == (0, {"offset": "0"})
    answer = query(peer, setZeroIfNotFound="false")
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.case("W72")
def test_a_queue_whose_begin_is_gone_has_no_offset_for_a_new_group(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(config={"mappedFileSizeCommitLog": 4096})
    peer = connect(broker.addr)
    for _ in range(12):
        assert peer.send("T", b"x" * 700).code == 0
    parts = broker._parts()
    with parts.door:
        delete_before(parts.store, 4096)
    assert query(peer).code == ResponseCode.QUERY_NOT_FOUND
    answer = peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
    assert answer.ext_fields == {"offset": "12"}


@pytest.mark.case("W73")
def test_a_committed_offset_is_given_back_as_it_was(peer: WirePeer) -> None:
    peer.create_topic("T")
    peer.heartbeat("c1", consumer("consumers", {"T": "*"}))
    peer.tell(RequestCode.UPDATE_CONSUMER_OFFSET, KEY | {"commitOffset": "7"})
    assert query(peer).ext_fields == {"offset": "7"}


@pytest.mark.case("W73")
@pytest.mark.parametrize(
    ("profile", "codes"), [("rocketmq-4.9", (0, 0)), ("rocketmq-5.x", (26, 17))]
)
def test_offsets_of_an_unknown_group_or_topic_are_taken_by_4_9_only(
    start_broker: StartBroker, connect: Connect, profile: str, codes: tuple[int, int]
) -> None:
    peer = connect(start_broker(profile=profile).addr)
    commit = KEY | {"commitOffset": "7"}
    unknown_group = peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    peer.heartbeat("c1", consumer("consumers", {"T": "*"}))
    unknown_topic = peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    assert (unknown_group.code, unknown_topic.code) == codes


@pytest.mark.case("W80")
def test_an_unknown_group_has_no_members_no_connections_and_an_empty_table(
    peer: WirePeer,
) -> None:
    fields = {"consumerGroup": "nobody"}
    listed = peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
    assert (listed.code, listed.remark) == (1, "no consumer for this group, nobody")
    connections = peer.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, fields)
    assert connections.code == ResponseCode.CONSUMER_NOT_ONLINE
    stats = peer.ask(RequestCode.GET_CONSUME_STATS, fields)
    assert (stats.code, stats.body) == (0, b'{"consumeTps":0.0,"offsetTable":{}}')
