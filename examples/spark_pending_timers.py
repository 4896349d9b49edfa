"""What waits in a timer store, as a DataFrame, by hour and topic, and as a picture.

A broker fills a store directory with delayed messages of three topics and stops. Then its files are
read, without a broker and without changing a byte. Spark counts the messages that are due in each
hour, and matplotlib (the extra `plot`) draws them.

    .venv/bin/python examples/spark_pending_timers.py                   3,000 timers in two days
    .venv/bin/python examples/spark_pending_timers.py --rows 200000     full scale
    .venv/bin/python examples/spark_pending_timers.py --png timers.png  keep the picture
    .venv/bin/python examples/spark_pending_timers.py --store DIR       a store that is there, ours
                                                                        or a real broker's

The exit status is 1 if the counts differ from what was written.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from _needs import missing_packages
from _spark import checked, local_spark, run_with_spark

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.inspector.pending import find_pending
from embedded_broker.inspector.reader import StoreFiles
from rocketmq_py.errors import how_to_install

if TYPE_CHECKING:
    from collections import Counter

    from pyspark.sql import DataFrame, SparkSession

TOPICS = ("Cancels", "Invoices", "Reminders")
HOURS = 48
HOUR_MS = 3_600_000


def fill(spark: SparkSession, store: Path, rows: int) -> None:
    """Let a broker take delayed messages into a directory, and stop it."""
    with EmbeddedBroker(store=store, clock=VirtualClock(), inproc=False) as broker:
        for topic in TOPICS:
            broker.topics.create(topic)
        names = ", ".join(f"'{topic}'" for topic in TOPICS)
        timers = spark.range(rows).selectExpr(
            "concat('timer ', id) AS body",
            f"element_at(array({names}), 1 + CAST(id % {len(TOPICS)} AS int)) AS topic",
            f"1000 + pmod(xxhash64(id), {HOURS * HOUR_MS - 1000}) AS delay_ms",
        )
        to = {"nameServer": broker.namesrv_addr}
        timers.write.format("rocketmq").options(**to).mode("append").save()


def pending(spark: SparkSession, store: Path) -> DataFrame:
    """Read what waits in a directory: topic and due time of each message."""
    import pyarrow as pa

    with StoreFiles.open(store) as files:
        found = find_pending(files)
        topics = pa.array(found.topics, pa.string()).take(pa.array(found.topic, pa.int32()))
        due = pa.array(found.due_ms, pa.timestamp("ms", tz="UTC"))
    due = due.cast(pa.timestamp("us", tz="UTC"))
    return spark.createDataFrame(pa.table({"topic": topics, "due": due}))


def draw(by_hour: list[tuple[str, str, int]], path: Path) -> None:
    """Draw the hours as bars, the topics on top of each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    hours = sorted({hour for hour, _, _ in by_hour})
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    below = [0] * len(hours)
    for topic in sorted({topic for _, topic, _ in by_hour}):
        counts = {hour: count for hour, name, count in by_hour if name == topic}
        heights = [counts.get(hour, 0) for hour in hours]
        axes.bar(range(len(hours)), heights, bottom=below, width=0.9, label=topic)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    ticks = range(0, len(hours), 1 + len(hours) // 8)
    axes.set_xticks(list(ticks), [hours[tick] for tick in ticks], fontsize=8)
    axes.set_ylabel("messages due in the hour")
    axes.set_title(f"{sum(below)} messages wait", loc="left", fontsize=11)
    figure.legend(frameon=False, fontsize=8, loc="outside right upper")
    figure.savefig(path, format="png")


def show(by_hour: list[tuple[str, str, int]], by_topic: Counter[str]) -> None:
    """Print the busiest hours and the topics."""
    for hour, topic, count in sorted(by_hour, key=lambda one: -one[2])[:5]:
        print(f"{hour} UTC  {topic:12} {count:6} due")
    print("waiting: " + ", ".join(f"{topic} {count}" for topic, count in by_topic.items()))


def program() -> int:
    from collections import Counter

    parser = argparse.ArgumentParser(description="Show what waits in a timer store.")
    parser.add_argument("--rows", type=int, default=3_000, help="how many timers to make")
    parser.add_argument("--store", type=Path, help="a store directory, instead of making one")
    parser.add_argument("--png", type=Path, help="where to write the picture")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, local_spark("pending timers") as spark:
        store = arguments.store or Path(name) / "store"
        if arguments.store is None:
            fill(spark, store, arguments.rows)
        waiting = pending(spark, store).cache()
        hours = waiting.selectExpr("date_format(due, 'MM-dd HH:00') AS hour", "topic")
        by_hour = [tuple(row) for row in hours.groupBy("hour", "topic").count().collect()]
        by_topic = Counter({row[0]: row[1] for row in waiting.groupBy("topic").count().collect()})
        show(by_hour, by_topic)
        picture = arguments.png or Path(name) / "timers.png"
        if missing_packages("matplotlib"):
            print(f"SKIPPED the picture, matplotlib not found: {how_to_install('plot')}")
        elif by_hour:
            draw(by_hour, picture)
            print(f"picture: {picture}, {picture.stat().st_size} bytes")
    total = sum(count for _, _, count in by_hour)
    if arguments.store is not None:
        return checked(("counted by hour", by_topic.total(), total))
    share = {topic: len(range(n, arguments.rows, len(TOPICS))) for n, topic in enumerate(TOPICS)}
    return checked(
        ("waiting", arguments.rows, total),
        ("by topic", share, dict(sorted(by_topic.items()))),
        ("within two days", True, len({hour for hour, _, _ in by_hour}) <= HOURS + 1),
    )


if __name__ == "__main__":
    sys.exit(run_with_spark(program))
