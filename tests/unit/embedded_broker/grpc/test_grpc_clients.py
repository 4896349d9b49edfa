"""``broker.grpc_clients()``: what a test sees of clients that are connected by gRPC."""

from __future__ import annotations

import pytest

from embedded_broker import BrokerStateError, EmbeddedBroker, EmbeddedCluster, VirtualClock
from embedded_broker.grpc.schema import ClientType
from rocketmq_py.protocol.rpc import Rpc
from tests.unit.embedded_broker.control.http_peer import HttpPeer
from tests.unit.embedded_broker.grpc.conftest import Open


def test_clients_are_told_by_what_they_said_of_themselves(open_client: Open) -> None:
    with EmbeddedBroker(grpc=True, clock=VirtualClock(), topics=["T", "U"], tcp=False) as broker:
        assert broker.grpc_clients() == ()
        producer = open_client(broker, "p", x_mq_language="JAVA", x_mq_client_version="5.2.0")
        producer.be_producer("T", "U")
        consumer = open_client(broker, "c", x_mq_language="PYTHON")
        consumer.be_consumer("G", "T", kind=ClientType.SIMPLE_CONSUMER)
        first, second = broker.grpc_clients()
        assert (first.client_id, first.kind, first.group) == ("p", "PRODUCER", "")
        assert (first.language, first.version, first.topics) == ("JAVA", "5.2.0", ("T", "U"))
        assert first.address.startswith("127.0.0.1:")
        assert (second.client_id, second.kind, second.group) == ("c", "SIMPLE_CONSUMER", "G")
        assert (second.language, second.version, second.topics) == ("PYTHON", "5.1.2", ("T",))
        assert (second.has_stream, second.waiting, second.held) == (True, 0, 0)


def test_they_tell_what_a_client_waits_for_and_has_in_hand(open_client: Open) -> None:
    with EmbeddedBroker(grpc=True, clock=VirtualClock(), topics={"T": 1}, tcp=False) as broker:
        client = open_client(broker)
        stream = client.be_consumer("G", "T")
        client.send(client.message("T"))
        client.receive_all("T", "G", 1, auto_renew=True, invisible_ms=None)
        answers = client.parked(
            Rpc.RECEIVE_MESSAGE, client.receive_request("T", "G", poll_ms=20_000)
        )
        broker.wait_for(lambda _: [one.waiting for one in broker.grpc_clients()] == [1])
        (told,) = broker.grpc_clients()
        assert (told.kind, told.waiting, told.held) == ("PUSH_CONSUMER", 1, 1)
        stream.half_close()
        assert stream.next() is None
        broker.wait_for(lambda _: not broker.grpc_clients()[0].has_stream)
        assert client.leave("G").status.code == 20000
        assert len(list(answers)) == 2
        assert broker.grpc_clients() == ()


def test_a_consumer_is_known_by_its_heartbeat_after_a_restart(open_client: Open) -> None:
    with EmbeddedBroker(grpc=True, clock=VirtualClock(), topics=["T"], tcp=False) as broker:
        client = open_client(broker, x_mq_language="GO")
        client.be_consumer("G", "T")
        broker.restart()
        assert broker.grpc_clients() == ()
        broker.wait_for(lambda _: client.route("T").status.code == 20000)
        assert client.heartbeat("G", ClientType.PUSH_CONSUMER).status.code == 40015
        (told,) = broker.grpc_clients()
        assert (told.kind, told.group, told.topics) == ("PUSH_CONSUMER", "G", ())
        assert (told.language, told.has_stream) == ("GO", False)


def test_brokers_of_a_cluster_have_the_same_clients(open_client: Open) -> None:
    with EmbeddedCluster(brokers=2, grpc=True, topics=["T"], tcp=False) as cluster:
        open_client(cluster.brokers[0]).be_producer("T")
        (told,) = cluster.grpc_clients()
        assert cluster.brokers[1].grpc_clients() == (told,)


def test_they_are_told_over_http(open_client: Open) -> None:
    with EmbeddedBroker(grpc=True, topics=["T"], tcp=False, control=True) as broker:
        open_client(broker, "c").be_consumer("G", "T")
        (told,) = HttpPeer(broker.control_url).get("/grpc_clients")
        assert told.pop("address").startswith("127.0.0.1:")
        assert told == {
            "client_id": "c",
            "language": "",
            "version": "5.1.2",
            "kind": "PUSH_CONSUMER",
            "group": "G",
            "topics": ["T"],
            "has_stream": True,
            "waiting": 0,
            "held": 0,
        }


def test_a_broker_that_lets_none_in_says_so() -> None:
    broker = EmbeddedBroker(grpc=True, tcp=False)
    with pytest.raises(BrokerStateError, match=r"call start\(\)"):
        broker.grpc_clients()
    with (
        EmbeddedBroker(tcp=False) as without,
        pytest.raises(BrokerStateError, match="grpc=True"),
    ):
        without.grpc_clients()
