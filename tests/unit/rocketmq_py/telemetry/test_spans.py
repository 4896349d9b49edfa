"""Spans of producers and consumers: what they say, what they link to, and when they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
    get_current_span,
    use_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Delivery,
    DeliveryListener,
    LocalTransactionState,
    Message,
    MessageExt,
    TransactionMQProducer,
    aio,
)
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.telemetry import context_of, instrument
from rocketmq_py.telemetry.spans import HALVES_MAX, _SendSpans
from tests.unit.rocketmq_py.scripted import ScriptedCluster, stored
from tests.waiting import until

PROPAGATOR: TextMapPropagator = TraceContextTextMapPropagator()
OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Spans:
    """The spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("application")

    def watch(self, client: Any) -> Any:
        instrument(client, tracer_provider=self.provider, propagator=PROPAGATOR)
        return client

    def named(self, name: str, count: int = 1) -> list[ReadableSpan]:
        """Wait for so many of this name; gives those that have ended, in their order."""
        until(lambda: len(self._named(name)) >= count)
        return self._named(name)

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def _named(self, name: str) -> list[ReadableSpan]:
        return [one for one in self._exporter.get_finished_spans() if one.name == name]


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"T": 1}, clock=VirtualClock()) as started:
        yield started


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def number(span: ReadableSpan) -> int:
    """The id of a span."""
    context = span.context
    assert context is not None
    return int(context.span_id)


def linked(span: ReadableSpan) -> list[int]:
    """The ids of the spans that a span links to."""
    return [link.context.span_id for link in span.links]


def carried(properties: Any) -> int:
    """The id of the span whose context a message carries."""
    return int(properties["traceparent"].split("-")[2], 16)


Send = Callable[[DefaultMQProducer, Message], object]
SENDS: dict[str, Send] = {
    "blocking": lambda producer, message: producer.send(message),
    "async": lambda producer, message: producer.send_async(message).result(10),
    "one-way": lambda producer, message: producer.send_oneway(message),
}


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
def test_a_send_is_a_span_below_that_of_its_caller_whose_context_travels(
    broker: EmbeddedBroker, spans: Spans, send: Send
) -> None:
    producer = spans.watch(DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr))
    message = Message("T", b"body", tags="paid", keys=["a", "b"])
    with producer:
        with spans.tracer.start_as_current_span("caller") as caller:
            send(producer, message)
        span = spans.one("send T")
        broker.wait_idle()
        client_id = producer.client_id
    (one,) = broker.messages.in_topic("T")
    assert span.kind is SpanKind.PRODUCER
    assert linked(span) == []
    assert span.status.status_code is StatusCode.UNSET
    assert span.parent is not None
    assert span.parent.span_id == caller.get_span_context().span_id
    assert carried(one.properties) == number(span)
    assert "traceparent" not in message.properties
    address, _, port = broker.addr.rpartition(":")
    assert facts(span) == {
        "messaging.system": "rocketmq",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": "T",
        "messaging.destination.partition.id": str(one.queue_id),
        "messaging.client.id": client_id,
        "messaging.message.id": message.properties["UNIQ_KEY"],
        "messaging.message.body.size": 4,
        "messaging.rocketmq.message.type": "normal",
        "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ("a", "b"),
        "server.address": address,
        "server.port": int(port),
    }


def test_a_batch_is_one_span_whose_context_each_message_carries(
    broker: EmbeddedBroker, spans: Spans
) -> None:
    producer = spans.watch(DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr))
    with producer:
        producer.send_batch([Message("T", b"x"), Message("T", b"y")])
    span = spans.one("send T")
    assert facts(span)["messaging.batch.message_count"] == 2
    assert [carried(one.properties) for one in broker.messages.in_topic("T")] == [number(span)] * 2


def test_a_message_that_carries_a_context_keeps_it_and_the_span_links_there(
    broker: EmbeddedBroker, spans: Spans
) -> None:
    producer = spans.watch(DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr))
    message = Message("T", b"x", properties={"traceparent": OWN})
    with producer:
        producer.send(message)
    assert linked(spans.one("send T")) == [0xB7AD6B7169203331]
    (one,) = broker.messages.in_topic("T")
    assert one.properties["traceparent"] == OWN
    carrying = get_current_span(context_of(message, propagator=PROPAGATOR)).get_span_context()
    assert carrying.span_id == 0xB7AD6B7169203331


def test_the_state_of_the_callers_trace_travels_but_not_with_the_context_of_another(
    broker: EmbeddedBroker, spans: Spans
) -> None:
    state = TraceState([("vendor", "1")])
    caller = SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(1), trace_state=state)
    producer = spans.watch(DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr))
    with producer, use_span(NonRecordingSpan(caller)):
        producer.send(Message("T", b"x"))
        producer.send(Message("T", b"y", properties={"traceparent": OWN}))
    states = {one.body: one.properties.get("tracestate") for one in broker.messages.in_topic("T")}
    assert states == {b"x": "vendor=1", b"y": None}


