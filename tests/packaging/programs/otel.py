"""With the extra `otel`: a send lets the context of its caller travel, as the API alone can."""

from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.telemetry import instrument

caller = SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(1))
with EmbeddedBroker(topics=["T"]) as broker:
    producer = DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr)
    instrument(producer)
    with producer, use_span(NonRecordingSpan(caller)):
        producer.send(Message("T", b"x"))
    (stored,) = broker.messages.in_topic("T")
assert stored.properties["traceparent"] == f"00-{1:032x}-{2:016x}-01", stored.properties
print("works")
