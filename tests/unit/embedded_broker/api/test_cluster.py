"""Several brokers behind one name server, on one clock."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import enumerate as threads

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster, VirtualClock
from embedded_broker.errors import BrokerStateError, StoreLockedError
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    QueueAccess,
)
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.bodies.topics import TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
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


def queues_of(cluster: EmbeddedCluster) -> Counter[str]:
    """How many queues of topic T each broker has in the routes."""
    with QueueAccess(namesrv_addr=cluster.namesrv_addr) as access:
        return Counter(queue.broker_name for queue in access.read_queues("T"))


def held(cluster: EmbeddedCluster) -> dict[str, int]:
    return {
        broker.broker_name: broker.topics["T"].count()
        for broker in cluster.brokers
        if broker.is_running
    }


@pytest.mark.case("K25")
@pytest.mark.parametrize("transport", ["tcp", "inproc"])
def test_sends_go_on_without_a_stopped_broker_and_its_timers_fire_when_it_is_back(
    transport: str,
) -> None:
    clock = VirtualClock()
    with (
        EmbeddedCluster(clock=clock, tcp=transport == "tcp", topics=["T"]) as cluster,
        DefaultMQProducer(
            "P",
            namesrv_addr=cluster.namesrv_addr,
            transport="tcp" if transport == "tcp" else "auto",
            poll_name_server_interval=20,
        ) as producer,
    ):
        for number in range(12):
            producer.send(Message("T", b"before %d" % number))
        before = held(cluster)
        assert all(before.values())
        cluster["broker-b"].send("T", b"waits", delay=60)
        address = cluster["broker-b"].addr

        cluster.stop("broker-b")
        cluster.stop("broker-b")

        assert queues_of(cluster) == {"broker-a": 4, "broker-c": 4}
        for number in range(12):
            result = producer.send(Message("T", b"meanwhile %d" % number))
            assert result.message_queue.broker_name != "broker-b"
        assert clock.advance(120).fired == 0

        cluster.start("broker-b")

        back = cluster["broker-b"]
        assert (back.is_running, back.addr) == (True, address)
        assert queues_of(cluster) == {"broker-a": 4, "broker-b": 4, "broker-c": 4}
        back.wait_delivered("T", before["broker-b"] + 1)
        assert b"waits" in {message.body for message in back.messages.in_topic("T")}

        def is_sent_to_again(_broker: EmbeddedBroker) -> bool:
            result = producer.send(Message("T", b"after"))
            return result.message_queue.broker_name == "broker-b"

        back.wait_for(is_sent_to_again)
        with pytest.raises(BrokerStateError, match="broker-b is already running"):
            cluster.start("broker-b")


def test_settling_takes_consumers_to_the_brokers_that_are_there_now() -> None:
    got: list[bytes] = []

    def listen(messages: list[MessageExt], _context: object) -> ConsumeConcurrentlyStatus:
        got.extend(one.body for one in messages)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    clock = VirtualClock()
    with EmbeddedCluster(brokers=2, clock=clock, tcp=False, topics=["T"]) as cluster:
        consumer = DefaultMQPushConsumer("C", namesrv_addr=cluster.namesrv_addr)
        consumer.subscribe("T", "*")
        consumer.register_message_listener(listen)
        with consumer:

            def brokers() -> set[str]:
                return {one.broker_name for one in consumer.assigned_queues()}

            clock.settle()
            cluster.stop("broker-b")
            clock.settle()
            assert brokers() == {"broker-a"}
            cluster.start("broker-b")
            clock.settle()
            assert brokers() == {"broker-a", "broker-b"}
            cluster.add("broker-c").send("T", b"new")
            clock.settle()
            assert brokers() == {"broker-a", "broker-b", "broker-c"}
            assert got == [b"new"]


def test_the_first_broker_may_leave_and_the_name_server_answers_on(dial: Dial) -> None:
    with EmbeddedCluster(brokers=2, topics=["T"]) as cluster:
        name_server, first = dial(cluster.namesrv_addr), dial(cluster["broker-a"].addr)
        other = dial(cluster["broker-b"].addr)

        cluster.stop("broker-a")

        assert first.closed_by_server()
        route = TopicRouteData.decode(name_server.route("T").body)
        assert [data.broker_name for data in route.broker_datas] == ["broker-b"]
        assert other.ask(9999).code == 3
        with pytest.raises(BrokerStateError, match="call start"):
            cluster["broker-a"].send("T", b"x")
        with pytest.raises(BrokerStateError, match="broker-a does not run"):
            cluster["broker-a"].reset()
        assert cluster["broker-b"].is_running
        with pytest.raises(ConnectionRefusedError):
            dial(cluster["broker-a"].addr)
        cluster.stop("broker-b")
        assert name_server.route("T").code == ResponseCode.TOPIC_NOT_EXIST
        cluster.start("broker-a")
        assert dial(cluster["broker-a"].addr).ask(9999).code == 3
        refused = cluster["broker-a"].faults.on(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        refused.respond(ResponseCode.SYSTEM_BUSY)
        assert name_server.route("T").code == ResponseCode.SYSTEM_BUSY
    assert not [one for one in threads() if one.name.startswith("embedded-broker")]


@pytest.mark.parametrize("tcp", [True, False])
def test_a_broker_joins_while_the_others_run_and_stays_a_member(tcp: bool) -> None:
    clock = VirtualClock()
    with EmbeddedCluster(brokers=1, clock=clock, tcp=tcp, topics=["T"]) as cluster:
        joined = cluster.add()

        assert joined.broker_name == "broker-b"
        assert queues_of(cluster) == {"broker-a": 4, "broker-b": 4}
        joined.send("T", b"x", delay=5)
        assert clock.advance(5).fired == 1
        assert joined.journal is cluster["broker-a"].journal
        with pytest.raises(ConfigError, match="no other broker of the cluster has"):
            cluster.add("broker-a")
    assert not joined.is_running
    assert not [one for one in threads() if one.name.startswith("embedded-broker")]
    with cluster:
        assert cluster["broker-b"].topics["T"].count() == 1


def test_a_broker_that_cannot_join_leaves_the_cluster_as_it_was(tmp_path: Path) -> None:
    with (
        EmbeddedCluster(brokers=1, store=tmp_path / "broker-c", tcp=False),
        EmbeddedCluster(brokers=2, store=tmp_path, topics=["T"]) as cluster,
    ):
        with pytest.raises(StoreLockedError):
            cluster.add()

        assert held(cluster) == {"broker-a": 0, "broker-b": 0}
        assert [one.broker_name for one in cluster.brokers] == ["broker-a", "broker-b"]
        assert cluster.add("broker-d").is_running
    alone = EmbeddedCluster(brokers=1, store=tmp_path / "alone")
    with pytest.raises(ConfigError, match="create the cluster with brokers=2"):
        alone.add()


def test_a_cluster_that_does_not_run_has_nobody_to_stop() -> None:
    cluster = EmbeddedCluster(brokers=2, tcp=False)
    with pytest.raises(BrokerStateError, match="call start"):
        cluster.stop("broker-a")
    cluster.add()
    with cluster:
        assert [one.is_running for one in cluster.brokers] == [True] * 3


def test_one_broker_may_be_read_only_and_one_slow() -> None:
    session = VirtualClock()
    with (
        EmbeddedCluster(brokers=2, tcp=False, session_clock=session, topics=["T"]) as cluster,
        QueueAccess(namesrv_addr=cluster.namesrv_addr) as access,
    ):
        cluster.read_only("broker-a")
        assert {queue.broker_name for queue in access.write_queues("T")} == {"broker-b"}
        assert queues_of(cluster) == {"broker-a": 4, "broker-b": 4}
        cluster.read_only("broker-a", on=False)
        assert len(queues_of(cluster)) == 2

        queues = {queue.broker_name: queue for queue in access.read_queues("T")}
        with cluster.slow("broker-a", 2) as slow:
            late = access.pull(queues["broker-a"], 0)
            access.pull(queues["broker-b"], 0).result(30)
            cluster["broker-a"].wait_for(lambda _: slow.hits)  # it waits from there on
            assert not late.done()
            session.advance(2)
            late.result(30)
        access.pull(queues["broker-a"], 0).result(30)
