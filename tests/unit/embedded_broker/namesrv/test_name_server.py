"""Requests 105, 106 and 206, asked over TCP."""

from __future__ import annotations

import json

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.bodies.topics import ClusterInfo, TopicList, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


@pytest.mark.case("W21")
def test_an_unknown_topic_is_17_with_the_fixed_remark(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    answer = connect(broker.namesrv_addr).ask(ROUTE, {"topic": "Nope"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    remark = answer.remark or ""
    assert remark.startswith("No topic route info in name server for the topic: Nope")


@pytest.mark.case("W22")
def test_old_requests_get_bare_broker_ids_and_new_ones_quoted(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    peer = connect(broker.namesrv_addr)
    old = peer.ask(ROUTE, {"topic": "TBW102"}, version=399).body
    new = peer.ask(ROUTE, {"topic": "TBW102"}, version=401).body
    assert b'{0:"' + broker.addr.encode() in old
    assert b'{"0":"' + broker.addr.encode() in new
    assert json.loads(new)["queueDatas"][0]["brokerName"] == "broker-a"
    assert TopicRouteData.decode(old) == TopicRouteData.decode(new)


@pytest.mark.case("W23")
def test_a_caller_may_ask_for_standard_json(broker: EmbeddedBroker, connect: Connect) -> None:
    fields = {"topic": "TBW102", "acceptStandardJsonOnly": "true"}
    body = connect(broker.namesrv_addr).ask(ROUTE, fields, version=399).body
    assert b'{"0":"' in body


def test_a_changed_topic_changes_its_route(broker: EmbeddedBroker, connect: Connect) -> None:
    admin, asking = connect(broker.addr), connect(broker.namesrv_addr)
    seen = []
    for queues, perm in ((2, 6), (3, 4)):
        admin.create_topic("T", queues=queues, perm=perm)
        route = TopicRouteData.decode(asking.ask(ROUTE, {"topic": "T"}).body)
        (data,) = route.queue_datas
        seen.append((data.read_queue_nums, data.write_queue_nums, data.perm))
    assert seen == [(2, 2, 6), (3, 3, 4)]


def test_the_clusters_and_their_brokers_are_listed(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(cluster_name="C", broker_name="b")
    answer = connect(broker.namesrv_addr).ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    info = ClusterInfo.decode(answer.body)
    assert info.cluster_addr_table == {"C": ["b"]}
    assert info.broker_addr_table["b"].broker_addrs == {0: broker.addr}
    assert b'"brokerAddrs":{0:"' in answer.body


def test_all_topics_are_listed_system_topics_included(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    connect(broker.addr).create_topic("T")
    answer = connect(broker.namesrv_addr).ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    names = TopicList.decode(answer.body).topic_list
    assert {"T", "TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"} <= set(names)


def test_a_broker_on_all_interfaces_is_announced_as_the_client_reached_it(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(host="0.0.0.0", allow_remote=True)  # noqa: S104 - what is tested
    port = broker.namesrv_addr.rpartition(":")[2]
    body = connect(f"127.0.0.1:{port}").ask(ROUTE, {"topic": "TBW102"}).body
    (data,) = TopicRouteData.decode(body).broker_datas
    assert data.broker_addrs == {0: "127.0.0.1:" + broker.addr.rpartition(":")[2]}


def test_a_read_only_broker_is_announced_without_write_permission(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(topics=["T"])
    asking = connect(broker.namesrv_addr)
    seen = []
    for perm in (6, 4):
        broker.config.update(brokerPermission=perm)
        (data,) = TopicRouteData.decode(asking.ask(ROUTE, {"topic": "T"}).body).queue_datas
        seen.append(data.perm)
    assert seen == [6, 4]
