"""`python -m tests.hostile.greedy_broker OPTIONS`: a broker that tells what its clients hold up.

Prints its address; then, for each line on its input, one line of JSON: bytes counted by its
budgets, the most that was seen of them, and the memory of the process. Ends with its input.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any

from attrs import define

from embedded_broker import EmbeddedBroker
from embedded_broker.lifecycle.runtime import Runtime

SAMPLE_EVERY_S = 0.002


@define
class Most:
    """The most that was seen."""

    unread: int = 0
    unfinished: int = 0
    stored: int = 0


def rss(name: str = "VmRSS") -> int:
    """Give the memory of this process in bytes; ``VmHWM``: the most that it ever was."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(one.split()[1]) * 1024 for one in status.splitlines() if name in one)


def serve(options: Mapping[str, object]) -> None:
    """Run the broker until the input ends."""
    with EmbeddedBroker(topics=["T"], inproc=False, config=options) as broker:
        runtime = broker._running_brokers._runtime
        assert runtime is not None
        print(broker.addr, flush=True)
        _answer(broker, runtime)


def _answer(broker: EmbeddedBroker, runtime: Runtime) -> None:
    limits, budget, most, ended = (
        runtime.connection_limits,
        broker._parts().store.budget,
        Most(),
        Event(),
    )
    waiters = broker._parts().consume.waiters

    def sample() -> None:
        while not ended.wait(SAMPLE_EVERY_S):
            most.unread = max(most.unread, limits.unread)
            most.unfinished = max(most.unfinished, limits.unfinished)
            most.stored = max(most.stored, budget.used)

    thread = Thread(target=sample)
    thread.start()
    for _ in sys.stdin:
        now = {
            "parked": len(waiters),
            "unread": limits.unread,
            "unfinished": limits.unfinished,
            "closed": limits.closed,
            "stored": budget.used,
            "stored_max": budget.bytes_max,
            "rss": rss(),
            "most_unread": most.unread,
            "most_unfinished": most.unfinished,
            "most_stored": most.stored,
            "most_rss": rss("VmHWM"),
        }
        print(json.dumps(now), flush=True)
    ended.set()
    thread.join()


class GreedyBroker:
    """The other end of the pipe."""

    def __init__(self, source: IO[str], target: IO[str], address: str) -> None:
        self._source = source
        self._target = target
        self.address = address

    def counts(self) -> dict[str, int]:
        """Ask what is held up now."""
        self._target.write("counts\n")
        self._target.flush()
        found: dict[str, int] = json.loads(self._source.readline())
        return found


@contextmanager
def greedy_broker(**options: Any) -> Iterator[GreedyBroker]:  # Any: values of options
    """Start a broker in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.greedy_broker", json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield GreedyBroker(process.stdout, process.stdin, process.stdout.readline().strip())
        finally:
            process.stdin.close()
            if process.wait(30):
                raise AssertionError(f"the broker ended with {process.returncode}")


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    serve(json.loads(sys.argv[1]))
