"""What the Spark benches share: a local Spark, our broker beside it, CPU of both, options.

`local[2]`: one JVM and two Python workers at a time, which share the machine's processors with the
broker, as a small job does. Every run is a write to Spark's `noop` sink or to a topic.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, frozen

from tests.perf.kafka import spark_jars
from tests.perf.machine_memory import touch_memory
from tests.perf.measure import ENVIRONMENT, ROOT, RUNS, Figure, figure, keep
from tests.perf.server_process import TICKS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MILLION = 1_000_000
MASTER = "local[2]"
PULL_LIMITS = {
    "maxTransferCountOnMessageInMemory": "1024",
    "maxTransferBytesOnMessageInMemory": "1048576",
}


@frozen
class Trial:
    """How large a bench is; smaller than asked for, its figures go to a file of their own."""

    rows: int
    runs: int
    batches: int
    is_trial: bool


USUAL = {"rows": MILLION, "runs": RUNS, "batches": 1_000}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that make a run of a Spark bench a trial."""
    for name, usual in USUAL.items():
        parser.add_argument(f"--{name}", type=int, metavar="N", default=usual, help=f"{usual:,}")


def trial() -> Trial:
    """Read the options of the command line; those of no interest are left to others."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_options(parser)
    given, _ = parser.parse_known_args()
    usual = vars(given) == USUAL
    return Trial(given.rows, given.runs, given.batches, is_trial=not usual)


def report(bench: str, figures: list[Figure], of: Trial, **details: object) -> None:
    """Print and keep the figures, a trial's under another name."""
    name = f"{bench}_trial" if of.is_trial else bench
    keep(name, figures, rows=of.rows, runs=of.runs, master=MASTER, **details)


@contextlib.contextmanager
def spark_session(work: Path) -> Iterator[SparkSession]:
    """Start Spark with our source and Kafka's; its JVM ends with the block."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    import spark_connector

    session = (
        SparkSession.builder.master(MASTER)
        .appName("rocketmq-py-perf")
        .config("spark.jars", spark_jars())
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(work / "warehouse"))
        .config("spark.local.dir", str(work / "local"))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    spark_connector.register(session)
    try:
        yield session
    finally:
        gateway = session.sparkContext._gateway
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(20)
        SparkContext._gateway = SparkContext._jvm = None  # the next bench starts its own


@define
class Server:
    """Our broker in a process of its own."""

    process: subprocess.Popen[str]
    namesrv: str

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def ask(self, *words: str) -> Any:
        """Say a line and read the answer; see `telling_server.py`."""
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("the server has no pipes")
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def options(self, **more: object) -> dict[str, str]:
        """Options for the connector."""
        return {"nameServer": self.namesrv} | {name: str(one) for name, one in more.items()}


@contextlib.contextmanager
def telling_server(**settings: str) -> Iterator[Server]:
    """Start our broker on free ports; it ends with the block."""
    command = [sys.executable, "-m", "tests.perf.telling_server"]
    command += [f"{name}={value}" for name, value in settings.items()]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        line = process.stdout.readline() if process.stdout else ""
        try:
            yield Server(process, line.split("namesrv=")[1].split()[0])
        finally:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(20)


# --- processes -----------------------------------------------------------------------------------


def parents() -> dict[int, int]:
    """The parent of every process of this machine."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                found[int(entry.name)] = int(_stat(int(entry.name))[1])
    return found


def tree(root: int) -> list[int]:
    """A process and all that come from it."""
    above = parents()
    found = [root]
    for one in found:
        found += [child for child, parent in above.items() if parent == one]
    return found


def jvm_pid(session: SparkSession) -> int:
    """The process of Spark's JVM, whose children are the Python workers."""
    pid: int = session.sparkContext._gateway.proc.pid
    return pid


def cpu_of_tree(root: int) -> float:
    """User and system seconds of a process, its children, and those of them that have ended."""
    total = 0
    for pid in tree(root):
        with contextlib.suppress(OSError):
            total += sum(int(one) for one in _stat(pid)[11:15])
    return total / TICKS


def command_of(pid: int) -> str:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def ports_of(pid: int) -> set[int]:
    """Local ports of a process's TCP connections; none of a process that has ended."""
    inodes = set()
    with contextlib.suppress(OSError):
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            target = str(fd.readlink())
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]:
        fields = line.split()
        if fields[9] in inodes:
            found.add(int(fields[1].rsplit(":", 1)[1], 16))
    return found


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat behind the name: the first is the state, the second the parent."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()


# --- runs ----------------------------------------------------------------------------------------


@frozen
class Taken:
    """What one run showed."""

    rate: float
    """Rows a second."""
    spark_s: float
    """CPU seconds of the JVM and its Python workers for a million rows."""
    broker_s: float
    """The same of the broker."""


@contextlib.contextmanager
def taking(session: SparkSession, broker_pid: int, rows: int) -> Iterator[list[Taken]]:
    """Measure the block; the list has one element afterwards."""
    found: list[Taken] = []
    touch_memory()
    jvm = jvm_pid(session)
    spark_before, broker_before = cpu_of_tree(jvm), cpu_of_tree(broker_pid)
    started = time.perf_counter()
    yield found
    seconds = time.perf_counter() - started
    spark_s, broker_s = cpu_of_tree(jvm) - spark_before, cpu_of_tree(broker_pid) - broker_before
    per_million = MILLION / rows
    found.append(Taken(rows / seconds, spark_s * per_million, broker_s * per_million))


def drained(session: SparkSession, frame: DataFrame, broker_pid: int, rows: int) -> Taken:
    """Read a whole frame and drop it."""
    with taking(session, broker_pid, rows) as found:
        frame.write.format("noop").mode("overwrite").save()
    return found[0]


def figures_of(name: str, taken: list[Taken]) -> list[Figure]:
    """Rate and cost of one case."""
    return [
        figure(f"{name}: rate", "rows/s", [one.rate for one in taken]),
        figure(f"{name}: CPU of Spark and workers", "s/million", [one.spark_s for one in taken]),
        figure(f"{name}: CPU of the broker", "s/million", [one.broker_s for one in taken]),
    ]


def ratio(name: str, ours: list[Taken], theirs: list[Taken], at_least: float = 0.0) -> Figure:
    """Rate by rate, run by run, so that it holds when the machine's speed drifts."""
    runs = [one.rate / other.rate for one, other in zip(ours, theirs, strict=True)]
    return figure(name, "x", runs, at_least=at_least)
