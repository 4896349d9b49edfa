from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker, EmbeddedCluster, GrpcOptions, TopicSpec, VirtualClock
from embedded_broker.grpc.schema import Permission
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.rpc import Rpc
from tests.unit.embedded_broker.grpc.conftest import Open
from tests.unit.embedded_broker.grpc.raw_client import RawClient, gathered, handles
from tests.unit.embedded_broker.grpc.test_receiving import put_group


def put_topic(broker: EmbeddedBroker, name: str, reads: int, writes: int, perm: int) -> None:
    parts = broker._parts()
    with parts.door:
        parts.tables.topics.put(TopicConfig(name, reads, writes, perm))


@pytest.mark.case("G8")
def test_a_route_says_what_may_be_done_with_each_queue(
    broker: EmbeddedBroker, client: RawClient
) -> None:
    put_topic(broker, "Wide", 6, 4, 6)
    queues = client.route("Wide").message_queues
    expected = [Permission.READ] * 2 + [Permission.READ_WRITE] * 4
    assert [(one.id, one.permission) for one in queues] == list(enumerate(expected))
    assert {(one.broker.name, one.broker.id) for one in queues} == {("broker-a", 0)}
    for perm, permission, number in ((4, Permission.READ, 6), (2, Permission.WRITE, 4)):
        put_topic(broker, "Wide", 6, 4, perm)
        found = [one.permission for one in client.route("Wide").message_queues]
        assert found == [permission] * number
    put_topic(broker, "Wide", 6, 4, 0)
    assert [one.permission for one in client.route("Wide").message_queues] == [Permission.NONE] * 6


@pytest.mark.case("G9")
def test_a_route_says_which_messages_a_topic_takes(
    broker: EmbeddedBroker, client: RawClient
) -> None:
    wanted = {"NORMAL": [1], "FIFO": [2], "DELAY": [3], "TRANSACTION": [4], "MIXED": [1, 2, 3, 4]}
    for name, types in wanted.items():
        broker.topics.create(f"Of{name}", message_type=name)  # type: ignore[arg-type]
        (said,) = {
            tuple(one.accept_message_types) for one in client.route(f"Of{name}").message_queues
        }
        assert list(said) == types
    put_topic(broker, "Untyped", 1, 1, 6)
    assert list(client.route("Untyped").message_queues[0].accept_message_types) == [1]


def test_topics_that_a_test_creates_take_every_message_and_others_do_not(
    broker: EmbeddedBroker, client: RawClient, topic: str
) -> None:
    assert list(client.route(topic).message_queues[0].accept_message_types) == [1, 2, 3, 4]
    with EmbeddedBroker(tcp=False, topics=["Plain"]) as other:
        (config,) = [one for one in other._parts().tables.topics if one.topic_name == "Plain"]
        assert config.attributes == {}


@pytest.mark.case("G10")
def test_a_client_keeps_to_the_address_that_it_came_by(
    broker: EmbeddedBroker, open_client: Open, client: RawClient, topic: str
) -> None:
    (address,) = (
        client.route(topic, ("relay.example", 7)).message_queues[0].broker.endpoints.addresses
    )
    assert (address.host, address.port) == ("relay.example", 7)
    (own,) = client.route(topic).message_queues[0].broker.endpoints.addresses
    assert f"{own.host}:{own.port}" == broker.endpoints


@pytest.mark.case("G11")
def test_an_unknown_topic_can_be_created_on_demand(open_client: Open) -> None:
    options = GrpcOptions(auto_create=True)
    with EmbeddedBroker(grpc=options, clock=VirtualClock(), tcp=False) as broker:
        client = open_client(broker)
        assert len(client.route("Fresh").message_queues) == 4
        assert client.send(client.message("Fresher")).status.code == 20000
        assert list(client.route("Fresher").message_queues[0].accept_message_types) == [1, 2, 3, 4]


@pytest.mark.case("G13")
def test_a_consumer_receives_from_any_queue_or_from_each_in_its_order(
    broker: EmbeddedBroker, client: RawClient, topic: str, group: str
) -> None:
    assigned = client.assignment(topic, group).assignments
    assert [one.message_queue.id for one in assigned] == [-1]
    put_group(broker, group, consume_message_orderly=True)
    assigned = client.assignment(topic, group).assignments
    assert [one.message_queue.id for one in assigned] == [0, 1, 2, 3]
    put_topic(broker, topic, 4, 4, 2)
    assert client.assignment(topic, group).status.code == 40300


@pytest.mark.case("G7")
def test_a_client_must_say_who_it_is(broker: EmbeddedBroker, open_client: Open, topic: str) -> None:
    nobody = open_client(broker, "")
    assert nobody.route(topic).status.code == 40017
    assert nobody.receive(topic, "G")[0].code == 40017


@pytest.mark.case("G77")
def test_all_brokers_of_a_cluster_stand_behind_one_address(open_client: Open) -> None:
    topics = [TopicSpec("T", queues=1)]
    with EmbeddedCluster(
        brokers=2, grpc=True, clock=VirtualClock(), topics=topics, tcp=False
    ) as cluster:
        client = open_client(cluster.brokers[0])
        names = {one.broker.name for one in client.route("T").message_queues}
        assert names == {"broker-a", "broker-b"}
        for number in range(4):
            assert client.send(client.message("T", b"%d" % number)).status.code == 20000
        assert [one.topics["T"].count() for one in cluster.brokers] == [2, 2]
        for name in names:
            request = client.receive_request("T", "G")
            request.message_queue.broker.name = name
            _, found = gathered(client.call(Rpc.RECEIVE_MESSAGE, request))
            answer = client.ack("T", "G", *handles(found))
            assert (len(found), answer.status.code) == (2, 20000)
        assert [one.groups["G"].lag() for one in cluster.brokers] == [0, 0]
        cluster.stop("broker-b")
        assert client.send(client.message("T")).status.code == 20000
        assert {one.broker.name for one in client.route("T").message_queues} == {"broker-a"}
        cluster.start("broker-b")
        assert len(client.route("T").message_queues) == 2


@pytest.mark.case("G78")
def test_a_namespace_is_left_out_or_stands_before_names(open_client: Open) -> None:
    with EmbeddedBroker(
        grpc=GrpcOptions(namespace="prefix"), clock=VirtualClock(), topics=["ns%T", "T"], tcp=False
    ) as broker:
        client = open_client(broker)
        message = client.message("T", b"in ns")
        message.topic.resource_namespace = "ns"
        assert client.send(message).status.code == 20000
        assert (broker.topics["ns%T"].count(), broker.topics["T"].count()) == (1, 0)
        request = client.receive_request("T", "G")
        request.message_queue.topic.resource_namespace = "ns"
        request.group.resource_namespace = "ns"
        answers = client.call(Rpc.RECEIVE_MESSAGE, request)
        assert [one.body for one in gathered(answers)[1]] == [b"in ns"]
        assert "ns%G" in broker.groups.names()


@pytest.mark.case("G78")
def test_a_namespace_means_nothing_by_default(
    broker: EmbeddedBroker, client: RawClient, topic: str
) -> None:
    message = client.message(topic)
    message.topic.resource_namespace = "ns"
    assert client.send(message).status.code == 20000
    assert broker.topics[topic].count() == 1