def refusing(cluster: ScriptedCluster, *codes: int) -> None:
    """Let the broker answer sends with these codes, and the others well."""
    answers = iter(codes)
    cluster.brokers[0].on(
        RequestCode.SEND_MESSAGE_V2, lambda request, _: stored(request, code=next(answers, 0))
    )


def assert_failed(span: ReadableSpan) -> None:
    """The span says that a broker has refused."""
    assert span.status.status_code is StatusCode.ERROR
    assert facts(span)["error.type"] == "MQBrokerException"
    assert [event.name for event in span.events] == ["exception"]


def test_each_attempt_is_a_span_and_one_that_fails_has_the_error(
    cluster: ScriptedCluster, spans: Spans
) -> None:
    refusing(cluster, ResponseCode.SERVICE_NOT_AVAILABLE)
    producer = spans.watch(DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr))
    with producer:
        producer.send(Message("T", b"x"))
    failed, done = spans.named("send T", 2)
    assert_failed(failed)
    assert done.status.status_code is StatusCode.UNSET


def test_an_async_send_that_fails_has_the_error(cluster: ScriptedCluster, spans: Spans) -> None:
    refusing(cluster, ResponseCode.MESSAGE_ILLEGAL)
    producer = spans.watch(DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr))
    with producer:
        assert producer.send_async(Message("T", b"x")).exception(10) is not None
        assert_failed(spans.one("send T"))


def test_an_async_send_ends_its_span_when_the_answer_has_come(
    cluster: ScriptedCluster, spans: Spans
) -> None:
    waiting: list[Any] = []
    cluster.brokers[0].on(
        RequestCode.SEND_MESSAGE_V2, lambda request, peer: waiting.append((request, peer))
    )
    producer = spans.watch(DefaultMQProducer("G", namesrv_addr=cluster.namesrv_addr))
    with producer:
        sent = producer.send_async(Message("T", b"x"))
        until(lambda: waiting)
        assert spans._named("send T") == []
        request, peer = waiting[0]
        peer.send(stored(request))
        sent.result(10)
        spans.one("send T")


def consumer_of(broker: EmbeddedBroker, listener: Any, **settings: Any) -> DefaultMQPushConsumer:
    consumer = DefaultMQPushConsumer("billing", namesrv_addr=broker.namesrv_addr, **settings)
    consumer.subscribe("T")
    consumer.register_message_listener(listener)
    return consumer


def test_a_listener_runs_in_a_span_that_links_to_the_send(
    broker: EmbeddedBroker, spans: Spans
) -> None:
    def listen(_messages: list[MessageExt], _context: object) -> ConsumeConcurrentlyStatus:
        with spans.tracer.start_as_current_span("inside"):
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    producer = spans.watch(DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr))
    consumer = spans.watch(consumer_of(broker, listen))
    with producer, consumer:
        producer.send(Message("T", b"body"))
        span = spans.one("process T")
        inside = spans.one("inside")
    assert span.kind is SpanKind.CONSUMER
    assert span.parent is None
    assert linked(span) == [number(spans.one("send T"))]
    assert inside.parent is not None
    assert inside.parent.span_id == number(span)
    told = facts(span)
    assert told["messaging.consumer.group.name"] == "billing"
    assert told["messaging.operation.type"] == "process"
    assert told["rocketmq_py.outcome"] == "handled"
    assert told["rocketmq_py.reconsume_times"] == 0


def test_of_several_messages_each_has_a_link_with_its_attributes(
    broker: EmbeddedBroker, spans: Spans
) -> None:
    def listen(_messages: list[MessageExt], _context: object) -> ConsumeConcurrentlyStatus:
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    producer = spans.watch(DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr))
    consumer = spans.watch(consumer_of(broker, listen, consume_message_batch_max_size=2))
    with producer, consumer:
        producer.send_batch([Message("T", b"x", keys="one"), Message("T", b"y", keys="two")])
        span = spans.one("process T")
    assert linked(span) == [number(spans.one("send T"))] * 2
    told = [dict(link.attributes or {}) for link in span.links]
    assert [one["messaging.rocketmq.message.keys"] for one in told] == [("one",), ("two",)]
    assert facts(span)["messaging.batch.message_count"] == 2
    assert facts(span)["rocketmq_py.outcomes"] == ("handled", "handled")


def test_retries_and_the_dead_letter_are_spans_of_their_own(
    broker: EmbeddedBroker, spans: Spans
) -> None:
    producer = spans.watch(DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr))
    listener = DeliveryListener(lambda one: one.nack())
    consumer = spans.watch(consumer_of(broker, listener, max_reconsume_times=1))
    with producer, consumer:
        producer.send(Message("T", b"body"))
        broker.clock.run(minutes=10)
        attempts = spans.named("process T", 2)
    told = [facts(one) for one in attempts]
    assert [one["rocketmq_py.reconsume_times"] for one in told] == [0, 1]
    assert [one["rocketmq_py.outcome"] for one in told] == ["again", "dead"]
    assert [one["messaging.rocketmq.message.type"] for one in told] == ["normal"] * 2
    assert [one["error.type"] for one in told] == ["FAILED"] * 2
    assert {one.status.status_code for one in attempts} == {StatusCode.ERROR}
    assert {tuple(linked(one)) for one in attempts} == {(number(spans.one("send T")),)}


