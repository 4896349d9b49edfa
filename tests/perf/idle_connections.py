"""What 2,000 connections cost on which nothing comes and goes: processor time and memory.

Each of them has sent the heartbeat of a producer and is silent then, for less time than the broker
lets it be idle. The memory is compared with what the broker took just before they came.
"""

from __future__ import annotations

import resource
import socket
import time
from contextlib import ExitStack

from attrs import frozen

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.json_text import dumps
from tests.perf.measure import RUNS, figure, keep
from tests.perf.server_process import Served, served

CONNECTIONS = 2_000
SECONDS = 20.0
SETTLE_SECONDS = 3.0
CPU_BAR = 1.0
MEMORY_BAR = 60.0
TIMEOUT_S = 30.0
MIB_IN_MB = 1.048576


@frozen
class Cost:
    """Of one run: percent of a core while all are silent, and MB more than without them."""

    cpu_percent: float
    more_mb: float


def heartbeat(number: int) -> bytes:
    """Give the heartbeat of a producer."""
    body = dumps(
        {
            "clientID": f"10.0.0.1@{number}",
            "producerDataSet": [{"groupName": f"Idle{number % 100}"}],
            "consumerDataSet": [],
        }
    )
    return RemotingCommand(RequestCode.HEART_BEAT, opaque=number, body=body).encode()


def connect(server: Served, stack: ExitStack) -> None:
    """Open all connections; each has its answer."""
    host, _, port = server.broker.rpartition(":")
    for number in range(CONNECTIONS):
        peer = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        stack.callback(peer.close)
        peer.sendall(heartbeat(number))
        if not peer.recv(4096):
            raise ConnectionError(f"connection {number} was closed by the broker")


def cost() -> Cost:
    """Take both figures of one broker."""
    with served() as server, ExitStack() as stack:
        time.sleep(SETTLE_SECONDS)
        before_mb = server.resident_mb()
        connect(server, stack)
        time.sleep(SETTLE_SECONDS)
        used, since = server.cpu_seconds(), time.perf_counter()
        time.sleep(SECONDS)
        percent = (server.cpu_seconds() - used) / (time.perf_counter() - since) * 100
        return Cost(percent, (server.resident_mb() - before_mb) * MIB_IN_MB)


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    runs = [cost() for _ in range(RUNS)]
    cpu = [one.cpu_percent for one in runs]
    memory = [one.more_mb for one in runs]
    keep(
        "idle_connections",
        [
            figure("CPU of the broker, all silent", "% of a core", cpu, at_most=CPU_BAR),
            figure("memory that they take", "MB", memory, at_most=MEMORY_BAR),
        ],
        connections=CONNECTIONS,
        seconds=SECONDS,
    )
