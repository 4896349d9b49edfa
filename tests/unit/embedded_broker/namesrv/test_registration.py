"""A broker's tie to its name server over the broker's life."""

from __future__ import annotations

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.bodies.topics import TopicRouteData
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.embedded_broker.wire_peer import Connect, consumer


def test_a_broker_is_known_while_it_runs_and_no_longer() -> None:
    with EmbeddedBroker(tcp=False, broker_name="b") as broker:
        routes = broker._running_brokers._running().namesrv.routes
        assert list(routes.clusters().broker_addr_table) == ["b"]
    assert routes.clusters().broker_addr_table == {}
    assert routes.topic_names() == []


def test_a_topic_made_by_a_heartbeat_has_a_route_at_once(
    broker: EmbeddedBroker, connect: Connect
) -> None:
    connect(broker.addr).heartbeat("c1", consumer("g", {"T": "*"}))
    answer = connect(broker.namesrv_addr).ask(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "%RETRY%g"}
    )
    (data,) = TopicRouteData.decode(answer.body).queue_datas
    assert (data.read_queue_nums, data.perm) == (1, 6)
