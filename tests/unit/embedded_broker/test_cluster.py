"""Several brokers behind one name server, on one clock."""

from collections.abc import Callable
from pathlib import Path
from threading import enumerate as threads

import pytest

from embedded_broker import EmbeddedCluster, VirtualClock
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.routes import TopicRouteData
from tests.unit.embedded_broker.peers import RawClient

Dial = Callable[[str], RawClient]


def test_one_name_server_knows_the_topics_of_every_broker(dial: Dial) -> None:
    with EmbeddedCluster(brokers=3, topics=["T"]) as cluster:
        route = TopicRouteData.decode(dial(cluster.namesrv_addr).route("T").body)

        told = {data.broker_name: data.broker_addrs[0] for data in route.broker_datas}
        assert told == {broker.broker_name: broker.addr for broker in cluster.brokers}
        assert list(told) == ["broker-a", "broker-b", "broker-c"]
        for broker in cluster.brokers:
            assert dial(broker.addr).ask(9999).code == 3
    assert not [one for one in threads() if one.name.startswith("embedded-broker")]


def test_one_clock_moves_all_brokers_and_each_keeps_its_own_messages() -> None:
    clock = VirtualClock()
    with EmbeddedCluster(brokers=2, clock=clock, tcp=False, topics=["T"]) as cluster:
        for broker in cluster.brokers:
            broker.send("T", broker.broker_name.encode(), delay=5)

        assert cluster.clock.advance(5).fired == 2

        for broker in cluster.brokers:
            (message,) = broker.messages.in_topic("T")
            assert message.body == broker.broker_name.encode()
            assert message.stored_at == clock.now()


def test_brokers_are_found_by_name() -> None:
    cluster = EmbeddedCluster(brokers=2, broker_name="tills")

    assert cluster["tills-2"].broker_name == "tills-2"
    assert "tills, tills-2 not running" in repr(cluster)
    with pytest.raises(KeyError, match="there are tills, tills-2"):
        cluster["broker-a"]


def test_each_broker_has_a_directory_of_its_own(tmp_path: Path) -> None:
    for _ in range(2):
        with EmbeddedCluster(brokers=2, tcp=False, store=tmp_path, topics=["T"]) as cluster:
            cluster["broker-b"].send("T", b"x")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["broker-a", "broker-b"]
    with EmbeddedCluster(brokers=1, tcp=False, store=tmp_path / "broker-b") as cluster:
        assert cluster.brokers[0].topics["T"].count() == 2


@pytest.mark.parametrize("brokers", [0, 17])
def test_a_cluster_has_between_one_and_sixteen_brokers(brokers: int) -> None:
    with pytest.raises(ConfigError, match="from 1 to 16"):
        EmbeddedCluster(brokers=brokers)


def test_a_cluster_starts_and_ends_as_one_and_can_start_again() -> None:
    cluster = EmbeddedCluster(brokers=2, tcp=False)
    cluster.start()
    cluster.brokers[1].send("T", b"kept")
    cluster.close()
    cluster.close()
    assert not cluster.brokers[0].is_running

    with cluster:
        assert cluster.brokers[1].topics["T"].count() == 1
        assert cluster.brokers[0].journal is cluster.brokers[1].journal
