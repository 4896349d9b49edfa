"""Requests 12 and 33."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.embedded_broker.wire_peer import WirePeer, bodies, records


def query(peer: WirePeer, key: str, **fields: str) -> RemotingCommand:
    ext = {
        "topic": "T",
        "key": key,
        "maxNum": "32",
        "beginTimestamp": "0",
        "endTimestamp": str(2**63 - 1),
        "_UNIQUE_KEY_QUERY": "false",
    }
    return peer.ask(RequestCode.QUERY_MESSAGE, ext | fields)


@pytest.mark.case("W94")
def test_messages_are_found_by_each_of_their_keys_and_by_their_id(peer: WirePeer) -> None:
    peer.send("T", b"hello", {"KEYS": "k1 k2"})
    for key, unique in (("k1", "false"), ("k2", "false"), ("ID0001", "true")):
        answer = query(peer, key, _UNIQUE_KEY_QUERY=unique)
        assert bodies(answer) == [b"hello"]
    assert set(answer.ext_fields) == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
    missing = query(peer, "k3")
    assert missing.code == ResponseCode.QUERY_NOT_FOUND
    assert missing.remark == "can not find message, maybe time range not correct"


def test_hits_come_in_the_order_of_the_log_and_within_the_range(
    broker: EmbeddedBroker, peer: WirePeer
) -> None:
    begin = broker.clock.now_ms
    for body in (b"a", b"b", b"c"):
        peer.send("T", body, {"KEYS": "k"})
        broker.clock.advance(10)
    assert bodies(query(peer, "k")) == [b"a", b"b", b"c"]
    assert bodies(query(peer, "k", maxNum="2")) == [b"b", b"c"]
    answer = query(peer, "k", beginTimestamp=str(begin + 5_000), endTimestamp=str(begin + 15_000))
    assert bodies(answer) == [b"b"]


def test_a_record_is_shown_by_its_offset_and_nothing_else_is(peer: WirePeer) -> None:
    peer.send("T", b"a")
    peer.send("T", b"b")
    second = records(peer.pull("T"))[1]
    offset = second.commit_log_offset
    answer = peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(offset)})
    assert bodies(answer) == [b"b"]
    for wrong in (offset + 1, 10**9, -5):
        answer = peer.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(wrong)})
        assert answer.code == 1
        assert answer.remark == f"can not find message by the offset, {wrong}"
