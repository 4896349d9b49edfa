"""What it costs to receive messages that are stored already: messages a second over TCP.

A push consumer with an empty listener, an asyncio consumer with one, and a task that iterates over
an asyncio consumer have the same messages from the same broker in another process, in turns. Rates
are those between the first message and the last one; the ratio is taken in each turn, since the
rates of a machine change by the minute.
"""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import count

from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    aio,
)
from tests.perf.client_path import BODY
from tests.perf.measure import RUNS, figure, keep
from tests.perf.server_process import served

MESSAGES = 60_000
BATCH = 500
ENDS_WITHIN_S = 120.0
TOPIC = "Consumed"

_groups = (f"Consuming{number}" for number in count())


class Meter:
    """Counts messages on any thread, and takes the time of the first and the last one."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._numbers = count(1)
        self._first = self._last = 0.0

    def count(self) -> None:
        """Count a message."""
        number = next(self._numbers)
        if number == 1:
            self._first = time.perf_counter()
        elif number == MESSAGES:
            self._last = time.perf_counter()
            self.ended.set()

    def rate(self) -> float:
        """Wait for the last one; messages a second."""
        if not self.ended.wait(ENDS_WITHIN_S):
            raise TimeoutError(f"not all messages came within {ENDS_WITHIN_S} s")
        return (MESSAGES - 1) / (self._last - self._first)


def pushed_rate(namesrv: str) -> float:
    """Receive all in an empty listener on threads."""
    meter = Meter()

    def listen(*_: object) -> ConsumeConcurrentlyStatus:
        meter.count()
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    consumer = DefaultMQPushConsumer(
        next(_groups),
        namesrv_addr=namesrv,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer.subscribe(TOPIC)
    consumer.register_message_listener(listen)
    with consumer:
        return meter.rate()


def awaiting(namesrv: str) -> aio.Consumer:
    """An asyncio consumer of the messages."""
    consumer = aio.Consumer(
        next(_groups),
        namesrv_addr=namesrv,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer.subscribe(TOPIC)
    return consumer


async def listened_rate(namesrv: str) -> float:
    """Receive all in an empty listener on an event loop."""
    meter, consumer = Meter(), awaiting(namesrv)

    async def listen(_: aio.Delivery) -> None:
        meter.count()

    consumer.register_message_listener(listen)
    async with consumer:
        return await asyncio.to_thread(meter.rate)


async def iterated_rate(namesrv: str) -> float:
    """Receive all in one task, which acks each."""
    meter = Meter()
    async with awaiting(namesrv) as consumer:
        async for delivery in consumer:
            await delivery.ack()
            meter.count()
            if meter.ended.is_set():
                break
    return meter.rate()


def main() -> None:
    turns = []
    with served() as server:
        with DefaultMQProducer("Consuming", namesrv_addr=server.namesrv) as producer:
            for _ in range(MESSAGES // BATCH):
                producer.send_batch([Message(TOPIC, BODY) for _ in range(BATCH)])
        pushed_rate(server.namesrv)
        for _ in range(RUNS):
            pushed = pushed_rate(server.namesrv)
            listened = asyncio.run(listened_rate(server.namesrv))
            turns.append((pushed, listened, asyncio.run(iterated_rate(server.namesrv))))
    by_push, by_listener, by_iteration = (list(column) for column in zip(*turns, strict=True))
    keep(
        "consuming",
        [
            figure("push, empty listener", "messages/s", by_push, at_least=50_000),
            figure("asyncio, empty listener", "messages/s", by_listener),
            figure("asyncio, one task that acks each", "messages/s", by_iteration),
            figure(
                "asyncio listener / push",
                "x",
                [one / other for other, one, _ in turns],
                at_least=0.7,
            ),
            figure(
                "asyncio iteration / push",
                "x",
                [one / other for other, _, one in turns],
                at_least=0.7,
            ),
        ],
    )
