"""How the stream tests start a query, note what it reads, and wait for it without sleeping."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions

from embedded_broker import EmbeddedBroker, EmbeddedCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Place = tuple[str, str, int, int]
GUARD_S = 90.0
WORKER_LOGS = "spark.sql.pyspark.worker.logging.enabled"


class Seen:
    """What a query read: the places and bodies of every batch that had rows, in order."""

    def __init__(self, also: Callable[[], None] | None = None) -> None:
        self.batches: list[tuple[int, list[Any]]] = []
        self._also = also

    def __call__(self, frame: DataFrame, number: int) -> None:
        rows = frame.select(
            "topic", "broker_name", "queue_id", "offset", functions.col("body").cast("string")
        ).collect()
        if rows:
            self.batches.append((number, rows))
        if self._also is not None:
            self._also()

    @property
    def rows(self) -> list[Any]:
        return list(chain.from_iterable(rows for _, rows in self.batches))

    @property
    def sizes(self) -> list[int]:
        return [len(rows) for _, rows in self.batches]

    @property
    def places(self) -> list[Place]:
        """Where every row came from, sorted; a row that was read twice is there twice."""
        return sorted((r.topic, r.broker_name, r.queue_id, r.offset) for r in self.rows)

    @property
    def bodies(self) -> list[str]:
        return sorted(row.body for row in self.rows)


def stream(
    spark: SparkSession, server: EmbeddedBroker | EmbeddedCluster, **options: str
) -> DataFrame:
    """A stream of topic T from its beginning, that looks at routes and ends often."""
    given = {"nameServer": server.namesrv_addr, "startingOffsets": "earliest"}
    given |= {"offsetPollIntervalMs": "20", "routeRefreshMs": "50"}
    if options.keys().isdisjoint({"subscribePattern", "deadLettersOf"}):
        given["subscribe"] = "T"
    return spark.readStream.format("rocketmq").options(**(given | options)).load()


def fill(broker: EmbeddedBroker, first: int, past: int, topic: str = "T", queues: int = 2) -> None:
    """Send m<number> for every number, in turn to the queues."""
    for number in range(first, past):
        broker.send(topic, b"m%d" % number, queue=number % queues)


def names(first: int, past: int) -> list[str]:
    return sorted(f"m{number}" for number in range(first, past))


def read_all(
    frame: DataFrame, checkpoint: Path, seen: Seen | None = None, **trigger: Any
) -> tuple[Seen, StreamingQuery]:
    """Run to the ends that are there now; a failure of the query is raised."""
    seen = seen or Seen()
    writer = frame.writeStream.foreachBatch(seen).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(**(trigger or {"availableNow": True})).start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    return seen, query


@contextmanager
def running(
    frame: DataFrame, checkpoint: Path, sink: Callable[[DataFrame, int], None]
) -> Iterator[StreamingQuery]:
    """Run until the body ends."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="50 milliseconds").start()
    try:
        yield query
    finally:
        query.stop()


def until(broker: EmbeddedBroker, query: StreamingQuery, condition: Callable[[], object]) -> None:
    """Wait until the condition holds while the query runs; its failure is raised."""
    broker.wait_for(lambda _b: condition() or not query.isActive, timeout=GUARD_S)
    failure = query.exception()
    if failure is not None:
        raise failure
    assert condition()


def worker_logs(spark: SparkSession) -> DataFrame:
    """What Python workers have logged; skips the test on a Spark that does not keep it."""
    if not hasattr(spark.tvf, "python_worker_logs"):
        pytest.skip("this Spark keeps no logs of its Python workers")
    return spark.tvf.python_worker_logs()


def with_logs(spark: SparkSession, frame: DataFrame) -> tuple[list[Any], list[str]]:
    """The rows of a frame, and what its plan and its tasks have logged, which Spark keeps."""
    rows: list[Any] = []
    told = logs_of(spark, lambda: rows.extend(frame.collect()))
    return rows, told


def logs_of(spark: SparkSession, work: Callable[[], object]) -> list[str]:
    """What was logged while some work was done; Spark keeps what others did before it, too."""

    def lines() -> Counter[str]:
        return Counter(row.msg for row in worker_logs(spark).collect())

    spark.conf.set(WORKER_LOGS, "true")
    try:
        before = lines()
        work()
        return list((lines() - before).elements())
    finally:
        spark.conf.unset(WORKER_LOGS)


# --- what Spark keeps ----------------------------------------------------------------------------


def logged(checkpoint: Path, kind: str = "offsets") -> list[int]:
    """Numbers of the batches in a log of the checkpoint: offsets (planned) or commits (done)."""
    return sorted(int(path.name) for path in (checkpoint / kind).glob("*") if path.name.isdigit())


def offset_of(checkpoint: Path, batch: int) -> dict[str, Any]:
    """The end offset of a batch, as Spark wrote it down."""
    lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    return dict(json.loads(lines[-1]))


def forget(checkpoint: Path, kind: str, batch: int) -> None:
    """Remove one entry of a log, as if Spark had died before it wrote it."""
    for name in (str(batch), f".{batch}.crc"):
        (checkpoint / kind / name).unlink()


def rewrite_offset(checkpoint: Path, batch: int, text: str) -> None:
    """Put another end offset in the place of a batch's."""
    path = checkpoint / "offsets" / str(batch)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-1], text]))
    path.with_name(f".{batch}.crc").unlink()