def test_the_span_of_a_delivery_ends_when_the_program_settles_it(
    broker: EmbeddedBroker, spans: Spans
) -> None:
    held: list[Delivery] = []
    consumer = spans.watch(consumer_of(broker, DeliveryListener(held.append)))
    with consumer:
        broker.send("T", b"body")
        until(lambda: held)
        assert spans._named("process T") == []
        held[0].ack().result(10)
        spans.one("process T")


def test_a_poll_is_a_span_of_a_client_that_receives(broker: EmbeddedBroker, spans: Spans) -> None:
    producer = spans.watch(DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr))
    consumer = DefaultLitePullConsumer("billing", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("T")
    spans.watch(consumer)
    with producer, consumer:
        producer.send(Message("T", b"body"))
        assert len(consumer.poll(10_000)) == 1
        assert not get_current_span().get_span_context().is_valid
    span = spans.one("poll T")
    assert span.kind is SpanKind.CLIENT
    assert facts(span)["messaging.operation.type"] == "receive"
    assert linked(span) == [number(spans.one("send T"))]


def test_asyncio_clients_have_the_same_spans(broker: EmbeddedBroker, spans: Spans) -> None:
    async def main() -> None:
        over = asyncio.Event()

        async def listen(_: aio.Delivery) -> None:
            with spans.tracer.start_as_current_span("inside"):
                await asyncio.sleep(0)
            over.set()

        consumer = aio.Consumer("billing", namesrv_addr=broker.namesrv_addr)
        consumer.subscribe("T")
        consumer.register_message_listener(listen)
        producer = aio.Producer("G", namesrv_addr=broker.namesrv_addr)
        spans.watch(consumer)
        spans.watch(producer)
        async with consumer, producer:
            with spans.tracer.start_as_current_span("caller"):
                await producer.send(Message("T", b"body"))
            await asyncio.wait_for(over.wait(), 10)

    asyncio.run(main())
    sent, span, inside = spans.one("send T"), spans.one("process T"), spans.one("inside")
    assert sent.parent is not None
    assert sent.parent.span_id == number(spans.one("caller"))
    assert linked(span) == [number(sent)]
    assert inside.parent is not None
    assert inside.parent.span_id == number(span)


class Decides:
    """A listener of transactions."""

    def __init__(self, state: LocalTransactionState) -> None:
        self._state = state

    def execute_local_transaction(self, *_: object) -> LocalTransactionState:
        return self._state

    def check_local_transaction(self, *_: object) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE


@pytest.mark.parametrize(
    ("state", "name", "from_check"),
    [
        (LocalTransactionState.COMMIT_MESSAGE, "commit T", False),
        (LocalTransactionState.ROLLBACK_MESSAGE, "rollback T", False),
        (LocalTransactionState.UNKNOW, "commit T", True),
    ],
)
def test_the_end_of_a_transaction_links_to_the_send_of_its_half_message(
    broker: EmbeddedBroker,
    spans: Spans,
    state: LocalTransactionState,
    name: str,
    from_check: bool,
) -> None:
    producer = TransactionMQProducer(
        "G", namesrv_addr=broker.namesrv_addr, transaction_listener=Decides(state)
    )
    spans.watch(producer)
    with producer:
        producer.send_message_in_transaction(Message("T", b"x"))
        broker.clock.run(minutes=5)
        span = spans.one(name)
    half = spans.one("send T")
    assert facts(half)["messaging.rocketmq.message.type"] == "transaction"
    assert facts(span)["messaging.operation.type"] == "settle"
    assert facts(span)["rocketmq_py.from_check"] is from_check
    assert linked(span) == [number(half)]


def test_transactions_that_never_end_are_forgotten_in_the_end(spans: Spans) -> None:
    producer = DefaultMQProducer("G")
    hook = _SendSpans(producer, spans.tracer, PROPAGATOR)
    with spans.tracer.start_as_current_span("half") as half:
        for one in range(HALVES_MAX + 1):
            hook._remember(str(one), half.get_span_context())
    assert len(hook._halves) == HALVES_MAX
    assert "0" not in hook._halves


def test_a_client_is_instrumented_once_and_anything_else_never(spans: Spans) -> None:
    producer = spans.watch(DefaultMQProducer("G"))
    with pytest.raises(ValueError, match="has spans already"):
        spans.watch(producer)
    with pytest.raises(TypeError, match="no producer and no consumer"):
        spans.watch(object())
