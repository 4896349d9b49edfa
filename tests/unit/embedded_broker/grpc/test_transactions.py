from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.grpc.schema import MessageType
from tests.unit.embedded_broker.grpc.conftest import Open
from tests.unit.embedded_broker.grpc.raw_client import RawClient

COMMIT, ROLLBACK, UNKNOWN = 1, 2, 0


def begin(client: RawClient, topic: str, body: bytes = b"half") -> str:
    message = client.message(topic, body, message_type=MessageType.TRANSACTION)
    answer = client.send(message)
    assert answer.status.code == 20000
    return str(answer.entries[0].transaction_id)


@pytest.mark.case("G52")
def test_a_half_message_is_delivered_when_it_is_committed(
    broker: EmbeddedBroker, client: RawClient, queue: str, group: str
) -> None:
    committed, rolled_back = begin(client, queue, b"yes"), begin(client, queue, b"no")
    assert broker.topics[queue].count() == 0
    assert client.end(queue, committed, COMMIT).status.code == 20000
    assert client.end(queue, rolled_back, ROLLBACK).status.code == 20000
    (message,) = client.receive_all(queue, group, 1)
    assert message.body == b"yes"
    assert message.system_properties.message_type == MessageType.TRANSACTION
    assert message.system_properties.message_id == committed


@pytest.mark.case("G53")
def test_a_producer_is_asked_on_its_stream(
    broker: EmbeddedBroker, client: RawClient, queue: str
) -> None:
    stream = client.be_producer(queue)
    transaction = begin(client, queue)
    for wait in (6, 60):
        broker.clock.advance(wait)
        asked = stream.next().recover_orphaned_transaction_command
        assert asked.transaction_id == transaction
        assert (asked.message.topic.name, asked.message.body) == (queue, b"half")
        assert client.end(queue, transaction, UNKNOWN, source=2).status.code == 20000
    assert client.end(queue, transaction, COMMIT, source=2).status.code == 20000
    assert broker.topics[queue].count() == 1
    assert client.end(queue, transaction, COMMIT, source=2).status.code == 50001
    stream.call.cancel()


@pytest.mark.case("G54")
def test_another_producer_of_the_topic_may_answer(
    broker: EmbeddedBroker, client: RawClient, open_client: Open, queue: str
) -> None:
    transaction = begin(client, queue)
    client.close()
    other = open_client(broker)
    stream = other.be_producer(queue)
    broker.clock.advance(6)
    assert stream.next().recover_orphaned_transaction_command.transaction_id == transaction
    assert other.end(queue, transaction, COMMIT, source=2).status.code == 20000
    assert broker.topics[queue].count() == 1


@pytest.mark.case("G55")
def test_a_late_commit_is_good_as_long_as_the_half_message_is_there(
    broker: EmbeddedBroker, client: RawClient, queue: str
) -> None:
    transaction = begin(client, queue)
    broker.clock.advance(40)
    assert client.end(queue, transaction, COMMIT).status.code == 20000
    assert broker.topics[queue].count() == 1


@pytest.mark.case("G56")
def test_transactions_are_named_by_their_id(
    broker: EmbeddedBroker, client: RawClient, queue: str, topic: str
) -> None:
    transaction = begin(client, queue)
    assert client.end(queue, " ", COMMIT).status.code == 40008
    assert client.end(queue, "unknown", COMMIT).status.code == 50001
    assert client.end(topic, transaction, COMMIT).status.code == 50001
    assert client.end(queue, transaction, COMMIT, source=0).status.code == 20000
    assert broker.topics[queue].count() == 1


def test_an_open_half_message_is_found_after_a_restart(open_client: Open) -> None:
    with EmbeddedBroker(grpc=True, clock=VirtualClock(), topics=["T"], tcp=False) as broker:
        client = open_client(broker)
        transaction = begin(client, "T")
        broker.restart()
        broker.wait_for(lambda _: client.route("T").status.code == 20000)
        assert client.end("T", transaction, COMMIT).status.code == 20000
        assert broker.topics["T"].count() == 1
