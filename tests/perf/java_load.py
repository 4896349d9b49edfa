"""RocketMQ's own Java client against our broker and against the real one, in turn.

The same 5.3.3 client program sends 256-byte messages: eight threads synchronously, 256 in flight
asynchronously, and in batches of 32. Each run is paired: ours, real, ours, real; the ratio is
taken pair by pair, so it holds when the machine's speed drifts.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.interop.java_tools import client_program
from tests.interop.real_broker import real_cluster
from tests.perf.measure import RUNS, figure, keep
from tests.perf.server_process import served

LOADS = {"sync": (40_000, 1.3), "async": (100_000, 2.0), "batch": (320_000, 1.3)}
ROUNDS = 3


def rate(namesrv: str, mode: str, messages: int) -> float:
    """Messages a second of the last round; the earlier ones warm up the client's JVM."""
    arguments = (namesrv, f"Load_{mode}", mode, str(messages), str(ROUNDS))
    with client_program("5.3.3", "SendLoad", *arguments) as jvm:
        if jvm.finish(300):
            raise RuntimeError("\n".join(jvm.lines))
        return float(jvm.table("RATE")[-1][0])


def main() -> None:
    figures = []
    with (
        tempfile.TemporaryDirectory() as home,
        real_cluster(Path(home)) as real,
    ):
        for mode, (messages, bar) in LOADS.items():
            rate(real.namesrv_addr, mode, messages)  # warms up the real broker's JVM
            ours, theirs = [], []
            for _ in range(RUNS):
                with served() as server:
                    ours.append(rate(server.namesrv, mode, messages))
                theirs.append(rate(real.namesrv_addr, mode, messages))
            ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
            figures += [
                figure(f"{mode}: ours / real", "x", ratios, at_least=bar),
                figure(f"{mode}: ours", "messages/s", ours),
                figure(f"{mode}: real 5.3.3", "messages/s", theirs),
            ]
    keep("java_load", figures, messages={mode: count for mode, (count, _) in LOADS.items()})
