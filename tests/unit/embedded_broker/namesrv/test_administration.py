"""What administrators ask of the name server and change in it."""

from __future__ import annotations

import json

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.bodies.topics import QueueData, TopicList, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer, topic_fields

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
ORDER = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"}


@pytest.fixture
def names(broker: EmbeddedBroker, connect: Connect) -> WirePeer:
    """A connection to the name server."""
    return connect(broker.namesrv_addr)


def perm_of(names: WirePeer, topic: str) -> int:
    (data,) = TopicRouteData.decode(names.ask(ROUTE, {"topic": topic}).body).queue_datas
    return data.perm


def listed(names: WirePeer, code: int, **fields: str) -> list[str]:
    answer = names.ask(code, fields)
    assert answer.code == 0
    return TopicList.decode(answer.body).topic_list


def test_values_are_kept_by_namespace_and_key(names: WirePeer) -> None:
    value = {"namespace": "N", "key": "k"}
    answer = names.ask(RequestCode.GET_KV_CONFIG, value)
    assert (answer.code, answer.remark) == (22, "No config item, Namespace: N Key: k")
    assert names.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "N"}).code == 22
    for text in ("1", "2"):
        assert names.ask(RequestCode.PUT_KV_CONFIG, value | {"value": text}).code == 0
        assert names.ask(RequestCode.GET_KV_CONFIG, value).ext_fields == {"value": text}
    body = names.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "N"}).body
    assert json.loads(body) == {"table": {"k": "2"}}
    assert names.ask(RequestCode.DELETE_KV_CONFIG, value).code == 0
    assert names.ask(RequestCode.GET_KV_CONFIG, value).code == 22
    assert names.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "N"}).code == 1


def test_the_queues_of_an_ordered_topic_stand_in_its_route_when_that_is_switched_on(
    names: WirePeer, peer: WirePeer
) -> None:
    peer.create_topic("T")
    names.ask(RequestCode.PUT_KV_CONFIG, ORDER | {"value": "broker-a:4"})
    seen: list[str | None] = []
    for step in (None, b"orderMessageEnable=true\n", None):
        if step is not None:
            assert names.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=step).code == 0
        elif seen:
            names.ask(RequestCode.DELETE_KV_CONFIG, ORDER)
        route = TopicRouteData.decode(names.ask(ROUTE, {"topic": "T"}).body)
        seen.append(route.order_topic_conf)
    assert seen == [None, "broker-a:4", None]


def test_a_broker_loses_its_write_permission_and_gets_it_back(
    names: WirePeer, peer: WirePeer
) -> None:
    peer.create_topic("T")
    fields = {"brokerName": "broker-a"}
    wiped = names.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, fields).ext_fields
    assert perm_of(names, "T") == 4
    added = names.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, fields).ext_fields
    assert perm_of(names, "T") == perm_of(names, "TBW102") == 6
    count = len(listed(names, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
    assert wiped == {"wipeTopicCount": str(count)}
    assert added == {"addTopicCount": str(count)}
    names.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, fields)
    peer.create_topic("T", queues=2)  # announced anew
    assert perm_of(names, "T") == 6
    none = names.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "unknown"})
    assert none.ext_fields == {"wipeTopicCount": "0"}


@pytest.mark.parametrize("fields", [{}, {"clusterName": "DefaultCluster"}])
def test_a_route_is_forgotten(names: WirePeer, peer: WirePeer, fields: dict[str, str]) -> None:
    peer.create_topic("T")
    other = {"topic": "T", "clusterName": "Other"}
    assert names.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, other).code == 0
    assert names.ask(ROUTE, {"topic": "T"}).code == 0
    assert names.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T"} | fields).code == 0
    assert names.ask(ROUTE, {"topic": "T"}).code == 17
    assert names.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T"}).code == 0


def test_a_route_is_made_known_by_hand(names: WirePeer) -> None:
    def register(topic: str, broker: str) -> None:
        body = TopicRouteData(queue_datas=[QueueData(broker, 3, 3, 6)]).encode()
        code = RequestCode.REGISTER_TOPIC_IN_NAMESRV
        assert names.ask(code, {"topic": topic}, body).code == 0

    register("T", "broker-a")
    register("Void", "broker-z")
    route = TopicRouteData.decode(names.ask(ROUTE, {"topic": "T"}).body)
    assert [one.write_queue_nums for one in route.queue_datas] == [3]
    assert names.ask(ROUTE, {"topic": "Void"}).code == 17


def test_the_topics_of_a_cluster_and_the_system_topics_are_listed(
    broker: EmbeddedBroker, names: WirePeer, peer: WirePeer
) -> None:
    code = RequestCode.GET_TOPICS_BY_CLUSTER
    assert "T" not in listed(names, code, cluster="DefaultCluster")
    peer.create_topic("T")
    assert "T" in listed(names, code, cluster="DefaultCluster")
    assert listed(names, code, cluster="Other") == []
    answer = names.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    assert json.loads(answer.body) == {
        "brokerAddr": broker.addr,
        "topicList": ["DefaultCluster", "broker-a"],
    }


def test_topics_of_units_are_listed(names: WirePeer, peer: WirePeer) -> None:
    for topic, flags in (("Plain", 0), ("Unit", 1), ("Sub", 2), ("Both", 3)):
        fields = topic_fields(topic) | {"topicSysFlag": str(flags)}
        assert peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields).code == 0
    assert listed(names, RequestCode.GET_UNIT_TOPIC_LIST) == ["Unit", "Both"]
    assert listed(names, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["Sub", "Both"]
    assert listed(names, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["Sub"]


def test_options_are_shown_and_changed(names: WirePeer) -> None:
    body = b"enableTopicList=false\nenableAllTopicList=false\nserverWorkerThreads=9\n"
    assert b"enableTopicList=true\n" in names.ask(RequestCode.GET_NAMESRV_CONFIG).body
    assert names.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body).code == 0
    assert b"enableTopicList=false\n" in names.ask(RequestCode.GET_NAMESRV_CONFIG).body
    for code in (
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_TOPICS_BY_CLUSTER,
    ):
        answer = names.ask(code, {"cluster": "DefaultCluster"})
        assert (answer.code, answer.remark) == (1, "disable")
    black = names.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"rocketmqHome=/tmp\n")
    assert (black.code, black.remark) == (16, "Can not update config in black list.")
    assert names.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"nothing").code == 1


def test_4_9_does_not_know_217(start_broker: StartBroker, connect: Connect) -> None:
    """A name server of 4.9 answers nothing to what it does not know."""
    names = connect(start_broker(profile="rocketmq-4.9").namesrv_addr)
    opaque = names.post(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "T"})
    assert names.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0
    assert opaque not in names._answers
