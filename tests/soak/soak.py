"""One soak: faults one after the other, and after each the question whether all is well again.

The checks: every acknowledged message came, none that was refused; after each fault what is due
has come within `CALM_S`; at the end no queue has a lag, and the process of the clients has no more
threads, descriptors and memory than after the first faults. `Soak.failures` says what did not hold.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path

from embedded_broker.kit.process import free_ports
from tests.soak.clients import INSTANCES, TOPIC, Clients
from tests.soak.faults import FAULTS, Broker, Drawn, draw, suffer
from tests.soak.ledger import Ledger
from tests.soak.network import Network
from tests.unit.embedded_broker.api.test_many_brokers import MIB, memory, open_files

NAMES = ("broker-a", "broker-b", "broker-c")
CALM_S = 10.0
STEP_S = 0.05
GROWTH_MAX = 20 * MIB
LISTED = 20


class Footprint:
    """Threads, descriptors and memory of this process at one instant."""

    def __init__(self) -> None:
        self.memory = memory()
        self.files = open_files()
        self.threads = Counter(thread.name for thread in threading.enumerate())

    def growth_since(self, before: Footprint) -> list[str]:
        """Say what there is more of."""
        grown = [
            f"{now - before.threads[name]} more threads {name}"
            for name, now in self.threads.items()
            # A pool starts its threads when it needs them: one of each number in an instance.
            if now > before.threads[name] + INSTANCES * name[-1].isdecimal()
        ]
        grown += [
            f"{more} more descriptors: {kind}"
            for kind, more in (self.files - before.files).items()
            if more > INSTANCES  # some connection was away for a moment
        ]
        if self.memory - before.memory > GROWTH_MAX:
            grown.append(f"memory: {(self.memory - before.memory) / MIB:.1f} MiB more")
        return grown


class Soak:
    """One run, decided by its seed as far as the faults are concerned."""

    def __init__(
        self, home: Path, seed: int, seconds: float, tell: Callable[[str], None] = print
    ) -> None:
        self.failures: list[str] = []
        self.ledger = Ledger()
        self._dice = random.Random(seed)
        self._seconds = seconds
        self._longest_s = min(45.0, max(4.0, seconds / 30))
        self._tell = tell
        self._over = threading.Event()
        self._life = ExitStack()
        ports = free_ports(2 * len(NAMES))
        ways = {name: (ports.pop(), ports.pop()) for name in NAMES}
        self._brokers = {
            name: Broker(name, broker_port, home, TOPIC) for name, (_, broker_port) in ways.items()
        }
        self._network = Network(TOPIC, ways)

    def run(self) -> list[str]:
        """Run it; give what went wrong, with the story of the faults told meanwhile."""
        with self._life:
            self._life.callback(self._network.close)
            for broker in self._brokers.values():
                self._life.callback(broker.end)
                broker.start()
            clients = Clients(self._network.namesrv_addr, self.ledger)
            self._life.callback(clients.close)
            self._play(clients)
        self.failures += self.ledger.wrong
        return self.failures

    def _play(self, clients: Clients) -> None:
        faults = draw(self._dice, NAMES, self._longest_s)
        for drawn in islice(faults, len(FAULTS)):  # they start what is started only once
            ended = self._one(drawn)
        clients.lag()
        before = Footprint()
        while self.ledger.now + self._longest_s + CALM_S < self._seconds:
            ended = self._one(next(faults))
        clients.stop_sending()
        due = self.ledger.now + CALM_S
        self._within(ended + CALM_S, "lost", lambda: self.ledger.missing(due))
        self._within(ended + CALM_S, "lag", lambda: [str(one) for one in clients.lag().items()])
        after = Footprint()
        self.failures += after.growth_since(before)
        self._tell(
            f"memory: {before.memory / MIB:.1f} MiB after the first faults, "
            f"{after.memory / MIB:.1f} MiB at the end; {after.threads.total()} threads"
        )
        self._tell(_told(self.ledger.counts))
        self._tell_refusals()

    def _tell_refusals(self) -> None:
        for line in self.ledger.refusals():
            self._tell(f"            {line}")

    def _one(self, drawn: Drawn) -> float:
        """Play one fault and wait until all is well; give when the fault ended."""
        self._over.wait(drawn.pause_s)
        began, counted = self.ledger.now, self.ledger.counts.copy()
        suffer(drawn, self._brokers[drawn.broker], self._network, self._over)
        ended = self.ledger.now
        missing = partial(self.ledger.missing, ended)
        self._within(ended + CALM_S, f"not calm after {drawn}", missing, listed=1)
        calm_s = self.ledger.now - ended
        counts = _told(self.ledger.counts - counted)
        self._tell(f"{began:7.1f} s  {drawn}; calm {calm_s:.1f} s after it: {counts}")
        self._tell_refusals()
        return ended

    def _within(
        self, until: float, what: str, left: Callable[[], list[str]], *, listed: int = LISTED
    ) -> None:
        """Wait until nothing is left; tell what is when the time is over."""
        while lines := left():
            if self.ledger.now > until:
                more = len(lines) - listed
                lines = lines[:listed] + [f"... and {more} more"] * (more > 0)
                self.failures += [f"{what}: {line}" for line in lines]
                return
            self._over.wait(STEP_S)


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
