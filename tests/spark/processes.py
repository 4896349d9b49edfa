"""Which process is at the other end of a broker's connection, and who its ancestors are.

Spark starts Python workers as it likes; the sockets at the broker tell which one reads or writes.
Linux only, as it reads /proc.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from embedded_broker import EmbeddedBroker

EXECUTOR = "CoarseGrainedExecutorBackend"


def connections_asking(broker: EmbeddedBroker, *codes: int) -> set[int]:
    """Numbers of the connections on which these requests came, as in the journal."""
    return {one.connection for code in codes for one in broker.journal.requests(code=code)}


def workers_asking(broker: EmbeddedBroker, *codes: int) -> set[int]:
    """Process ids at the other end of the connections on which these requests came."""
    numbers = connections_asking(broker, *codes)
    ends = {
        (exchange.connection.remote[1], exchange.connection.local[1])
        for exchange in list(broker.journal._ring)
        if exchange.connection.id in numbers and not exchange.connection.closed
    }
    return _owners(ends)


def close_connections(broker: EmbeddedBroker, *codes: int) -> None:
    """Close, at the broker, the connections on which these requests came."""
    numbers = connections_asking(broker, *codes)
    for exchange in list(broker.journal._ring):
        if exchange.connection.id in numbers and not exchange.connection.closed:
            exchange.connection.close()


def executor_of(worker: int) -> int:
    """The executor that a Python worker belongs to; raises LookupError when it has none."""
    pid = worker
    while pid > 1:
        if EXECUTOR in _command(pid):
            return pid
        pid = _parent(pid)
    raise LookupError(f"process {worker} ({_command(worker)}) belongs to no executor")


def kill(pid: int) -> None:
    """End a process of this test's Spark as the kernel does, without a chance to clean up."""
    os.kill(pid, signal.SIGKILL)


def _owners(ends: set[tuple[int, int]]) -> set[int]:
    """Processes that hold one of these loopback connections: own port and the peer's.

    The own port alone does not tell: the kernel gives it to connections of several peers.
    """
    inodes = set()
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if (_port(fields[1]), _port(fields[2])) in ends:
                inodes.add(f"socket:[{fields[9]}]")
    inodes.discard("socket:[0]")
    found = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            if any(str(one.readlink()) in inodes for one in (process / "fd").iterdir()):
                found.add(int(process.name))
        except OSError:
            continue  # it has ended, or is not ours
    return found


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    match = re.search(r"^PPid:\s+(\d+)$", status, re.MULTILINE)
    return int(match[1]) if match else 0
