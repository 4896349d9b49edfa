"""What an idle broker costs while a producer is connected and a consumer is parked."""

from __future__ import annotations

import time

from rocketmq_py import ConsumeConcurrentlyStatus, DefaultMQProducer, DefaultMQPushConsumer, Message
from tests.perf.measure import RUNS, figure, keep
from tests.perf.server_process import served

SETTLE_SECONDS = 5.0
SECONDS = 60.0


def idle_percent() -> float:
    """Share of one core over a minute."""
    with served() as server:
        producer = DefaultMQProducer("IdleProducer", namesrv_addr=server.namesrv)
        consumer = DefaultMQPushConsumer("IdleConsumer", namesrv_addr=server.namesrv)
        consumer.subscribe("Idle", "*")
        consumer.register_message_listener(lambda *_: ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
        with producer, consumer:
            producer.send(Message("Idle", b"one message, so that queues exist"))
            time.sleep(SETTLE_SECONDS)
            used, since = server.cpu_seconds(), time.perf_counter()
            time.sleep(SECONDS)
            return (server.cpu_seconds() - used) / (time.perf_counter() - since) * 100


def main() -> None:
    runs = [idle_percent() for _ in range(RUNS)]
    keep("idle", [figure("idle broker over 60 s", "% of a core", runs, at_most=1)])
