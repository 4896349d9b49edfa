"""Metrics of clients, as a scrape sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Delivery,
    DeliveryListener,
    Message,
    MQBrokerException,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.telemetry import ClientMetrics, metrics
from tests.unit.rocketmq_py.scripted import ScriptedCluster, stored
from tests.waiting import until

BUCKETS = {
    "rocketmq_send_cost_time": [1, 5, 10, 20, 50, 200, 500],
    "rocketmq_delivery_latency": [1, 5, 10, 20, 50, 200, 500],
    "rocketmq_await_time": [1, 5, 20, 100, 1_000, 5_000, 10_000],
    "rocketmq_process_time": [1, 5, 10, 100, 1_000, 10_000, 60_000],
}
"""The original's: `org.apache.rocketmq.client.java.metrics.HistogramEnum`."""


class Scraped:
    """A registry, and what a scrape of it gives."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def value(self, name: str, client: Any, topic: str = "T", **labels: str) -> float | None:
        group = getattr(client, "consumer_group", None)
        if group is not None:
            labels["consumer_group"] = group
        labels |= {"topic": topic, "client_id": client.client_id}
        value = self.registry.get_sample_value(name, labels)
        return None if value is None else float(value)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"T": 1}, clock=VirtualClock()) as started:
        yield started


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


def test_names_and_buckets_are_those_of_the_original(scraped: Scraped) -> None:
    ClientMetrics(scraped.registry)
    assert {name: list(bounds) for name, (_, _, bounds) in metrics.HISTOGRAMS.items()} == BUCKETS
    assert {one.name for one in scraped.registry.collect()} == {
        *BUCKETS,
        "rocketmq_consumer_cached_messages",
        "rocketmq_consumer_cached_bytes",
    }


def test_sends_are_counted_by_what_came_of_them(cluster: ScriptedCluster, scraped: Scraped) -> None:
    codes = iter([ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL])
    cluster.brokers[0].on(
        RequestCode.SEND_MESSAGE_V2, lambda request, _: stored(request, code=next(codes))
    )
    producer = DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr)
    ClientMetrics(scraped.registry).watch(producer)
    with producer:
        producer.send(Message("T", b"x"))
        with pytest.raises(MQBrokerException):
            producer.send(Message("T", b"x"))
        for status in ("success", "failure"):
            count = scraped.value(
                "rocketmq_send_cost_time_count", producer, invocation_status=status
            )
            assert count == 1, status


def test_a_batch_counts_its_messages_and_a_oneway_send_nothing(
    broker: EmbeddedBroker, scraped: Scraped
) -> None:
    producer = DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr)
    ClientMetrics(scraped.registry).watch(producer)
    with producer:
        producer.send_batch([Message("T", b"x"), Message("T", b"y")])
        producer.send_oneway(Message("T", b"z"))
        count = scraped.value(
            "rocketmq_send_cost_time_count", producer, invocation_status="success"
        )
    assert count == 2


@pytest.mark.parametrize(("settle", "status"), [("ack", "success"), ("nack", "failure")])
def test_a_consumer_tells_latency_waiting_processing_and_what_it_holds(
    broker: EmbeddedBroker, scraped: Scraped, settle: str, status: str
) -> None:
    held: list[Delivery] = []
    listener: Any = DeliveryListener(held.append)
    consumer = DefaultMQPushConsumer("billing", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("T")
    consumer.register_message_listener(listener)
    ClientMetrics(scraped.registry, clock=broker.clock).watch(consumer)
    assert scraped.registry.collect()  # before the start, too
    with consumer:
        broker.send("T", b"body")
        until(lambda: held)
        assert scraped.value("rocketmq_consumer_cached_messages", consumer) == 1
        assert scraped.value("rocketmq_consumer_cached_bytes", consumer) == 4
        assert scraped.value("rocketmq_await_time_count", consumer) == 1
        assert scraped.value("rocketmq_delivery_latency_count", consumer) == 1
        assert scraped.value("rocketmq_delivery_latency_sum", consumer) == 0  # by its clock
        processed = "rocketmq_process_time_count"
        assert scraped.value(processed, consumer, invocation_status=status) is None
        getattr(held[0], settle)().result(10)
        assert scraped.value(processed, consumer, invocation_status=status) == 1


def test_a_poll_ends_the_waiting_of_messages_and_says_nothing_of_their_processing(
    broker: EmbeddedBroker, scraped: Scraped
) -> None:
    consumer = DefaultLitePullConsumer("billing", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("T")
    ClientMetrics(scraped.registry).watch(consumer)
    with consumer:
        broker.send("T", b"body")
        assert len(consumer.poll(10_000)) == 1
        assert scraped.value("rocketmq_await_time_count", consumer) == 1
        processed = "rocketmq_process_time_count"
        assert scraped.value(processed, consumer, invocation_status="success") is None


def test_what_waits_to_be_measured_is_bounded(
    broker: EmbeddedBroker, scraped: Scraped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "WAITING_MAX", 1)
    consumer = DefaultLitePullConsumer("billing", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("T")
    ClientMetrics(scraped.registry).watch(consumer)
    with consumer, DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer:
        producer.send_batch([Message("T", b"x"), Message("T", b"y")])
        assert len(consumer.poll(10_000)) == 2
        assert scraped.value("rocketmq_await_time_count", consumer) is None  # of the first


def test_a_client_is_watched_once_and_clients_share_the_metrics(
    broker: EmbeddedBroker, scraped: Scraped
) -> None:
    metrics_of_all = ClientMetrics(scraped.registry)
    first = DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr, instance_name="a")
    second = DefaultMQProducer("H", namesrv_addr=broker.namesrv_addr, instance_name="b")
    metrics_of_all.watch(first)
    metrics_of_all.watch(second)
    with pytest.raises(ValueError, match="has metrics here already"):
        metrics_of_all.watch(first)
    with first, second:
        for producer in (first, second):
            producer.send(Message("T", b"x"))
            count = scraped.value(
                "rocketmq_send_cost_time_count", producer, invocation_status="success"
            )
            assert count == 1
