"""Metrics of Prometheus for producers and consumers, under the names of RocketMQ's own clients.

Names, labels and buckets (milliseconds) as in ``org.apache.rocketmq.client.java.metrics`` of
RocketMQ 5. Must not know clients but for their public hooks, and what they hold.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

from rocketmq_py.client.hooks import SendMessageContext
from rocketmq_py.clock import Clock, SystemClock, monotonic
from rocketmq_py.consumer.hooks import HANDLED, ConsumeMessageContext, FilterMessageContext
from rocketmq_py.errors import how_to_install
from rocketmq_py.message import MessageBatch
from rocketmq_py.send_result import MessageQueue
from rocketmq_py.telemetry.clients import (
    AnyClient,
    AnyConsumer,
    AnyProducer,
    Once,
    is_polled,
    is_producer,
)

try:
    from prometheus_client import CollectorRegistry, Histogram
    from prometheus_client.core import GaugeMetricFamily
except ImportError as error:
    raise ImportError(
        f"metrics need prometheus_client ({error}): {how_to_install('metrics')}"
    ) from error

WAITING_MAX: Final = 65_536
"""Messages whose arrival a consumer remembers until its listener gets them: the newest."""

SENT: Final = ("topic", "client_id", "invocation_status")
CONSUMED: Final = ("topic", "client_id", "consumer_group")
PROCESSED: Final = (*CONSUMED, "invocation_status")

HISTOGRAMS: Final[dict[str, tuple[str, tuple[str, ...], tuple[int, ...]]]] = {
    "rocketmq_send_cost_time": (
        "Milliseconds from a send to the answer of the broker, of each attempt",
        SENT,
        (1, 5, 10, 20, 50, 200, 500),
    ),
    "rocketmq_delivery_latency": (
        "Milliseconds from the moment a message is visible at its broker until a client has it",
        CONSUMED,
        (1, 5, 10, 20, 50, 200, 500),
    ),
    "rocketmq_await_time": (
        "Milliseconds that messages wait in a client until the program gets them",
        CONSUMED,
        (1, 5, 20, 100, 1_000, 5_000, 10_000),
    ),
    "rocketmq_process_time": (
        "Milliseconds that the program has messages, until they are settled",
        PROCESSED,
        (1, 5, 10, 100, 1_000, 10_000, 60_000),
    ),
}
"""Name to help text, labels and upper bounds."""

GAUGES: Final = {
    "rocketmq_consumer_cached_messages": "Messages that a consumer holds",
    "rocketmq_consumer_cached_bytes": "Bytes of the bodies of the messages that a consumer holds",
}


class ClientMetrics:
    """The metrics of all clients that `watch` is given, on a registry of the caller.

    ``clock`` is that of the brokers, where it is not the machine's: tests give their virtual one.

    >>> from prometheus_client import CollectorRegistry
    >>> from rocketmq_py import DefaultMQProducer
    >>> metrics = ClientMetrics(CollectorRegistry())
    >>> metrics.watch(DefaultMQProducer("shop", namesrv_addr="127.0.0.1:9876"))
    """

    def __init__(self, registry: CollectorRegistry, *, clock: Clock | None = None) -> None:
        self._clock = SystemClock() if clock is None else clock
        self._watched = Once("has metrics here")
        self._consumers: WeakSet[AnyConsumer] = WeakSet()
        self._lock = Lock()
        self.histograms = {
            name: Histogram(name, text, labels, buckets=buckets, registry=registry)
            for name, (text, labels, buckets) in HISTOGRAMS.items()
        }
        registry.register(self)

    def watch(self, client: AnyClient) -> None:
        """Measure a client from now on; before its start, too.

        Raises TypeError for what is no client, ValueError for one that is watched already.
        """
        self._watched.take(client)
        if is_producer(client):
            client.register_send_message_hook(_Sends(client, self.histograms))
        else:
            with self._lock:
                self._consumers.add(client)
            consumes = _Consumes(client, self.histograms, self._clock)
            client.register_consume_message_hook(consumes)
            client.register_filter_message_hook(consumes)

    def describe(self) -> list[GaugeMetricFamily]:
        """Name the gauges; called by the registry."""
        return [GaugeMetricFamily(name, text, labels=CONSUMED) for name, text in GAUGES.items()]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Give what consumers hold at this moment; called by the registry."""
        with self._lock:
            consumers = list(self._consumers)
        gauges = self.describe()
        for consumer in consumers:
            for topic, cached in consumer.cached().items():
                labels = (topic, consumer.client_id, consumer.consumer_group)
                for gauge, value in zip(gauges, cached, strict=True):
                    gauge.add_metric(labels, value)
        yield from gauges


