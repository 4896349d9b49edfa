"""Pending timers as a DataFrame, and taken back by a query, in a real Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_connector
from embedded_broker import EmbeddedBroker, VirtualClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

TOKEN = "sixteen characters or more"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """A broker with a control port, on a clock that stands still until a test moves it."""
    with EmbeddedBroker(
        clock=VirtualClock(), control=True, control_token=TOKEN, topics=["T", "U"]
    ) as started:
        for number in range(20):
            topic = "T" if number % 2 else "U"
            started.send(topic, b"m%d" % number, delay=10 * (number + 1), keys=f"k{number}")
        started.send("T", b"level", delay_level=4)
        yield started


def reader_of(spark: SparkSession, broker: EmbeddedBroker) -> DataFrameReader:
    reader = spark.read.format("rocketmq").option("timers", "pending")
    address = broker.control_url.removeprefix("http://")
    return reader.options(controlAddress=address, controlToken=TOKEN)


def test_pending_timers_are_a_frame_and_are_taken_back_by_a_query(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    pending = reader_of(spark, broker).load()
    assert pending.count() == 21
    assert pending.select("topic").where("topic = 'T'").count() == 11
    first = pending.orderBy("due_at").select("keys", "hops", "lateness_ms", "kind").head()
    assert first is not None
    assert tuple(first) == ("k0", 0, 0, "milliseconds")
    assert isinstance(broker.clock, VirtualClock)
    until = broker.clock.now_ms + 100_000
    due = pending.where(f"due_at < timestamp_millis({until})").cache()
    assert due.count() == 10
    broker.clock.advance(20)  # two have left, and the level's is due in ten seconds
    taken = spark_connector.recall(due, nameServer=broker.namesrv_addr)
    counts = {row.status: row["count"] for row in taken.groupBy("status").count().collect()}
    assert counts == {"RECALLED": 7, "TOO_LATE": 2, "NO_HANDLE": 1}
    broker.clock.advance(300)
    arrived = Counter(one.body for topic in ("T", "U") for one in broker.messages.in_topic(topic))
    kept = {b"m%d" % number for number in (0, 1, *range(9, 20))} | {b"level"}
    assert arrived == Counter(kept)
    assert reader_of(spark, broker).load().count() == 0


def test_filters_and_columns_narrow_what_is_asked_for(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = reader_of(spark, broker).option("pushFilters", "true")
        bodies = frame.option("columns", "topic,due_at,body,properties").load()
        found = bodies.where("topic = 'U' AND due_at > current_timestamp()").collect()
        assert {bytes(row.body) for row in found} == {b"m%d" % n for n in range(0, 20, 2)}
        assert all(row.properties["KEYS"].startswith("k") for row in found)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_the_files_of_a_broker_give_the_same_frame(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    store = broker.snapshot(tmp_path / "copy")
    files = spark.read.format("rocketmq").option("timers", "pending")
    files = files.options(storeDirectory=str(store), brokerName=broker.broker_name)
    columns = ["topic", "message_id", "keys", "due_at", "accepted_at", "recall_handle"]
    running = set(reader_of(spark, broker).load().select(columns).collect())
    assert len(running) == 21
    assert running == set(files.load().select(columns).collect())


def test_the_timer_topic_of_a_running_broker_gives_the_same_frame(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.clock.advance(20)
    columns = ["topic", "message_id", "keys", "due_at", "age_ms", "lateness_ms", "recall_handle"]
    timers = spark.read.format("rocketmq").option("timers", "pending")
    timers = timers.option("nameServer", broker.namesrv_addr)
    pulled = timers.load()
    running = reader_of(spark, broker).load().where("kind <> 'level'")
    assert pulled.count() == 18
    assert set(pulled.select(columns).collect()) == set(running.select(columns).collect())
    due = timers.option("topic", "T").load()
    taken = spark_connector.recall(due, nameServer=broker.namesrv_addr)
    assert {row.status for row in taken.select("status").distinct().collect()} == {"RECALLED"}
    assert due.count() == 9  # it ends where it did when it was planned
    assert timers.load().count() == 0
