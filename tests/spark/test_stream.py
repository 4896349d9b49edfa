"""Streams against a broker over TCP, in a real Spark."""

from __future__ import annotations

import shutil
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip(
    "pyspark", minversion="4.2", reason="PySpark 4.2 is not installed (extra spark)"
)
if shutil.which("java") is None:
    pytest.skip("no java on this machine", allow_module_level=True)

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions

import spark_connector
from embedded_broker import EmbeddedBroker, VirtualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stream(spark: SparkSession, broker: EmbeddedBroker, **options: str) -> DataFrame:
    given = {"nameServer": broker.namesrv_addr, "subscribe": "T", "startingOffsets": "earliest"}
    return spark.readStream.format("rocketmq").options(**(given | options)).load()


def fill(broker: EmbeddedBroker, first: int, past: int) -> None:
    for number in range(first, past):
        broker.send("T", b"m%d" % number, queue=number % 2)


def run(frame: DataFrame, checkpoint: Path, into: list[list[str]], **options: Any) -> Any:
    """Run to the ends that are there, noting the bodies of every batch."""

    def note(batch: DataFrame, _number: int) -> None:
        into.append(
            sorted(row.body for row in batch.select(functions.col("body").cast("string")).collect())
        )

    query = (
        frame.writeStream.foreachBatch(note)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .options(**options)
        .start()
    )
    query.awaitTermination(120)
    return query


@pytest.mark.case("SP43", "SP45", "SP47", "SP55")
def test_a_stream_reads_in_limited_batches_and_goes_on_after_a_restart(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=2)
    fill(broker, 0, 30)
    batches: list[list[str]] = []
    frame = stream(spark, broker, maxOffsetsPerTrigger="12")
    query = run(frame, tmp_path, batches)
    assert sorted(chain(*batches)) == sorted(f"m{n}" for n in range(30))
    assert max(len(batch) for batch in batches) <= 12
    assert set(spark_connector.lag(query.lastProgress).values()) == {0}
    fill(broker, 30, 40)
    again: list[list[str]] = []
    run(stream(spark, broker, startingOffsets="latest"), tmp_path, again)
    assert sorted(chain(*again)) == sorted(f"m{n}" for n in range(30, 40))


@pytest.mark.case("SP42", "SP44")
def test_a_batch_that_failed_is_read_again_as_it_was(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=2)
    fill(broker, 0, 4)

    def fail(_batch: DataFrame, _number: int) -> None:
        raise RuntimeError("the sink is down")

    broken = stream(spark, broker).writeStream.foreachBatch(fail)
    query = broken.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    with pytest.raises(PySparkException):
        query.awaitTermination(120)
    fill(broker, 4, 10)
    batches: list[list[str]] = []
    # The restart's first position would be elsewhere; the logged batch decides.
    run(stream(spark, broker, startingOffsets="latest"), tmp_path, batches)
    assert batches[0] == ["m0", "m1", "m2", "m3"]
    assert sorted(chain(*batches)) == sorted(f"m{n}" for n in range(10))


@pytest.mark.case("SP57")
def test_a_stream_writes_delayed_messages_with_ids_against_repetition(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=2)
    broker.topics.create("U", queues=2)
    fill(broker, 0, 20)
    rows = stream(spark, broker).select("body", functions.lit(60_000).alias("delay_ms"))
    query = (
        rows.writeStream.format("rocketmq")
        .options(nameServer=broker.namesrv_addr, topic="U", checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert broker.messages.in_topic("U") == []
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(61)
    found = broker.messages.in_topic("U")
    assert {message.body for message in found} == {b"m%d" % n for n in range(20)}
    assert len({message.properties["DEDUPE_ID"] for message in found}) == 20


@pytest.mark.case("SP60")
def test_a_sink_cannot_be_asked_to_start_from_nothing(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T")
    counts = stream(spark, broker).groupBy("queue_id").count()
    rows = counts.select(functions.col("count").cast("string").alias("body"))
    writer = rows.writeStream.format("rocketmq").outputMode("complete")
    with pytest.raises(PySparkException, match="cannot do"):
        writer.options(
            nameServer=broker.namesrv_addr, topic="T", checkpointLocation=str(tmp_path)
        ).trigger(availableNow=True).start().awaitTermination(60)


@pytest.mark.case("SP58", "SP59")
def test_a_whole_batch_that_spark_forgot_is_not_written_twice(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=2)
    broker.topics.create("U", queues=2)
    fill(broker, 0, 10)

    def copy() -> None:
        rows = stream(spark, broker).select("body")
        query = (
            rows.writeStream.format("rocketmq")
            .options(nameServer=broker.namesrv_addr, topic="U", replayGuard="Guard")
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)

    copy()
    # As if the driver had died between the sink's commit and Spark's own log.
    for name in ("0", ".0.crc"):
        (tmp_path / "commits" / name).unlink()
    copy()
    assert len(broker.messages.in_topic("U")) == 10
    fill(broker, 10, 14)
    copy()
    assert len(broker.messages.in_topic("U")) == 14


@pytest.mark.case("SP48")
def test_once_reads_everything_in_one_batch_whatever_the_limit(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=2)
    fill(broker, 0, 30)
    sizes: list[int] = []
    query = (
        stream(spark, broker, maxOffsetsPerTrigger="5")
        .writeStream.foreachBatch(lambda batch, _number: sizes.append(batch.count()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(once=True)
        .start()
    )
    query.awaitTermination(120)
    assert [size for size in sizes if size] == [30]


@pytest.mark.case("SP54", "SP56")
def test_two_queries_of_one_group_each_see_all_rows(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=2)
    fill(broker, 0, 12)
    for name in ("one", "two"):
        batches: list[list[str]] = []
        frame = stream(spark, broker, groupId="G", maxOffsetsPerTrigger="6")
        run(frame, tmp_path / name, batches)
        assert sorted(chain(*batches)) == sorted(f"m{n}" for n in range(12))
    stored = broker.groups["G"].offsets(topic="T")
    assert sum(place.committed or 0 for place in stored) >= 6