class _Sends:
    """A hook of sends. One-way sends have no answer, so they are not measured."""

    def __init__(self, producer: AnyProducer, histograms: dict[str, Histogram]) -> None:
        self._producer = producer
        self._cost = histograms["rocketmq_send_cost_time"]
        self._lock = Lock()
        self._begun: WeakKeyDictionary[SendMessageContext, tuple[float, str]] = WeakKeyDictionary()

    def before(self, context: SendMessageContext) -> None:
        """Note when an attempt begins."""
        with self._lock:
            self._begun[context] = monotonic(), self._producer.client_id

    def after(self, context: SendMessageContext) -> None:
        """Measure an attempt, once for each message of a batch."""
        with self._lock:
            begun, client_id = self._begun.pop(context, (0.0, ""))
        if not client_id or (context.result is None and context.exception is None):
            return
        cost_ms = (monotonic() - begun) * 1000
        status = "failure" if context.result is None else "success"
        message = context.message
        cost = self._cost.labels(message.topic, client_id, status)
        for _ in range(len(message) if isinstance(message, MessageBatch) else 1):
            cost.observe(cost_ms)


class _Consumes:
    """A hook of fetches, and of listener calls or polls."""

    def __init__(
        self, consumer: AnyConsumer, histograms: dict[str, Histogram], clock: Clock
    ) -> None:
        self._consumer = consumer
        self._clock = clock
        self._latency = histograms["rocketmq_delivery_latency"]
        self._await = histograms["rocketmq_await_time"]
        self._process = histograms["rocketmq_process_time"]
        self._is_polled = is_polled(consumer)
        self._lock = Lock()
        self._arrived: OrderedDict[tuple[MessageQueue, int], float] = OrderedDict()
        self._begun: WeakKeyDictionary[ConsumeMessageContext, float] = WeakKeyDictionary()

    def filter_message(self, context: FilterMessageContext) -> None:
        """Measure how long the first message of a fetch was visible, and note when all came."""
        if not context.messages:
            return
        now = monotonic()
        with self._lock:
            for message in context.messages:
                self._arrived[context.queue, message.queue_offset] = now
            while len(self._arrived) > WAITING_MAX:
                self._arrived.popitem(last=False)
        first = context.messages[0]
        latency_ms = max(0, self._clock.now_ms - first.store_timestamp)
        self._latency.labels(*self._labels(first.topic, context.consumer_group)).observe(latency_ms)

    def before(self, context: ConsumeMessageContext) -> None:
        """Measure how long the first of the messages has waited here."""
        now = monotonic()
        with self._lock:
            self._begun[context] = now
            came = [
                self._arrived.pop((context.queue, one.queue_offset), None)
                for one in context.messages
            ]
        if came[0] is not None:
            labels = self._labels(context.messages[0].topic, context.consumer_group)
            self._await.labels(*labels).observe((now - came[0]) * 1000)

    def after(self, context: ConsumeMessageContext) -> None:
        """Measure how long the program had messages; a poll leaves that open."""
        with self._lock:
            begun = self._begun.pop(context, None)
        if begun is None or self._is_polled:
            return
        took_ms = (monotonic() - begun) * 1000
        for message, outcome in zip(context.messages, context.outcomes, strict=True):
            labels = self._labels(message.topic, context.consumer_group)
            status = "success" if outcome == HANDLED else "failure"
            self._process.labels(*labels, status).observe(took_ms)

    def _labels(self, topic: str, group: str) -> tuple[str, str, str]:
        return topic, self._consumer.client_id, group
