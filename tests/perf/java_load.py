"""RocketMQ's own Java client against our broker and against the real one, in turn.

The same 5.3.3 client program sends 256-byte messages: eight threads synchronously, 256 in flight
asynchronously, and in batches of 32. Each run is paired: ours, real, ours, real; the ratio is
taken pair by pair, so it holds when the machine's speed drifts. Our broker runs with what the extra
``fast`` brings, and in a bench of its own without that.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from attrs import frozen

from tests.interop.java_tools import QUIET, client_program
from tests.interop.real_broker import real_cluster
from tests.perf.measure import RUNS, Figure, figure, keep
from tests.perf.server_process import cpu_seconds, served

LOADS = {"sync": (40_000, 1.0), "async": (100_000, 1.2), "batch": (320_000, 1.1)}
ROUNDS = 3
REAL_FILES = {"mappedFileSizeCommitLog": "1073741824", "mappedFileSizeConsumeQueue": "6000000"}
"""The real broker's own defaults; the interop tests make do with smaller files."""


@frozen
class Load:
    """What one run of the client showed in its last round; earlier rounds warm up both JVMs."""

    rate: float
    """Messages a second."""
    client_us: float
    """CPU microseconds a message that the client used."""
    broker_us: float
    """The same of the broker, over all rounds."""


def load(namesrv: str, broker_pid: int, mode: str, messages: int, *keys: str) -> Load:
    """Run the client program once; with an access key and its secret it signs."""
    before = cpu_seconds(broker_pid)
    arguments = (namesrv, f"Load_{mode}", mode, str(messages), str(ROUNDS), *keys)
    with client_program("5.3.3", "SendLoad", *arguments, options=QUIET) as jvm:
        if jvm.finish(300):
            raise RuntimeError("\n".join(jvm.lines))
        rate, client_us = jvm.table("RATE")[-1]
    broker_us = (cpu_seconds(broker_pid) - before) * 1e6 / (messages * ROUNDS)
    return Load(float(rate), float(client_us), broker_us)


PARTS = {"java_load": True, "java_load_without_fast": False}
"""The benches, and whether our broker has the extra ``fast``."""


def main(bench: str) -> None:
    """Take and keep the figures of a bench."""
    figures = []
    with (
        tempfile.TemporaryDirectory() as home,
        real_cluster(Path(home), settings=REAL_FILES) as real,
    ):
        for mode, (messages, bar) in LOADS.items():
            load(real.namesrv_addr, real.broker_pid, mode, messages)  # warms up its JVM
            pairs = []
            for _ in range(RUNS):
                with served(fast=PARTS[bench]) as server:
                    ours = load(server.namesrv, server.pid, mode, messages)
                pairs.append((ours, load(real.namesrv_addr, real.broker_pid, mode, messages)))
            figures += figures_of(mode, pairs, bar)
    keep(bench, figures, messages={mode: count for mode, (count, _) in LOADS.items()})


def figures_of(mode: str, pairs: list[tuple[Load, Load]], bar: float) -> list[Figure]:
    """Ratio, rates, and what each process cost.

    The ceiling is the ratio that a broker which costs nothing would reach against the real one,
    if the machine's processors are what limits both: the client's share of the work stays.
    """
    return [
        figure(f"{mode}: ours / real", "x", [a.rate / b.rate for a, b in pairs], at_least=bar),
        figure(f"{mode}: ours", "messages/s", [a.rate for a, _ in pairs]),
        figure(f"{mode}: real 5.3.3", "messages/s", [b.rate for _, b in pairs]),
        figure(f"{mode}: CPU of ours", "us/message", [a.broker_us for a, _ in pairs]),
        figure(f"{mode}: CPU of real", "us/message", [b.broker_us for _, b in pairs]),
        figure(f"{mode}: CPU of the client at ours", "us/message", [a.client_us for a, _ in pairs]),
        figure(f"{mode}: CPU of the client at real", "us/message", [b.client_us for _, b in pairs]),
        figure(
            f"{mode}: ceiling by CPU",
            "x",
            [(b.client_us + b.broker_us) / b.client_us for _, b in pairs],
        ),
    ]
