"""This SDK beside RocketMQ's clients in Java, Go and Python: one run, in turns, on two brokers.

A peer is a program. Its arguments are the address of a name server (of a gRPC endpoint for the
official client in Python), the prefix of its topics, and how many messages each part has. It sends
one message to ``PREFIX_echo`` and prints ``SENT``. When a push consumer of its own has received
that, it prints ``IDLE`` and waits for a line. Then it does each part twice and prints the name and
the result of the second time, which the first has warmed up:

* ``blocking``: messages a second, one after the other, from one thread.
* ``window``: the same with up to 1,000 under way.
* ``batch``: the same in batches of 32. The official client in Python has none.
* ``consume``: messages a second in an empty listener of a new group, from the first to the last.
* ``latency``: the median of the microseconds from the begin of a send to the listener.

All bodies have 256 bytes. The picture of it is made by ``python -m tests.perf.peers_picture``.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import define, field, frozen

from rocketmq_py.admin import AdminClient
from tests.interop import grpc_clients
from tests.interop.java_tools import CACHE, QUIET, compiled, jars
from tests.interop.real_broker import real_cluster
from tests.interop.real_proxy import real_proxy
from tests.perf.java_load import REAL_FILES
from tests.perf.measure import ENVIRONMENT, ROOT, RUNS, Figure, figure, keep
from tests.perf.server_process import resident_mb, served

CLIENTS = Path(__file__).parent / "peer_clients"
GO = ROOT / "tests" / "interop" / "go"
VERSION = "5.3.3"
PARTS = {
    "blocking": 6_000,
    "window": 30_000,
    "batch": 64_000,
    "consume": 60_000,
    "latency": 1_000,
}
"""How many messages each has; the official client in Python is slow and gets a tenth."""
SETTLE_S = 1.0
WAIT_S = 300.0
INTERPRETER = [sys.executable, "-c", "import sys; print('IDLE', flush=True); sys.stdin.readline()"]


@frozen
class Peer:
    """A program, and what it is given."""

    name: str
    command: Callable[[], list[str]]
    speaks_grpc: bool = False
    share: int = 1


def go() -> list[str]:
    """The remoting client in Go; the version stands in go.mod."""
    out = CACHE / "go-load"
    subprocess.run(["go", "build", "-o", str(out), "./load"], cwd=GO, check=True)
    return [str(out)]


def java() -> list[str]:
    """RocketMQ's client in Java."""
    path = compiled("PeerLoad", jars(VERSION, "rocketmq-client"))
    return ["java", "-Xmx256m", *QUIET, "-cp", path, "PeerLoad"]


def official() -> list[str]:
    """RocketMQ's gRPC client in Python, in an environment of its own."""
    return [*grpc_clients.python()[:-1], str(CLIENTS / "official.py")]


OURS = "rocketmq_py"
JAVA = "Java 5.3.3"
GOS = "Go 2.1.2"
OFFICIAL = "Python 5.1.2, gRPC"
PEERS = (
    Peer(OURS, lambda: [sys.executable, "-m", "tests.perf.peer_clients.ours"]),
    Peer(JAVA, java),
    Peer(GOS, go),
    Peer(OFFICIAL, official, speaks_grpc=True, share=10),
)
BARS = {
    ("blocking", JAVA): 1.2,
    ("blocking", GOS): 0.9,
    ("blocking", OFFICIAL): 5.0,
}
"""How many times as fast as another client this SDK should be."""


@frozen
class Server:
    """Where clients of both kinds find a broker."""

    name: str
    namesrv: str
    endpoints: str

    def address_for(self, peer: Peer) -> str:
        """Give the address that a peer wants."""
        return self.endpoints if peer.speaks_grpc else self.namesrv


@define
class Takes:
    """The values of all takes: by server, client and what was measured."""

    values: dict[tuple[str, str, str], list[float]] = field(factory=lambda: defaultdict(list))

    def add(self, server: str, peer: str, found: dict[str, float]) -> None:
        """Note what one run of a peer showed."""
        for name, value in found.items():
            self.values[server, peer, name].append(value)


