"""What goes wrong with brokers: the processes, what is done to them, and in which order.

Each broker is a `rocketmq-py serve` with a store in a directory, which outlives it. A fault is a
context: it begins, lasts, and has ended when the broker can be reached again. Must not know who
sends and consumes.
"""

from __future__ import annotations

import random
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from attrs import frozen

from tests.pages import ROOT
from tests.perf.server_process import SERVE
from tests.soak.network import Network

READY_S = 30.0


class Broker:
    """One broker: its process may end, its store and its port stay."""

    def __init__(self, name: str, port: int, home: Path, topic: str) -> None:
        self.name = name
        self._log = home / f"{name}.log"
        # A kill loses nothing that was answered, synced or not: README promises it.
        settings = [f"brokerName={name}", "flushDiskType=SYNC_FLUSH"]
        given = [f"--store={home / name}", f"--broker-port={port}", "--namesrv-port=0"]
        self._command = [*SERVE, *given, f"--topic={topic}", *(f"--set={s}" for s in settings)]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Return when it serves."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        heard, _, _ = select.select([self._process.stdout], [], [], READY_S)
        line = self._process.stdout.readline() if heard else ""
        assert line.startswith("ready"), f"{self.name} did not start: {self._log.read_text()}"

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} ended: {self._log.read_text()}"
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal; idempotent."""
        if self._process is not None:
            self.tell(number)
            self._process.communicate(timeout=READY_S)
            self._process = None


def _ended_by(number: signal.Signals) -> Fault:
    @contextmanager
    def fault(broker: Broker, network: Network, _seconds: float) -> Iterator[None]:
        broker.end(number)
        network.become(broker.name, "gone")
        yield
        broker.start()
        network.become(broker.name, "clear")

    return fault


@contextmanager
def stopped(broker: Broker, _network: Network, _seconds: float) -> Iterator[None]:
    broker.tell(signal.SIGSTOP)
    yield
    broker.tell(signal.SIGCONT)


def _network_is(mode: str) -> Fault:
    @contextmanager
    def fault(broker: Broker, network: Network, seconds: float) -> Iterator[None]:
        network.become(broker.name, mode, min(1.0, seconds / 10))
        yield
        network.become(broker.name, "clear")

    return fault


Fault = Callable[[Broker, Network, float], AbstractContextManager[None]]
FAULTS: dict[str, Fault] = {
    "kill -9": _ended_by(signal.SIGKILL),
    "clean restart": _ended_by(signal.SIGTERM),
    "SIGSTOP": stopped,
    "black hole": _network_is("hole"),
    "slow network": _network_is("slow"),
    "connections cut": _network_is("cut"),
}


@frozen
class Drawn:
    """One fault of a run: whom it hits, for how long, and how long all is well before it."""

    kind: str
    broker: str
    seconds: float
    pause_s: float

    def __str__(self) -> str:
        return f"{self.broker}: {self.kind} for {self.seconds:.1f} s"


def draw(dice: random.Random, brokers: Sequence[str], longest_s: float) -> Iterator[Drawn]:
    """Draw for ever: every kind once in any order, then again; many faults are short."""
    while True:
        for kind in dice.sample(sorted(FAULTS), len(FAULTS)):
            seconds, pause_s = longest_s ** dice.random(), dice.uniform(0.5, 3.0)
            yield Drawn(kind, dice.choice(brokers), seconds, pause_s)


def suffer(drawn: Drawn, broker: Broker, network: Network, over: threading.Event) -> None:
    """Let one fault happen; return when it has ended."""
    with FAULTS[drawn.kind](broker, network, drawn.seconds):
        over.wait(drawn.seconds)
