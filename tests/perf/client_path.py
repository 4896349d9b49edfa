"""What our own client costs: messages a second over TCP and in process, per call style."""

from __future__ import annotations

import time
from collections import deque

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultMQProducer, Message
from tests.perf.measure import figure, five, keep
from tests.perf.server_process import served

MESSAGES = 3000
IN_FLIGHT = 256
BODY = b"x" * 256


def blocking_us(producer: DefaultMQProducer) -> float:
    """Microseconds of one blocking send."""
    started = time.perf_counter()
    for _ in range(MESSAGES):
        producer.send(Message("Path", BODY))
    return (time.perf_counter() - started) / MESSAGES * 1e6


def async_rate(producer: DefaultMQProducer) -> float:
    """Messages a second with a window of futures."""
    started = time.perf_counter()
    window = deque(producer.send_async(Message("Path", BODY)) for _ in range(IN_FLIGHT))
    for _ in range(MESSAGES - IN_FLIGHT):
        window.popleft().result()
        window.append(producer.send_async(Message("Path", BODY)))
    for future in window:
        future.result()
    return MESSAGES / (time.perf_counter() - started)


def main() -> None:
    figures = []
    with served() as server, DefaultMQProducer("Path", namesrv_addr=server.namesrv) as producer:
        figures += [
            figure("blocking send, TCP", "us", five(lambda: blocking_us(producer))),
            figure("async send, TCP", "messages/s", five(lambda: async_rate(producer))),
        ]
    with (
        EmbeddedBroker(tcp=False) as broker,
        DefaultMQProducer("Path", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        figures.append(
            figure("blocking send, in process", "us", five(lambda: blocking_us(producer)))
        )
    keep("client_path", figures)
