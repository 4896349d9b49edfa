"""Brokers of other processes register at the name server: requests 103, 104, 322 and 904."""

from __future__ import annotations

from zlib import compress, crc32

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.bodies.replication import GetBrokerMemberGroupResponseBody
from rocketmq_py.protocol.bodies.topics import (
    DataVersion,
    KVTable,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
    TopicList,
    TopicRouteData,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer

OTHER = "10.0.0.9:10911"
VERSION = DataVersion(counter=3, state_version=0, timestamp=1_700_000_000_000)


def body(*topics: str, version: DataVersion = VERSION, perm: int = 6) -> bytes:
    table = {name: TopicConfig(name, 2, 2, perm=perm) for name in (*topics, "of-every-broker")}
    return RegisterBrokerBody(TopicConfigTable(version, table)).encode()


def fields(name: str, broker_id: int = 0, **more: str) -> dict[str, str]:
    return {
        "brokerName": name,
        "brokerAddr": OTHER,
        "clusterName": "DefaultCluster",
        "haServerAddr": "10.0.0.9:10912",
        "brokerId": str(broker_id),
        "compressed": "false",
        **more,
    }


def register(peer: WirePeer, name: str, *topics: str, broker_id: int = 0) -> RemotingCommand:
    return peer.ask(RequestCode.REGISTER_BROKER, fields(name, broker_id), body(*topics))


def addresses(peer: WirePeer, topic: str) -> dict[str, dict[int, str]] | None:
    answer = peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    if answer.code != ResponseCode.SUCCESS:
        return None
    route = TopicRouteData.decode(answer.body)
    return {one.broker_name: one.broker_addrs for one in route.broker_datas}


def test_a_broker_of_another_process_has_routes_until_it_says_goodbye(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(broker.namesrv_addr)
    assert register(peer, "b", "T").code == ResponseCode.SUCCESS
    assert addresses(peer, "T") == {"b": {0: OTHER}}
    assert peer.ask(RequestCode.UNREGISTER_BROKER, fields("b")).code == ResponseCode.SUCCESS
    assert addresses(peer, "T") is None
    assert peer.ask(RequestCode.UNREGISTER_BROKER, fields("b")).code == ResponseCode.SUCCESS


def test_a_slave_learns_where_its_master_is(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(config={"haListenPort": 0}, topics=["T"])
    peer = connect(broker.namesrv_addr)
    answer = register(peer, "broker-a", "T", broker_id=1)
    assert answer.ext_fields["masterAddr"] == broker.addr
    assert answer.ext_fields["haServerAddr"] == broker.ha_addr
    assert addresses(peer, "T") == {"broker-a": {0: broker.addr, 1: OTHER}}
    alone = register(peer, "b", "T", broker_id=1)
    assert "masterAddr" not in alone.ext_fields


def test_a_broker_whose_connection_ends_is_gone(broker: EmbeddedBroker, connect: Connect) -> None:
    leaving, peer = connect(broker.namesrv_addr), connect(broker.namesrv_addr)
    assert register(leaving, "b", "T").code == ResponseCode.SUCCESS
    assert addresses(peer, "T") == {"b": {0: OTHER}}
    leaving.close()
    broker.wait_for(lambda _: addresses(peer, "T") != {"b": {0: OTHER}})
    assert addresses(peer, "T") is None


def test_a_silent_broker_is_forgotten_and_one_that_speaks_is_not(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    broker = start_broker(session_clock=session)
    peer = connect(broker.namesrv_addr)
    register(peer, "b", "T")
    for code, text in (
        (RequestCode.BROKER_HEARTBEAT, b""),
        (RequestCode.QUERY_DATA_VERSION, VERSION.encode()),
    ):
        session.advance(119)
        assert peer.ask(code, fields("b"), text).code == ResponseCode.SUCCESS
    session.advance(119)
    assert addresses(peer, "T") is not None
    session.advance(2)
    assert addresses(peer, "T") is None


def test_a_broker_says_itself_how_long_it_may_be_silent(
    start_broker: StartBroker, connect: Connect
) -> None:
    session = VirtualClock()
    broker = start_broker(session_clock=session)
    peer = connect(broker.namesrv_addr)
    soon = fields("b", heartbeatTimeoutMillis="10000")
    peer.ask(RequestCode.REGISTER_BROKER, soon, body("T"))
    session.advance(11)
    assert addresses(peer, "T") is None


def test_322_tells_whether_topics_have_changed(broker: EmbeddedBroker, connect: Connect) -> None:
    peer = connect(broker.namesrv_addr)
    newer = DataVersion(counter=4, timestamp=VERSION.timestamp)
    told = []
    for known in (False, True):
        if known:
            register(peer, "b", "T")
        for version in (VERSION, newer):
            answer = peer.ask(RequestCode.QUERY_DATA_VERSION, fields("b"), version.encode())
            told.append((answer.ext_fields["changed"], bool(answer.body)))
    assert told == [("true", False), ("true", False), ("false", True), ("true", True)]


def test_topics_of_a_version_that_is_known_are_not_taken_again(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(broker.namesrv_addr)
    perms = []
    for counter, perm in ((3, 6), (3, 4), (4, 4)):
        version = DataVersion(counter=counter, timestamp=VERSION.timestamp)
        text = body("T", version=version, perm=perm)
        peer.ask(RequestCode.REGISTER_BROKER, fields("b"), text)
        route = peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}).body
        perms.append(TopicRouteData.decode(route).queue_datas[0].perm)
    assert perms == [6, 6, 4]


@pytest.mark.parametrize(
    ("more", "text", "remark"),
    [
        ({"bodyCrc32": "1"}, body("T"), "crc32 not match"),
        ({"compressed": "true"}, body("T"), "no zlib stream"),
        ({}, body(), "register broker failed"),
    ],
)
def test_what_cannot_be_registered_is_1(
    broker: EmbeddedBroker, connect: Connect, more: dict[str, str], text: bytes, remark: str
) -> None:
    answer = connect(broker.namesrv_addr).ask(
        RequestCode.REGISTER_BROKER, {**fields("b"), **more}, text
    )
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert remark in (answer.remark or "")


def test_a_checksum_that_fits_is_taken_and_ordered_topics_are_told(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peer, text = connect(broker.namesrv_addr), body("T")
    values = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "b:2"}
    peer.ask(RequestCode.PUT_KV_CONFIG, values)
    checksum = str(crc32(text) & 0x7FFF_FFFF)
    answer = peer.ask(RequestCode.REGISTER_BROKER, fields("b", bodyCrc32=checksum), text)
    assert KVTable.decode(answer.body).table == {"T": "b:2"}


def test_a_compressed_registration_is_taken_and_counts_with_its_checksum(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(broker.namesrv_addr)
    parts = (VERSION.encode(), "T 1 2 6 SINGLE_TAG ", "U 1 1 4 SINGLE_TAG ", "[]")
    texts = [one if isinstance(one, bytes) else one.encode() for one in parts]
    head, *rest = [len(one).to_bytes(4, "big") + one for one in texts]
    text = compress(head + (2).to_bytes(4, "big") + b"".join(rest))
    packed = fields("b", bodyCrc32=str(crc32(text) & 0x7FFF_FFFF)) | {"compressed": "true"}
    assert addresses(peer, "T") is None
    assert peer.ask(RequestCode.REGISTER_BROKER, packed, text).code == ResponseCode.SUCCESS
    assert addresses(peer, "T") == {"b": {0: OTHER}}
    asked = peer.ask(RequestCode.QUERY_DATA_VERSION, fields("b"), VERSION.encode())
    assert asked.ext_fields == {"changed": "false"}


def test_901_lists_the_master_and_the_slaves_of_a_name(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(broker.namesrv_addr)

    def members(name: str) -> dict[int, str]:
        asked = {"clusterName": "DefaultCluster", "brokerName": name}
        answer = peer.ask(RequestCode.GET_BROKER_MEMBER_GROUP, asked)
        group = GetBrokerMemberGroupResponseBody.decode(answer.body).broker_member_group
        assert (group.cluster, group.broker_name) == ("DefaultCluster", name)
        return group.broker_addrs

    assert members("broker-a") == {0: broker.addr}
    register(peer, "broker-a", "T", broker_id=1)
    assert members("broker-a") == {0: broker.addr, 1: OTHER}
    assert members("nobody") == {}
    peer.ask(RequestCode.UNREGISTER_BROKER, fields("broker-a", 1))
    assert members("broker-a") == {0: broker.addr}


def test_a_broker_that_registers_is_among_the_system_topics(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(broker.namesrv_addr)
    told = []
    for code in (RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER):
        place = fields("b") | {"clusterName": "C"}
        assert peer.ask(code, place, body("T")).code == ResponseCode.SUCCESS
        answer = peer.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        told.append(TopicList.decode(answer.body).topic_list)
    assert told == [["DefaultCluster", "broker-a", "C", "b"], ["DefaultCluster", "broker-a"]]
