"""RocketMQ's own Java consumer at our broker and at the real one, in turn.

The same 5.3.3 client consumes messages of 256 bytes that are stored already, and waits for single
messages that it sends itself. Each run is paired: ours, real, ours, real; the ratio is taken pair
by pair, so it holds when the machine's speed drifts.
"""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path

from tests.interop.java_tools import QUIET, client_program
from tests.interop.real_broker import real_cluster
from tests.perf.java_load import REAL_FILES
from tests.perf.measure import RUNS, figure, keep
from tests.perf.server_process import cpu_seconds, served

CONSUMED = 100_000
"""Divisible by the size of the batches that they are sent in."""
WAITED_FOR = 2_000
ROUNDS = 3

_topics = count(1)


def run(namesrv: str, mode: str, messages: int) -> list[float]:
    """Run the client program once; the numbers of its last line."""
    arguments = (namesrv, f"Consume{next(_topics)}", mode, str(messages), str(ROUNDS))
    with client_program("5.3.3", "ConsumeLoad", *arguments, options=QUIET) as jvm:
        if jvm.finish(300):
            raise RuntimeError("\n".join(jvm.lines))
        kind = "P50" if mode == "latency" else "RATE"
        return [float(number) for number in jvm.table(kind)[-1]]


def consumed(namesrv: str, broker_pid: int) -> tuple[float, float, float]:
    """Messages a second, and CPU microseconds a message of the client and of the broker.

    The broker's are of all rounds, and of storing what is consumed.
    """
    before = cpu_seconds(broker_pid)
    rate, client_us = run(namesrv, "consume", CONSUMED)
    return rate, client_us, (cpu_seconds(broker_pid) - before) * 1e6 / (CONSUMED * ROUNDS)


def main() -> None:
    """Take the figures."""
    rates, waits = [], []
    with (
        tempfile.TemporaryDirectory() as home,
        real_cluster(Path(home), settings=REAL_FILES) as real,
    ):
        consumed(real.namesrv_addr, real.broker_pid)  # warms up its JVM
        run(real.namesrv_addr, "latency", WAITED_FOR)
        for _ in range(RUNS):
            with served() as server:
                ours = consumed(server.namesrv, server.pid)
                wait = run(server.namesrv, "latency", WAITED_FOR)
            rates.append((ours, consumed(real.namesrv_addr, real.broker_pid)))
            waits.append((wait, run(real.namesrv_addr, "latency", WAITED_FOR)))
    figures = [
        figure("consume: ours / real", "x", [a[0] / b[0] for a, b in rates], at_least=1.0),
        figure("send to listener: ours / real", "x", [a[0] / b[0] for a, b in waits], at_most=0.7),
    ]
    for which, name in enumerate(("ours", "real 5.3.3")):
        figures += [
            figure(f"consume: {name}", "messages/s", [pair[which][0] for pair in rates]),
            figure(f"consume: CPU of {name}", "us/message", [pair[which][2] for pair in rates]),
            figure(
                f"consume: CPU of the client at {name}",
                "us/message",
                [pair[which][1] for pair in rates],
            ),
            figure(f"send to listener, p50: {name}", "us", [pair[which][0] for pair in waits]),
            figure(f"send to listener, p99: {name}", "us", [pair[which][1] for pair in waits]),
        ]
    keep("java_consume", figures, consumed=CONSUMED, waited_for=WAITED_FOR)
