"""With the extra `metrics`: a send is counted on a registry of the program."""

from prometheus_client import CollectorRegistry, generate_latest

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.telemetry import ClientMetrics

registry = CollectorRegistry()
metrics = ClientMetrics(registry)
with EmbeddedBroker(topics=["T"]) as broker:
    producer = DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr)
    metrics.watch(producer)
    with producer:
        producer.send(Message("T", b"x"))
assert b"rocketmq_send_cost_time_count{" in generate_latest(registry)
print("works")
