"""What a driver process can be told to do: each function takes a session and returns JSON.

Imports nothing but PySpark and the standard library before a function needs more.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def register(spark: SparkSession) -> None:
    import spark_connector

    spark_connector.register(spark)


def log_batches(spark: SparkSession) -> None:
    """Ask for a line for each micro-batch, as on Connect."""
    import spark_connector

    spark.streams.addListener(spark_connector.BatchLog())


def add_bundle(spark: SparkSession, path: str) -> None:
    """Send a zip of Python files to a Connect server."""
    spark.addArtifacts(path, pyfile=True)


def add_file(spark: SparkSession, path: str) -> None:
    """Let Spark carry a file to every process."""
    spark.sparkContext.addFile(path)


def visible_in_workers(spark: SparkSession, names: list[str]) -> list[str]:
    """Which of these modules any Python worker could import."""

    def find(_rows: Any) -> Any:
        from importlib.util import find_spec

        yield from (name for name in names if find_spec(name) is not None)

    rows = spark.sparkContext.parallelize(range(2), 2).mapPartitions(find)
    return sorted(set(rows.collect()))


def read(spark: SparkSession, address: str, topic: str, **options: str) -> list[list[Any]]:
    """Return [queue, offset, body] of every row."""
    frame = _reader(spark, address, topic).options(**options).load()
    rows = frame.selectExpr("queue_id", "offset", "CAST(body AS STRING) AS body").collect()
    return [[row.queue_id, row.offset, row.body] for row in rows]


def write(
    spark: SparkSession, address: str, topic: str, count: int, tasks: int = 2, **options: str
) -> None:
    """Append rows whose body and dedupe key are their numbers."""
    frame = spark.range(0, count, 1, tasks).selectExpr(
        "CAST(id AS STRING) AS body", "CAST(id AS STRING) AS dedupe_key"
    )
    writer = frame.write.format("rocketmq").mode("append")
    writer.options(nameServer=address, topic=topic, **options).save()


def send_rows(spark: SparkSession, address: str, topic: str) -> int:
    """Send a row with an answer; return how many answers came."""
    import spark_connector

    rows = spark.range(1).selectExpr("CAST(id AS STRING) AS body")
    return spark_connector.send(rows, nameServer=address, topic=topic).count()


def stream_sizes(
    spark: SparkSession, address: str, topic: str, checkpoint: str, **options: str
) -> list[int]:
    """Read what there is in micro-batches; return the rows of each one that had any."""
    query = (
        _stream(spark, address, topic, **options)
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]


def copy_stream(
    spark: SparkSession,
    address: str,
    source: str,
    target: str,
    checkpoint: str,
    reading: dict[str, str] | None = None,
    **sink: str,
) -> None:
    """Copy what there is of a topic to another one."""
    frame = _stream(spark, address, source, **(reading or {}))
    query = _copy(frame, address, target, checkpoint, sink)
    query.trigger(availableNow=True).start().awaitTermination(120)


def copy_and_halt(
    spark: SparkSession, address: str, source: str, targets: dict[str, dict[str, str]], folder: str
) -> None:
    """Begin to copy a topic to others; each copy stands still where Spark would log its commit.

    That is when the sink has committed, and a file in the folder is named after the target.
    """
    spark.dataSource.register(_halting(folder))
    for target, sink in targets.items():
        frame = _stream(spark, address, source)
        query = _copy(frame, address, target, f"{folder}/checkpoint-{target}", sink)
        query.start()


def wait_for_executors(spark: SparkSession, count: int) -> None:
    """Wait until so many executors take tasks; one that was killed is listed for a while."""

    def place(_rows: Any) -> Any:
        yield os.getppid()  # the process that each executor starts its workers from

    context = spark.sparkContext
    while True:
        tasks = context.parallelize(range(count), count).mapPartitions(place)
        if len(set(tasks.collect())) == count:
            return
        threading.Event().wait(0.05)


def _reader(spark: SparkSession, address: str, topic: str) -> Any:
    return spark.read.format("rocketmq").options(nameServer=address, subscribe=topic)


def _stream(spark: SparkSession, address: str, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("rocketmq").options(nameServer=address, subscribe=topic)
    return reader.options(**({"startingOffsets": "earliest"} | options)).load()


def _copy(
    frame: DataFrame, address: str, target: str, checkpoint: str, sink: dict[str, str]
) -> Any:
    writer = frame.select("body").writeStream.format("rocketmq")
    options = {"nameServer": address, "topic": target, "checkpointLocation": checkpoint}
    return writer.options(**(options | sink))


def _halting(folder: str) -> Any:
    """The data source, but its sink's commit does not return; sent by value, as it is local."""
    from spark_connector.source import RocketMQDataSource
    from spark_connector.writing.writers import StreamWriter

    class HaltingWriter(StreamWriter):
        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
            super().commit(messages, batchId)
            Path(folder, str(self._task.options.topic)).touch()
            while os.getppid() > 1:  # until the driver is gone
                threading.Event().wait(1)

    class HaltingSource(RocketMQDataSource):
        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
            return HaltingWriter(self.options, schema, overwrite=overwrite)

    return HaltingSource