def take(peer: Peer, command: list[str], server: Server, prefix: str) -> dict[str, float]:
    """Run a peer once: its own figures, milliseconds until it has sent, and MB while it is idle."""
    with AdminClient(namesrv_addr=server.namesrv) as admin:
        for topic in (f"{prefix}_echo", f"{prefix}_load"):
            admin.ensure_topic(topic, queues=4)
    counts = [str(count // peer.share) for count in PARTS.values()]
    since = time.perf_counter()
    with running([*command, server.address_for(peer), prefix, *counts]) as process:
        read_to(process, "SENT")
        found = {"start": (time.perf_counter() - since) * 1e3}
        read_to(process, "IDLE")
        time.sleep(SETTLE_S)
        found["memory"] = resident_mb(process.pid)
        rest, _ = process.communicate("\n", timeout=WAIT_S)
    for line in rest.splitlines():
        name, tab, value = line.partition("\t")
        if tab and name in PARTS:
            found[name] = float(value)
    if process.returncode:
        raise RuntimeError(f"{peer.name} at {server.name} ended with {process.returncode}: {rest}")
    return found


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a program with pipes; it does not outlive the body."""
    pipes = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, stdin=pipes, stdout=pipes, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_to(process: subprocess.Popen[str], word: str) -> None:
    """Read the lines of a peer until one is this word."""
    for line in process.stdout or ():
        if line.strip() == word:
            return
    raise RuntimeError(f"{process.args!r} ended before it printed {word}")


def interpreter_mb() -> float:
    """MB of a Python that has imported nothing."""
    with running(INTERPRETER) as process:
        read_to(process, "IDLE")
        return resident_mb(process.pid)


@contextlib.contextmanager
def both_servers() -> Iterator[tuple[Server, Server]]:
    """Our broker with its endpoint, and a real one behind a proxy."""
    with (
        tempfile.TemporaryDirectory() as home,
        served("--grpc-port", "0") as ours,
        real_cluster(Path(home) / "broker", settings=REAL_FILES) as real,
        real_proxy(Path(home) / "proxy", real.namesrv_addr, VERSION) as endpoints,
    ):
        yield (
            Server("embedded broker", ours.namesrv, ours.endpoints),
            Server(f"RocketMQ {VERSION}", real.namesrv_addr, endpoints),
        )


def main() -> None:
    """Take and keep the figures."""
    commands = [(peer, peer.command()) for peer in PEERS]
    takes = Takes()
    with both_servers() as servers:
        for turn in range(RUNS + 1):  # the first one is for the servers to warm up
            for peer, command in commands:
                for server in servers:
                    found = take(peer, command, server, f"Peer{turn}_{PEERS.index(peer)}")
                    if turn:
                        takes.add(server.name, peer.name, found)
    bare = [interpreter_mb() for _ in range(RUNS)]
    names = [server.name for server in servers]
    keep("peers", [one for name in names for one in figures_of(name, takes, bare)], parts=PARTS)


def figures_of(server: str, takes: Takes, bare: list[float]) -> list[Figure]:
    """Give the figures at one broker: of each client, and this SDK's against the others'."""
    units = dict.fromkeys(PARTS, "messages/s") | {"latency": "us", "start": "ms", "memory": "MB"}
    found = [
        figure(f"{server}, {peer.name}: {name}", unit, takes.values[server, peer.name, name])
        for name, unit in units.items()
        for peer in PEERS
        if takes.values[server, peer.name, name]
    ]

    def against(name: str, other: str) -> list[float]:
        pairs = zip(
            takes.values[server, OURS, name], takes.values[server, other, name], strict=True
        )
        return [mine / theirs for mine, theirs in pairs]

    found += [
        figure(f"{server}, {name}: ours / {other}", "x", against(name, other), at_least=bar)
        for (name, other), bar in BARS.items()
    ]
    found.append(
        figure(f"{server}, latency: ours / {JAVA}", "x", against("latency", JAVA), at_most=1.0)
    )
    mine = [one - statistics.median(bare) for one in takes.values[server, OURS, "memory"]]
    found.append(figure(f"{server}, memory over the interpreter", "MB", mine, at_most=20))
    return found
