"""A thousand consumers of one process, each its own group, on one client instance.

How long they take to start, one after the other; whether the last ones take longer than the first;
and the memory and the threads that they take more than one consumer does. The broker is another
process, and each run is a process of its own. Each consumer has a parked pull for every queue:
four of the topic that all of them read, and one of its own retry topic.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from attrs import asdict, frozen

from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    aio,
)
from tests.perf.measure import ENVIRONMENT, ROOT, RUNS, Figure, figure, keep
from tests.perf.server_process import resident_mb, served

CONSUMERS = 1_000
PART = CONSUMERS // 4
SETTLE_SECONDS = 3.0
ENDS_WITHIN_S = 300.0
MIB_IN_MB = 1.048576
MEMORY_BAR = 60.0


@frozen
class Cost:
    """Of one run."""

    start_s: float
    growth: float
    """How much longer the last quarter took to start than the first one."""
    more_mb: float
    more_threads: float


class Watch:
    """Notes what a process takes while its consumers start."""

    def __init__(self) -> None:
        time.sleep(SETTLE_SECONDS)  # the first consumer stands
        self._before_mb = resident_mb(os.getpid())
        self._before_threads = threading.active_count()
        self._started = [time.perf_counter()]

    def started(self, number: int) -> None:
        """Note that so many consumers have started."""
        if number % PART == 0:
            self._started.append(time.perf_counter())

    def cost(self) -> Cost:
        """Say what they take, once they stand."""
        time.sleep(SETTLE_SECONDS)
        begun, first, *_, third, last = self._started
        return Cost(
            last - begun,
            (last - third) / (first - begun),
            (resident_mb(os.getpid()) - self._before_mb) * MIB_IN_MB,
            threading.active_count() - self._before_threads,
        )


async def awaited(namesrv: str) -> Cost:
    """Start asyncio consumers in one loop."""

    async def start(number: int) -> aio.Consumer:
        consumer = aio.Consumer(f"Many{number}", namesrv_addr=namesrv, instance_name="many")
        consumer.subscribe("Many")
        await consumer.start()
        return consumer

    consumers = [await start(0)]
    watch = Watch()
    for number in range(1, CONSUMERS + 1):
        consumers.append(await start(number))
        watch.started(number)
    cost = watch.cost()
    await asyncio.gather(*(consumer.shutdown() for consumer in consumers))
    return cost


def pushed(namesrv: str) -> Cost:
    """Start push consumers, whose listeners have no work."""

    def start(number: int) -> DefaultMQPushConsumer:
        consumer = DefaultMQPushConsumer(
            f"Many{number}", namesrv_addr=namesrv, instance_name="many"
        )
        consumer.subscribe("Many")
        consumer.register_message_listener(lambda *_: ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
        return consumer

    with ExitStack() as stack:
        stack.enter_context(start(0))
        watch = Watch()
        for number in range(1, CONSUMERS + 1):
            stack.enter_context(start(number))
            watch.started(number)
        return watch.cost()


KINDS: dict[str, Callable[[str], Cost]] = {
    "asyncio": lambda namesrv: asyncio.run(awaited(namesrv)),
    "push": pushed,
}


def run(kind: str) -> Cost:
    """Take the figures of a kind of consumer in a process of its own."""
    with served() as server:
        with DefaultMQProducer("ManyProducer", namesrv_addr=server.namesrv) as producer:
            producer.send(Message("Many", b"one message, so that queues exist"))
        program = [sys.executable, "-m", __name__, kind, server.namesrv]
        done = subprocess.run(
            program,
            cwd=ROOT,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            timeout=ENDS_WITHIN_S,
        )
    return Cost(**json.loads(done.stdout))


def figures_of(kind: str) -> list[Figure]:
    """Take five runs; asyncio consumers have bars."""
    runs = [run(kind) for _ in range(RUNS)]
    bars = {"at_most": MEMORY_BAR} if kind == "asyncio" else {}
    who = f"{CONSUMERS} {kind} consumers"
    return [
        figure(f"{who}: start of all", "s", [one.start_s for one in runs]),
        figure(f"{who}: start of the last quarter / the first", "x", [one.growth for one in runs]),
        figure(f"{who}: memory more than of one", "MB", [one.more_mb for one in runs], **bars),
        figure(f"{who}: threads more than of one", "threads", [one.more_threads for one in runs]),
    ]


def main() -> None:
    keep("many_consumers", [one for kind in KINDS for one in figures_of(kind)])


if __name__ == "__main__":
    print(json.dumps(asdict(KINDS[sys.argv[1]](sys.argv[2]))))
