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
WIDE = 1000
"""A window as of a program that sends as fast as it can."""
BODY = b"x" * 256


def blocking_us(producer: DefaultMQProducer) -> float:
    """Microseconds of one blocking send."""
    started = time.perf_counter()
    for _ in range(MESSAGES):
        producer.send(Message("Path", BODY))
    return (time.perf_counter() - started) / MESSAGES * 1e6


def async_rate(
    producer: DefaultMQProducer, in_flight: int = IN_FLIGHT, messages: int = MESSAGES
) -> float:
    """Messages a second with a window of futures."""
    started = time.perf_counter()
    window = deque(producer.send_async(Message("Path", BODY)) for _ in range(in_flight))
    for _ in range(messages - in_flight):
        window.popleft().result()
        window.append(producer.send_async(Message("Path", BODY)))
    for future in window:
        future.result()
    return messages / (time.perf_counter() - started)


def main() -> None:
    figures = []
    with served() as server, DefaultMQProducer("Path", namesrv_addr=server.namesrv) as producer:
        figures += [
            figure("blocking send, TCP", "us", five(lambda: blocking_us(producer)), at_most=166),
            figure("async send, TCP", "messages/s", five(lambda: async_rate(producer))),
            figure(
                f"async send, TCP, {WIDE} in flight",
                "messages/s",
                five(lambda: async_rate(producer, WIDE, 5 * MESSAGES)),
                at_least=20_000,
            ),
        ]
    with (
        EmbeddedBroker(tcp=False) as broker,
        DefaultMQProducer("Path", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        figures.append(
            figure("blocking send, in process", "us", five(lambda: blocking_us(producer)))
        )
    keep("client_path", figures)
