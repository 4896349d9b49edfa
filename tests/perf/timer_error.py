"""How late a timer is released on an idle machine, at the default release precision of 1 ms."""

from __future__ import annotations

import queue
import random
import statistics

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    SystemClock,
)
from tests.perf.measure import RUNS, figure, keep

TIMERS = 400
SPREAD_MS = 8000
FIRST_MS = 1000


def errors_ms(seed: int) -> tuple[list[float], list[float]]:
    """Lateness of the stored copy (the broker alone) and of the listener (the whole path)."""
    clock = SystemClock()
    seen: queue.Queue[tuple[int, int, int]] = queue.Queue()

    def listen(
        messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        for message in messages:
            seen.put((int(message.body), message.store_timestamp, clock.now_ms))
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    chance = random.Random(seed)
    with EmbeddedBroker(topics=["Error"], inproc=False) as broker:
        producer = DefaultMQProducer("ErrorProducer", namesrv_addr=broker.namesrv_addr)
        consumer = DefaultMQPushConsumer("ErrorConsumer", namesrv_addr=broker.namesrv_addr)
        consumer.subscribe("Error", "*")
        consumer.register_message_listener(listen)
        with producer, consumer:
            for _ in range(TIMERS):
                due = clock.now_ms + FIRST_MS + chance.randrange(SPREAD_MS)
                producer.send(Message("Error", str(due).encode()).set_deliver_time_ms(due))
            rows = [seen.get(timeout=60) for _ in range(TIMERS)]
    return (
        [float(stored - due) for due, stored, _ in rows],
        [float(arrived - due) for due, _, arrived in rows],
    )


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


def main() -> None:
    taken = [errors_ms(seed) for seed in range(RUNS)]
    keep(
        "timer_error",
        [
            figure("earliest release", "ms", [min(stored) for stored, _ in taken]),
            figure("p50 release", "ms", [statistics.median(stored) for stored, _ in taken]),
            figure("p99 release", "ms", [p99(stored) for stored, _ in taken], at_most=20),
            figure("p99 in the listener", "ms", [p99(heard) for _, heard in taken], at_most=20),
        ],
        timers_per_run=TIMERS,
    )
