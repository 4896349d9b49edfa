"""Memory of Spark's driver over many micro-batches: it must not grow with their number.

A stream copies a topic of one queue, two rows a batch, to another topic. Looked at are the Python
process that plans the stream (resident memory) and the heap of the JVM, after a collection.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.perf.measure import figure
from tests.perf.spark_session import (
    Server,
    command_of,
    jvm_pid,
    parents,
    report,
    spark_session,
    telling_server,
    tree,
    trial,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

ROWS_A_BATCH = 2
LOOKS = 10
WARM = 2
"""The growth is counted from this look on: caches are full by then."""
PLANNER = "python_streaming_source_runner"
PLANNER_MB = 8.0
HEAP_MB = 24.0


def fill(session: SparkSession, server: Server, rows: int) -> None:
    """Make the two topics and write the rows."""
    for topic in ("From", "To"):
        server.ask("topic", topic, "1")
    frame = session.range(0, rows, 1, 1).selectExpr("string(id) AS body")
    options = server.options(topic="From")
    frame.write.format("rocketmq").options(**options).mode("append").save()


def start(session: SparkSession, server: Server, checkpoint: Path) -> StreamingQuery:
    """Start the stream; it ends by itself when all is copied."""
    given = server.options(
        subscribe="From", startingOffsets="earliest", maxOffsetsPerTrigger=ROWS_A_BATCH
    )
    source = session.readStream.format("rocketmq").schema("body BINARY").options(**given).load()
    sink = source.writeStream.format("rocketmq").options(**server.options(topic="To"))
    return sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def planner_mb(session: SparkSession) -> float:
    """Resident memory of the process that plans the stream; 0 when there is none."""
    above = parents()
    named = [pid for pid in tree(jvm_pid(session))[1:] if PLANNER in _command(pid)]
    # A daemon of the same command line has forked it.
    for pid in set(named) - {above.get(one, 0) for one in named}:
        with contextlib.suppress(OSError, StopIteration):
            status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
            line = next(one for one in status.splitlines() if one.startswith("VmRSS:"))
            return int(line.split()[1]) / 1024
    return 0.0


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return command_of(pid)
    return ""


def heap_mb(session: SparkSession) -> float:
    """Heap that is in use after a collection."""
    jvm = session.sparkContext._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()
    runtime.gc()
    used: int = runtime.totalMemory() - runtime.freeMemory()
    return used / 1024 / 1024


def main() -> None:
    """Take the figures."""
    asked = trial()
    looks: list[tuple[int, float, float]] = []
    with (
        tempfile.TemporaryDirectory() as home,
        telling_server() as server,
        spark_session(Path(home)) as session,
    ):
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", "2")
        rows = asked.batches * ROWS_A_BATCH
        fill(session, server, rows)
        started = time.perf_counter()
        query = start(session, server, Path(home) / "checkpoint")
        step = max(1, asked.batches // LOOKS)
        while query.isActive:
            last = query.lastProgress
            done = 0 if last is None else last["batchId"] + 1
            if done >= step * (len(looks) + 1) and (planner := planner_mb(session)):
                looks.append((done, planner, heap_mb(session)))
            time.sleep(0.05)
        query.awaitTermination()
        seconds = time.perf_counter() - started
        copied = server.ask("visible", "To")
        batches = query.lastProgress["batchId"] + 1
    if copied != rows:
        raise RuntimeError(f"{copied} rows were copied of {rows}")
    first, last_look = looks[min(WARM, len(looks)) - 1], looks[-1]
    figures = [
        figure("growth of the planner", "MiB", [last_look[1] - first[1]], at_most=PLANNER_MB),
        figure("growth of the JVM's heap", "MiB", [last_look[2] - first[2]], at_most=HEAP_MB),
        figure("planner at the end", "MiB", [last_look[1]]),
        figure("JVM's heap at the end", "MiB", [last_look[2]]),
        figure("time of a batch", "ms", [seconds / batches * 1000]),
    ]
    report(
        "spark_memory",
        figures,
        asked,
        batches=batches,
        looks=[{"batches": n, "planner_mb": p, "heap_mb": h} for n, p, h in looks],
    )
