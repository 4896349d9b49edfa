"""A `rocketmq-py serve` process and what the operating system says of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from tests.perf.measure import ENVIRONMENT, ROOT

SILENT = [sys.executable, "-m", "tests.perf.silent_server", "serve"]
_MAIN = "from embedded_broker.cli import main; main()"
SERVE = [sys.executable, "-c", _MAIN, "serve"]
_HIDE_FAST = "import sys; sys.modules['zlib_ng'] = sys.modules['uvloop'] = None"
WITHOUT_FAST = [sys.executable, "-c", f"{_HIDE_FAST}; {_MAIN}", "serve"]
TICKS = os.sysconf("SC_CLK_TCK")


@frozen
class Served:
    """Addresses and process of a running server, and how long it took to be ready."""

    pid: int
    namesrv: str
    broker: str
    ready_ms: float
    endpoints: str = ""
    """Where gRPC clients go, if any may."""

    def cpu_seconds(self) -> float:
        """User and system time used so far."""
        return cpu_seconds(self.pid)

    def resident_mb(self) -> float:
        """Resident memory in MiB."""
        return resident_mb(self.pid)


def resident_mb(pid: int) -> float:
    """Resident memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.contextmanager
def served(*options: str, silent: bool = False, fast: bool = True) -> Iterator[Served]:
    """Start `serve` on free ports and stop it at the end.

    A silent one stores nothing; one that is not ``fast`` does without that extra.
    """
    started = time.perf_counter()
    command = [
        *(SILENT if silent else SERVE if fast else WITHOUT_FAST),
        "--namesrv-port",
        "0",
        "--broker-port",
        "0",
        *options,
    ]
    with subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as process:
        line = process.stdout.readline() if process.stdout else ""
        ready_ms = (time.perf_counter() - started) * 1000
        try:
            told = dict(word.split("=", 1) for word in line.split() if "=" in word)
            endpoints = told.get("endpoints", "")
            yield Served(process.pid, told["namesrv"], told.get("broker", ""), ready_ms, endpoints)
        finally:
            process.terminate()
            process.wait(20)
