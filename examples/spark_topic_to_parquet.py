"""A topic is copied into Parquet files, exactly once, although the copy is stopped in the middle.

Spark's checkpoint fixes the offsets of a batch before the batch runs, and its file sink knows which
batches it has written. So a stream can be stopped anywhere, and goes on where it was. The example
stops a stream after a few batches, sends more messages, starts a second stream, and counts.

    .venv/bin/python examples/spark_topic_to_parquet.py                   5,000 messages
    .venv/bin/python examples/spark_topic_to_parquet.py --rows 1000000    full scale

The exit status is 1 if a message is missing from the files, or there twice.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _spark import checked, local_spark, run_with_spark

from embedded_broker import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "Events"
BATCHES = 10


def fill(spark: SparkSession, broker: EmbeddedBroker, rows: int) -> None:
    """Write some events to the topic."""
    events = spark.range(rows).selectExpr("concat('event ', id) AS body", "'event' AS tags")
    to = {"nameServer": broker.namesrv_addr, "topic": TOPIC}
    events.write.format("rocketmq").options(**to).mode("append").save()


def copy(spark: SparkSession, broker: EmbeddedBroker, folder: Path, limit: int) -> Any:
    """Prepare the stream; the caller chooses its trigger and starts it."""
    events = (
        spark.readStream.format("rocketmq")
        .options(nameServer=broker.namesrv_addr, subscribe=TOPIC)
        .options(startingOffsets="earliest", maxOffsetsPerTrigger=str(limit))
        .load()
        .selectExpr("topic", "broker_name", "queue_id", "offset", "CAST(body AS string) AS body")
    )
    writer = events.writeStream.format("parquet").option("path", str(folder / "events"))
    return writer.option("checkpointLocation", str(folder / "checkpoint"))


def program() -> int:
    parser = argparse.ArgumentParser(description="Copy a topic into Parquet files.")
    parser.add_argument("--rows", type=int, default=5_000, help="how many messages")
    rows = max(2 * BATCHES, parser.parse_args().rows)
    news = rows // 5
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedBroker(inproc=False) as broker,
        local_spark("topic to Parquet") as spark,
    ):
        folder = Path(name)
        broker.topics.create(TOPIC, queues=4)
        fill(spark, broker, rows)

        first = copy(spark, broker, folder, rows // BATCHES).start()
        while first.isActive and len(first.recentProgress) < BATCHES // 3:
            threading.Event().wait(0.05)
        spark.sparkContext.setLogLevel("OFF")  # a task that is cut off is what we want here
        first.stop()  # in the middle of whatever it was doing
        spark.sparkContext.setLogLevel("ERROR")
        half = spark.read.parquet(str(folder / "events")).count()
        print(f"stopped: {half} of {rows} messages are in the files; now {news} more arrive")

        fill(spark, broker, news)
        second = copy(spark, broker, folder, rows).trigger(availableNow=True).start()
        second.awaitTermination()
        files = spark.read.parquet(str(folder / "events"))
        copied = files.count()
        places = files.select("topic", "broker_name", "queue_id", "offset").distinct().count()
        bodies = files.select("body").distinct().count()
        print(f"went on: {copied} messages are in the files, from {places} different offsets")
    return checked(
        ("stopped before the end", True, 0 < half < rows),
        ("copied", rows + news, copied),
        ("different offsets", rows + news, places),
        ("different events", rows, bodies),
    )


if __name__ == "__main__":
    sys.exit(run_with_spark(program))
