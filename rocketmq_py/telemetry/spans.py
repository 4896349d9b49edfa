"""Spans of OpenTelemetry for what producers send and consumers receive.

Each attempt of a send is a span, whose W3C context travels in properties of the message
(``traceparent``, ``tracestate``), so that the span of a consumer links to the one that stored it.
What a span says is in ``attributes.py``. Must not know clients but for their public hooks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from rocketmq_py._version import __version__
from rocketmq_py.client.hooks import EndTransactionContext, SendMessageContext
from rocketmq_py.consumer.hooks import CONTEXT_TYPE, ConsumeMessageContext
from rocketmq_py.errors import how_to_install
from rocketmq_py.message import Message, MessageBatch
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.send_result import LocalTransactionState, SendStatus
from rocketmq_py.telemetry import attributes
from rocketmq_py.telemetry.clients import (
    AnyClient,
    AnyConsumer,
    AnyProducer,
    Once,
    is_polled,
    is_producer,
)

try:
    from opentelemetry import propagate
    from opentelemetry.context import Context, attach
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import (
        Link,
        Span,
        SpanContext,
        SpanKind,
        StatusCode,
        Tracer,
        TracerProvider,
        get_current_span,
        get_tracer,
        set_span_in_context,
    )
except ImportError as error:
    raise ImportError(
        f"spans need opentelemetry-api ({error}): {how_to_install('otel')}"
    ) from error

HALVES_MAX: Final = 4_096
"""Transactions whose beginning is remembered for their end; the oldest is forgotten first."""

_ENDS: Final = {
    LocalTransactionState.COMMIT_MESSAGE: "commit",
    LocalTransactionState.ROLLBACK_MESSAGE: "rollback",
    LocalTransactionState.UNKNOW: "unknown",
}
_instrumented = Once("has spans")


def instrument(
    client: AnyClient,
    *,
    tracer_provider: TracerProvider | None = None,
    propagator: TextMapPropagator | None = None,
) -> None:
    """Make spans of all that a producer sends, or a consumer receives, from now on.

    Of providers and propagators the global ones are used unless others are given. Raises TypeError
    for what is no client, ValueError for one that was given before.
    """
    _instrumented.take(client)
    tracer = get_tracer("rocketmq_py", __version__, tracer_provider)
    carrying = propagator or propagate.get_global_textmap()
    if is_producer(client):
        hook = _SendSpans(client, tracer, carrying)
        client.register_send_message_hook(hook)
        client.register_end_transaction_hook(hook)
    else:
        client.register_consume_message_hook(_ConsumeSpans(client, tracer, carrying))


def context_of(message: Message, *, propagator: TextMapPropagator | None = None) -> Context:
    """Give the context that a message carries, as the sender's spans have left it.

    For programs that get messages without hooks, or want to go on with the sender's trace.
    """
    return _extracted(propagator or propagate.get_global_textmap(), message.properties)


class _SendSpans:
    """A hook of sends, and of ends of transactions."""

    def __init__(
        self, producer: AnyProducer, tracer: Tracer, propagator: TextMapPropagator
    ) -> None:
        self._producer = producer
        self._tracer = tracer
        self._propagator = propagator
        self._lock = Lock()
        self._open: WeakKeyDictionary[SendMessageContext, Span] = WeakKeyDictionary()
        self._halves: OrderedDict[str, SpanContext] = OrderedDict()

    def before(self, context: SendMessageContext) -> None:
        """Begin the span of an attempt, and let its context travel with the message.

        A message that carries a context already keeps it, and the span links to that one.
        """
        message = context.message
        topic = message.topic
        messages = list(message) if isinstance(message, MessageBatch) else [message]
        links = _links(self._propagator, [one.properties for one in messages])
        span = self._tracer.start_span(
            f"send {topic}",
            kind=SpanKind.PRODUCER,
            attributes={
                **attributes.operation("send", "send", topic, self._producer.client_id),
                **attributes.server(context.broker_address),
                **attributes.sent(message),
                "messaging.destination.partition.id": str(context.queue.queue_id),
            },
            links=links,
        )
        with self._lock:
            self._open[context] = span
        if len(links) < len(messages):
            self._propagator.inject(context.extra_properties, set_span_in_context(span))

    def after(self, context: SendMessageContext) -> None:
        """End the span with the outcome; nothing is known of a one-way send."""
        with self._lock:
            span = self._open.pop(context, None)
        if span is None:
            return
        result, error = context.result, context.exception
        if error is not None:
            span.record_exception(error)
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(StatusCode.ERROR, str(error))
        if result is not None and result.send_status is not SendStatus.SEND_OK:
            span.set_attribute("rocketmq_py.send_status", result.send_status.name)
        if result is not None and Prop.TRAN_MSG in context.message.properties:
            self._remember(result.msg_id, span.get_span_context())
        span.end()

    def end(self, context: EndTransactionContext) -> None:
        """Note the end of a transaction, linked to the send of its half message."""
        message, name = context.message, _ENDS[context.state]
        with self._lock:
            half = self._halves.pop(context.message_id, None)
        links = _links(self._propagator, [message.properties]) if half is None else [Link(half)]
        self._tracer.start_span(
            f"{name} {message.topic}",
            kind=SpanKind.CLIENT,
            attributes={
                **attributes.operation("settle", name, message.topic, self._producer.client_id),
                **attributes.server(context.broker_address),
                "messaging.message.id": context.message_id,
                f"{attributes.ROCKETMQ}type": "transaction",
                "rocketmq_py.from_check": context.from_check,
            },
            links=links,
        ).end()

    def _remember(self, message_id: str, half: SpanContext) -> None:
        with self._lock:
            self._halves[message_id] = half
            if len(self._halves) > HALVES_MAX:
                self._halves.popitem(last=False)


class _ConsumeSpans:
    """A hook of listener calls, or of polls."""

    def __init__(
        self, consumer: AnyConsumer, tracer: Tracer, propagator: TextMapPropagator
    ) -> None:
        self._consumer = consumer
        self._tracer = tracer
        self._propagator = propagator
        self._lock = Lock()
        self._open: WeakKeyDictionary[ConsumeMessageContext, Span] = WeakKeyDictionary()
        self._is_polled = is_polled(consumer)

    def before(self, context: ConsumeMessageContext) -> None:
        """Begin the span of a call, linked to what sent each message; the call runs in it."""
        messages = context.messages
        topic = messages[0].topic
        kind, name = ("receive", "poll") if self._is_polled else ("process", "process")
        span = self._tracer.start_span(
            f"{name} {topic}",
            kind=SpanKind.CLIENT if self._is_polled else SpanKind.CONSUMER,
            attributes={
                **attributes.operation(kind, name, topic, self._consumer.client_id),
                **attributes.server(messages[0].store_host),
                **attributes.received(messages),
                "messaging.consumer.group.name": context.consumer_group,
                "messaging.destination.partition.id": str(context.queue.queue_id),
            },
            links=[
                Link(link.context, attributes.arrived(message) if len(messages) > 1 else None)
                for message in messages
                for link in _links(self._propagator, [message.properties])
            ],
        )
        with self._lock:
            self._open[context] = span
        if not self._is_polled:
            attach(set_span_in_context(span))  # until the call ends: its variables are its own

    def after(self, context: ConsumeMessageContext) -> None:
        """End the span with what becomes of the messages."""
        with self._lock:
            span = self._open.pop(context, None)
        if span is None:
            return
        outcomes = [one.lower() for one in context.outcomes]
        if len(outcomes) == 1:
            span.set_attribute("rocketmq_py.outcome", outcomes[0])
        else:
            span.set_attribute("rocketmq_py.outcomes", outcomes)
        if not context.success:
            span.set_attribute("error.type", context.props[CONTEXT_TYPE])
            span.set_status(StatusCode.ERROR, context.status)
        span.end()


def _extracted(propagator: TextMapPropagator, carrier: Mapping[str, str]) -> Context:
    return propagator.extract(carrier, Context())


def _links(propagator: TextMapPropagator, carriers: list[dict[str, str]]) -> list[Link]:
    """Link to the contexts that are carried, as far as they can be read."""
    found = (get_current_span(_extracted(propagator, one)).get_span_context() for one in carriers)
    return [Link(context) for context in found if context.is_valid]
