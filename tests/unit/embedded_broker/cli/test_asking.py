"""Brokers are asked at their address or found through a name server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster
from embedded_broker.cli.asking import ask_brokers
from rocketmq_py import DefaultMQProducer, Message, NoRouteError
from rocketmq_py.protocol.bodies.topics import BrokerData, ClusterInfo
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.rocketmq_py.scripted import ScriptedServer


@pytest.fixture
def name_server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.close()


def test_a_name_server_leads_to_every_master() -> None:
    with (
        EmbeddedCluster(brokers=2) as cluster,
        DefaultMQProducer("P", namesrv_addr=cluster.namesrv_addr) as producer,
    ):
        for _ in range(8):
            producer.send(Message("T", b"x").set_delay_time_sec(600))
        reports = ask_brokers(cluster.namesrv_addr, now_ms=0)
        assert sorted(one.source for one in reports) == sorted(one.addr for one in cluster.brokers)
        assert sum(one.total or 0 for one in reports) == 8
        (one,) = ask_brokers(cluster.brokers[0].addr, now_ms=0, topic="other")
        assert (one.selected, one.topics, one.topic) == (0, (), "other")


def test_a_name_server_without_a_master_is_an_error(name_server: ScriptedServer) -> None:
    table = ClusterInfo({"b": BrokerData("c", "b", {1: "127.0.0.1:1"})})
    name_server.on(
        RequestCode.GET_BROKER_CLUSTER_INFO,
        lambda request, _: request.answer(ResponseCode.SUCCESS, body=table.encode()),
    )
    with pytest.raises(NoRouteError, match="no master"):
        ask_brokers(name_server.address, now_ms=0)


def test_each_refusal_is_a_warning_with_the_brokers_words(name_server: ScriptedServer) -> None:
    name_server.answer(RequestCode.GET_BROKER_CLUSTER_INFO, 3, "request type 106 not supported")
    name_server.answer(RequestCode.GET_BROKER_RUNTIME_INFO, 1, "NoSuchElementException")
    name_server.answer(RequestCode.GET_ALL_DELAY_OFFSET, 1, "no delay offset in this broker")
    name_server.answer(RequestCode.GET_TIMER_CHECK_POINT, 3)
    name_server.answer(RequestCode.GET_TIMER_METRICS, 3)
    (report,) = ask_brokers(name_server.address, now_ms=0)
    assert len(report.warnings) == 4
    assert report.warnings[0].endswith("code 1, NoSuchElementException")
    assert (report.total, report.stages) == (None, ())


def test_what_a_broker_refuses_to_tell_is_not_known(name_server: ScriptedServer) -> None:
    for code in (106, 28, 45, 60, 61):
        name_server.answer(RequestCode(code), 16, "No accessKey is configured")
    (report,) = ask_brokers(name_server.address, now_ms=0, topic="T")
    assert (report.total, report.selected, report.timers, report.in_levels) == (None,) * 4


def test_a_broker_that_is_older_than_timers_has_none() -> None:
    with EmbeddedBroker(profile="rocketmq-4.9") as broker:
        (report,) = ask_brokers(broker.addr, now_ms=0)
    assert (report.total, report.timers, report.in_levels) == (0, 0, 0)
    assert report.warnings
