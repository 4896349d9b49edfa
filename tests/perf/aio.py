"""What awaited sends cost beside futures of threads: messages a second over TCP, in one run.

Both have the same window in flight at the same broker in another process, in turns; the ratio of
each pair is the figure, since the rates of a machine change by the minute.
"""

from __future__ import annotations

import asyncio
import time

from rocketmq_py import DefaultMQProducer, Message, aio
from tests.perf.client_path import BODY, MESSAGES, WIDE, async_rate
from tests.perf.measure import RUNS, figure, keep
from tests.perf.server_process import served

SENDS = 5 * MESSAGES


async def awaited_rate(producer: aio.Producer, in_flight: int, messages: int) -> float:
    """Messages a second of so many tasks, each of which awaits one send after the other."""
    started = time.perf_counter()
    left = messages

    async def send() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await producer.send(Message("Path", BODY))

    await asyncio.gather(*(send() for _ in range(in_flight)))
    return messages / (time.perf_counter() - started)


async def pairs(namesrv: str) -> list[tuple[float, float]]:
    """Rates of awaited sends and of futures, in turns."""
    found = []
    async with aio.Producer("Awaited", namesrv_addr=namesrv, topics=["Path"]) as awaited:
        with DefaultMQProducer("Futures", namesrv_addr=namesrv) as futures:
            await awaited_rate(awaited, WIDE, SENDS)
            async_rate(futures, WIDE, SENDS)
            for _ in range(RUNS):
                ours = await awaited_rate(awaited, WIDE, SENDS)
                found.append((ours, async_rate(futures, WIDE, SENDS)))
    return found


def main() -> None:
    with served() as server:
        rates = asyncio.run(pairs(server.namesrv))
    ours, theirs = zip(*rates, strict=True)
    keep(
        "aio",
        [
            figure(f"awaited send, TCP, {WIDE} tasks", "messages/s", list(ours)),
            figure(f"async send, TCP, {WIDE} in flight", "messages/s", list(theirs)),
            figure(
                "awaited / async",
                "x",
                [one / other for one, other in rates],
                at_least=0.7,
            ),
        ],
    )
