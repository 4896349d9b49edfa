"""A listener writes how far a stream is behind into a text file that Prometheus can read.

Spark calls a `StreamingQueryListener` after every batch. `spark_connector.lag` takes the lag from
its report: for each queue, and for all queues under the names that Spark's Kafka source uses. The
stream works through a backlog in limited batches, so that the lag falls to 0.

    .venv/bin/python examples/spark_lag_listener.py                      2,000 messages
    .venv/bin/python examples/spark_lag_listener.py --file lag.prom      keep the file
    .venv/bin/python examples/spark_lag_listener.py --rows 500000        full scale

The exit status is 1 if the lag does not fall step by step to 0.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _spark import checked, local_spark, run_with_spark

import spark_connector
from embedded_broker import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQueryListener

TOPIC = "Orders"
BATCHES = 5
WAIT_SECONDS = 60


def prometheus_text(query: str, behind: spark_connector.Lag) -> str:
    """Write the figures in Prometheus' text format."""
    lines = ["# TYPE rocketmq_stream_lag gauge"]
    for (topic, broker, queue), number in sorted(behind.items()):
        labels = f'query="{query}",topic="{topic}",broker="{broker}",queue="{queue}"'
        lines.append(f"rocketmq_stream_lag{{{labels}}} {number}")
    for name, figure in behind.metrics.items():
        lines.append(f"# TYPE rocketmq_stream_{name} gauge")
        lines.append(f'rocketmq_stream_{name}{{query="{query}"}} {figure}')
    return "\n".join(lines) + "\n"


def listener_for(path: Path, totals: list[int], ended: threading.Event) -> StreamingQueryListener:
    """Make a listener that rewrites the file after every batch."""
    from pyspark.sql.streaming import StreamingQueryListener

    class LagListener(StreamingQueryListener):
        """Notes what every progress report says."""

        def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
            """Do nothing yet."""

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
            """Write the file anew, whole or not at all."""
            behind = spark_connector.lag(event.progress)
            new = path.with_suffix(".new")
            new.write_text(prometheus_text(event.progress.name, behind), encoding="utf-8")
            new.replace(path)
            totals.append(behind.total)
            most = behind.metrics["maxOffsetsBehindLatest"]
            print(f"batch {event.progress.batchId}: {behind.total} behind, one queue {most}")

        def onQueryTerminated(self, event: Any) -> None:  # noqa: ARG002, N802 - Spark's name
            """Let the program go on: Spark calls this after the last report."""
            ended.set()

    return LagListener()


def follow(spark: SparkSession, broker: EmbeddedBroker, rows: int, folder: Path) -> None:
    """Read the backlog in limited batches and throw it away."""
    orders = (
        spark.readStream.format("rocketmq")
        .options(nameServer=broker.namesrv_addr, subscribe=TOPIC, startingOffsets="earliest")
        .options(maxOffsetsPerTrigger=str(-(-rows // BATCHES)))
        .load()
    )
    query = (
        orders.writeStream.format("noop")
        .queryName("orders")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def program() -> int:
    parser = argparse.ArgumentParser(description="Export the lag of a stream.")
    parser.add_argument("--rows", type=int, default=2_000, help="how many messages")
    parser.add_argument("--file", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    totals: list[int] = []
    ended = threading.Event()
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedBroker(inproc=False) as broker,
        local_spark("lag listener") as spark,
    ):
        broker.topics.create(TOPIC, queues=3)
        backlog = spark.range(arguments.rows).selectExpr("concat('order ', id) AS body")
        to = {"nameServer": broker.namesrv_addr, "topic": TOPIC}
        backlog.write.format("rocketmq").options(**to).mode("append").save()
        path = arguments.file or Path(name) / "lag.prom"
        spark.streams.addListener(listener_for(path, totals, ended))
        follow(spark, broker, arguments.rows, Path(name))
        ended.wait(WAIT_SECONDS)
        text = path.read_text(encoding="utf-8")
    print(text, end="")
    return checked(
        ("reports", BATCHES, len(totals)),
        ("the lag falls", True, totals == sorted(set(totals), reverse=True)),
        ("lag at the end", 0, totals[-1] if totals else None),
        ("queues in the file", 3, text.count("rocketmq_stream_lag{")),
    )


if __name__ == "__main__":
    sys.exit(run_with_spark(program))
