"""How long a broker takes to start, in a warm process and as a new one, and its memory."""

from __future__ import annotations

import time

from embedded_broker import EmbeddedBroker
from tests.perf.measure import figure, five, keep
from tests.perf.server_process import served


def warm_start_ms() -> float:
    """From the call to routes visible, over TCP, in a process that has imported everything."""
    started = time.perf_counter()
    broker = EmbeddedBroker()
    broker.start()
    taken = time.perf_counter() - started
    broker.close()
    return taken * 1000


def process_ready_ms() -> float:
    with served() as server:
        return server.ready_ms


def resident_mb() -> float:
    with served() as server:
        return server.resident_mb()


def main() -> None:
    keep(
        "startup",
        [
            figure("EmbeddedBroker.start", "ms", five(warm_start_ms), at_most=60),
            figure("serve to ready", "ms", five(process_ready_ms), at_most=500),
            figure("resident memory of serve", "MB", five(resident_mb), at_most=80),
        ],
    )
