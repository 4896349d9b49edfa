"""What one unreachable host once cost the rest of a cluster: the brokers that were healthy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    SendFailedError,
)
from rocketmq_py.protocol.codes import RequestCode
from tests.black_hole import BlackHole
from tests.unit.rocketmq_py.scripted import (
    ScriptedCluster,
    ScriptedServer,
    name_server,
    route_of,
    stored,
)
from tests.waiting import PATIENT, within

START_S = 3.0
"""A start takes no longer, whatever is dead."""
OVER_S = 0.5
"""A shutdown takes no longer than its timeout and this."""


@pytest.fixture
def hole() -> Iterator[BlackHole]:
    with BlackHole() as made:
        yield made


@pytest.fixture
def cluster(hole: BlackHole) -> Iterator[ScriptedCluster]:
    """Two brokers that answer and one whose host does not."""
    made = ScriptedCluster(2)
    pairs = [*zip(made.names, (one.address for one in made.brokers), strict=True)]
    made.routes["T"] = route_of([*pairs, ("broker-lost", hole.address)])
    yield made
    made.close()


def test_asynchronous_sends_go_to_the_brokers_that_answer(cluster: ScriptedCluster) -> None:
    with DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr) as producer:
        futures = [producer.send_async(Message("T", b"x")) for _ in range(100)]
        found = {future.result(10).message_queue.broker_name for future in futures}
    assert found == {"broker-a", "broker-b"}
    assert len(cluster.sends()) == 100


def test_blocking_sends_go_to_the_brokers_that_answer(cluster: ScriptedCluster) -> None:
    with (
        DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr) as producer,
        ThreadPoolExecutor(4) as threads,
    ):
        results = list(threads.map(lambda _: producer.send(Message("T", b"x")), range(40)))
    assert {one.message_queue.broker_name for one in results} == {"broker-a", "broker-b"}


def test_who_asks_for_the_lost_broker_only_is_told_without_waiting_for_it_twice(
    hole: BlackHole, cluster: ScriptedCluster
) -> None:
    with DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr) as producer:
        lost = [
            queue
            for queue in producer.fetch_publish_message_queues("T")
            if queue.broker_name == "broker-lost"
        ]
        with pytest.raises(SendFailedError) as caught:
            producer.send(Message("T", b"x"), queue=lost[0], timeout=600)
        assert not caught.value.possibly_stored
        for queue in lost:
            futures = [producer.send_async(Message("T", b"x"), queue=queue) for _ in range(5)]
            # Told at once: the budget of these is 3 s each.
            assert all(future.done() for future in futures)
        with pytest.raises(SendFailedError, match=hole.address):
            producer.send(Message("T", b"x"), queue=lost[0])


def test_a_host_that_answers_again_is_used_again(hole: BlackHole, cluster: ScriptedCluster) -> None:
    with DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr, connect_timeout=500) as producer:
        futures = [producer.send_async(Message("T", b"x")) for _ in range(12)]
        assert all(future.result(10) for future in futures)
        hole.end()
        back = ScriptedServer(
            hole.port, lambda it: it.on(RequestCode.SEND_MESSAGE_V2, lambda one, _: stored(one))
        )
        try:
            back.wait_for(RequestCode.HEART_BEAT)  # found in background: nobody sends to it now
            futures = [producer.send_async(Message("T", b"x")) for _ in range(12)]
            found = {future.result(10).message_queue.broker_name for future in futures}
        finally:
            back.close()
    assert "broker-lost" in found


def test_a_consumer_starts_in_time_and_gets_what_the_healthy_broker_has(hole: BlackHole) -> None:
    got = threading.Event()
    with EmbeddedBroker() as broker:
        broker.topics.create("T", queues=4)
        pairs = [("broker-lost", hole.address), (broker.broker_name, broker.addr)]
        names = name_server(pairs)
        consumer = DefaultMQPushConsumer(
            "C", namesrv_addr=names.address, transport="tcp", **PATIENT
        )
        consumer.subscribe("T")

        def listen(*_: object) -> ConsumeConcurrentlyStatus:
            got.set()
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

        consumer.register_message_listener(listen)
        try:
            within(START_S, consumer.start)
            assert {q.broker_name for q in consumer.assigned_queues()} == {broker.broker_name}
            broker.send("T", b"x")
            assert got.wait(30)
            within(OVER_S + 0.2, lambda: consumer.shutdown(0.2))
        finally:
            consumer.shutdown(0)
            names.close()


def test_a_producer_starts_in_time_when_no_name_server_answers(hole: BlackHole) -> None:
    topics = ["A", "B", "C"]
    producer = DefaultMQProducer("G", namesrv_addr=hole.address, topics=topics, **PATIENT)
    within(START_S, producer.start)
    within(1.0 + OVER_S, lambda: producer.shutdown(1.0))


def test_a_consumer_starts_and_ends_in_time_when_no_name_server_answers(hole: BlackHole) -> None:
    consumer = DefaultMQPushConsumer("C", namesrv_addr=hole.address, **PATIENT)
    consumer.subscribe("T")
    consumer.register_message_listener(lambda *_: ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
    within(START_S, consumer.start)
    within(OVER_S, lambda: consumer.shutdown(0))


def test_a_producer_ends_in_time_while_sends_wait_for_the_lost_host(
    cluster: ScriptedCluster,
) -> None:
    producer = DefaultMQProducer(
        "G", namesrv_addr=cluster.namesrv_addr, topics=["T"], send_msg_timeout=60_000, **PATIENT
    )
    within(START_S, producer.start)
    lost = [
        queue
        for queue in producer.fetch_publish_message_queues("T")
        if queue.broker_name == "broker-lost"
    ]
    futures = [producer.send_async(Message("T", b"x"), queue=queue) for queue in lost]
    within(0.1 + OVER_S, lambda: producer.shutdown(0.1))
    assert all(future.done() for future in futures)
