"""How long a broker and the command take to start, in a warm process and in new ones; memory."""

from __future__ import annotations

import time
from functools import partial

from embedded_broker import EmbeddedBroker
from tests.perf.imports import seconds
from tests.perf.measure import figure, five, keep
from tests.perf.server_process import served

STARTS = """
import os
from embedded_broker import EmbeddedBroker

EmbeddedBroker().start()
os._exit(0)
"""
TELLS = "import sys; sys.argv[1:] = ['--version']; from embedded_broker.cli import main; main()"


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


def new_process_ms(code: str) -> float:
    """From the start of an interpreter until it has done this; a broker is not closed."""
    return seconds(code) * 1000


def resident_mb() -> float:
    with served() as server:
        return server.resident_mb()


def main() -> None:
    keep(
        "startup",
        [
            figure("EmbeddedBroker.start", "ms", five(warm_start_ms), at_most=60),
            figure("import and start", "ms", five(partial(new_process_ms, STARTS)), at_most=300),
            figure("serve to ready", "ms", five(process_ready_ms), at_most=400),
            figure(
                "rocketmq-py --version", "ms", five(partial(new_process_ms, TELLS)), at_most=150
            ),
            figure("resident memory of serve", "MB", five(resident_mb), at_most=80),
        ],
    )
