"""How fast RocketMQ's own Java client can be served at most: by a server that stores nothing.

The same runs as `java_load`, paired with the real broker in the same way.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.interop.real_broker import real_cluster
from tests.perf.java_load import LOADS, REAL_FILES, load
from tests.perf.measure import RUNS, figure, keep
from tests.perf.server_process import served


def main() -> None:
    figures = []
    with (
        tempfile.TemporaryDirectory() as home,
        real_cluster(Path(home), settings=REAL_FILES) as real,
    ):
        for mode, (messages, _) in LOADS.items():
            load(real.namesrv_addr, real.broker_pid, mode, messages)  # warms up its JVM
            pairs = []
            for _ in range(RUNS):
                with served(silent=True) as server:
                    silent = load(server.namesrv, server.pid, mode, messages)
                pairs.append((silent, load(real.namesrv_addr, real.broker_pid, mode, messages)))
            figures += [
                figure(f"{mode}: silent / real", "x", [a.rate / b.rate for a, b in pairs]),
                figure(f"{mode}: silent", "messages/s", [a.rate for a, _ in pairs]),
                figure(f"{mode}: real 5.3.3", "messages/s", [b.rate for _, b in pairs]),
                figure(f"{mode}: CPU of silent", "us/message", [a.broker_us for a, _ in pairs]),
            ]
    keep("java_ceiling", figures, messages={mode: count for mode, (count, _) in LOADS.items()})
