"""What importing the SDK costs beyond the bare interpreter, broken down by module."""

from __future__ import annotations

import re
import subprocess
import sys
import time

from tests.perf.measure import ENVIRONMENT, ROOT, figure, five, keep

PACKAGE = "import rocketmq_py"
NAMES = "from rocketmq_py import Message, DefaultMQProducer, DefaultMQPushConsumer"
BROKER = "from embedded_broker import EmbeddedBroker"
TOP = 25
TRIES = 10


def seconds(code: str) -> float:
    """Wall time of a fresh interpreter that runs the statement."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=ENVIRONMENT, check=True)
    return time.perf_counter() - started


def beyond_bare(code: str) -> float:
    """Milliseconds more than an interpreter that does nothing: the best of ten, run in turn."""
    pairs = [(seconds(code), seconds("pass")) for _ in range(TRIES)]
    return (min(took for took, _ in pairs) - min(bare for _, bare in pairs)) * 1000


def by_module(code: str) -> dict[str, float]:
    """Own milliseconds of the modules that cost most."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        cwd=ROOT,
        env=ENVIRONMENT,
        check=True,
        capture_output=True,
        text=True,
    )
    rows = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s*(\S+)", done.stderr)
    costs = sorted(((int(micros) / 1000, name) for micros, name in rows), reverse=True)
    return {name: millis for millis, name in costs[:TOP]}


def main() -> None:
    keep(
        "imports",
        [
            figure(PACKAGE, "ms", five(lambda: beyond_bare(PACKAGE)), at_most=5),
            figure(NAMES, "ms", five(lambda: beyond_bare(NAMES)), at_most=150),
            figure(BROKER, "ms", five(lambda: beyond_bare(BROKER))),
        ],
        own_ms_by_module=by_module(NAMES),
    )
