"""Streams that write to topics: delays, whole batches that Spark forgot, output modes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.writing.replay_guard import NUMBER_BITS, mark_of
from tests.spark.queries import fill, forget, logged, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def topics(broker: EmbeddedBroker) -> None:
    broker.topics.create("T", queues=2)
    broker.topics.create("U", queues=2)


def copy(frame: DataFrame, broker: EmbeddedBroker, checkpoint: Path, **options: str) -> None:
    """Write what there is to U; a failure of the query is raised."""
    given = {"nameServer": broker.namesrv_addr, "topic": "U"} | options
    writer = frame.writeStream.format("rocketmq").options(**given)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)


def query_id(checkpoint: Path) -> str:
    return str(json.loads((checkpoint / "metadata").read_text())["id"])


@pytest.mark.case("SP57")
def test_what_a_stream_writes_arrives_at_the_time_of_each_row(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    begin = clock.now_ms
    fill(broker, 0, 20)
    number = functions.expr("CAST(substring(CAST(body AS STRING), 2) AS BIGINT)")
    rows = stream(spark, broker).select(
        functions.concat(functions.lit("copy of "), functions.col("body").cast("string")).alias(
            "body"
        ),
        functions.timestamp_millis(begin + 60_000 * (1 + number % 2)).alias("deliver_at"),
    )
    copy(rows, broker, tmp_path)
    for minute in (1, 2):
        assert len(broker.messages.in_topic("U")) == 10 * (minute - 1)
        clock.jump_to_ms(begin + 60_000 * minute)
    found = broker.messages.in_topic("U")
    assert {
        message.body: round(message.stored_at.timestamp() * 1_000) - begin for message in found
    } == {b"copy of m%d" % n: 60_000 * (1 + n % 2) for n in range(20)}
    assert len({message.properties["DEDUPE_ID"] for message in found}) == len(found) == 20


@pytest.mark.slow
@pytest.mark.case("SP58")
def test_a_batch_that_is_marked_is_not_written_again(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 10)
    rows = stream(spark, broker, minPartitions="2").select("body")
    # Two tasks look at the mark; the third look is that of the commit, after it stored the mark.
    broken = broker.faults.on(RequestCode.QUERY_CONSUMER_OFFSET, group="Guard", nth=3)
    broken.respond(ResponseCode.NO_PERMISSION)
    with pytest.raises(PySparkException, match="16"):
        copy(rows, broker, tmp_path / "one", replayGuard="Guard")
    assert broken.hits == 1
    assert (logged(tmp_path / "one"), logged(tmp_path / "one", "commits")) == ([0], [])
    assert len(broker.messages.in_topic("U")) == 10
    copy(rows, broker, tmp_path / "one", replayGuard="Guard")
    assert len(broker.messages.in_topic("U")) == 10
    with pytest.raises(PySparkException, match="used by another query") as caught:
        copy(rows, broker, tmp_path / "two", replayGuard="Guard")
    # The other one by what its mark holds of its id.
    one, two = (query_id(tmp_path / name) for name in ("one", "two"))
    assert f"checksum {mark_of(one, 0) >> NUMBER_BITS:08x}" in str(caught.value)
    assert f"this one is {two}" in str(caught.value)
    assert len(broker.messages.in_topic("U")) == 10


@pytest.mark.slow
@pytest.mark.case("SP58", "SP59")
def test_a_whole_batch_that_spark_forgot_is_not_written_twice(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 10)
    rows = stream(spark, broker).select("body")
    copy(rows, broker, tmp_path, replayGuard="Guard")
    # As if the driver had died between the sink's commit and Spark's own log.
    forget(tmp_path, "commits", 0)
    copy(rows, broker, tmp_path, replayGuard="Guard")
    assert len(broker.messages.in_topic("U")) == 10
    fill(broker, 10, 14)
    copy(rows, broker, tmp_path, replayGuard="Guard")
    assert len(broker.messages.in_topic("U")) == 14


@pytest.mark.slow
@pytest.mark.case("SP58")
def test_batches_without_a_row_to_write_are_marked_too(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    for condition, first, past in (("false", 0, 10), ("true", 10, 14)):
        fill(broker, first, past)
        rows = stream(spark, broker).select("body").where(condition)
        copy(rows, broker, tmp_path, replayGuard="Guard")  # fails when a batch before has no mark
    assert logged(tmp_path, "commits") == [0, 1]
    assert len(broker.messages.in_topic("U")) == 4


@pytest.mark.slow
@pytest.mark.case("SP60")
def test_two_writes_of_a_batch_that_differ_in_the_delay_only_have_different_ids(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 3)

    def remind(batch: DataFrame, _number: int) -> None:
        for delay_ms in (3_600_000, 7_200_000):
            rows = batch.select("body", functions.lit(delay_ms).alias("delay_ms"))
            rows.write.format("rocketmq").mode("append").options(
                nameServer=broker.namesrv_addr, topic="U", dedupe="auto"
            ).save()

    writer = stream(spark, broker).writeStream.foreachBatch(remind)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    assert query.start().awaitTermination(120)
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(7_201)
    found = broker.messages.in_topic("U")
    assert len({message.properties["DEDUPE_ID"] for message in found}) == len(found) == 6


@pytest.mark.case("SP60")
def test_a_sink_appends_and_foreach_batch_does_the_rest(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 6)
    counts = stream(spark, broker).groupBy("queue_id").count()
    rows = counts.select(functions.col("count").cast("string").alias("body"))
    sparks = "rocketmq does not support Update mode"
    for mode, reason in (("complete", "RocketMQ cannot do"), ("update", sparks)):
        writer = rows.writeStream.format("rocketmq").outputMode(mode)
        with pytest.raises(PySparkException, match=reason):
            writer.options(
                nameServer=broker.namesrv_addr,
                topic="U",
                checkpointLocation=str(tmp_path / mode),
            ).trigger(availableNow=True).start().awaitTermination(60)
    assert broker.messages.in_topic("U") == []

    def write(batch: DataFrame, _number: int) -> None:
        batch.write.format("rocketmq").mode("append").options(
            nameServer=broker.namesrv_addr, topic="U", dedupe="auto"
        ).save()

    writer = rows.writeStream.foreachBatch(write).outputMode("update")
    query = writer.option("checkpointLocation", str(tmp_path / "each")).trigger(availableNow=True)
    assert query.start().awaitTermination(120)
    found = broker.messages.in_topic("U")
    assert [message.body for message in found] == [b"3", b"3"]
    assert len({message.properties["DEDUPE_ID"] for message in found}) == 2


@pytest.mark.case("SP60")
def test_a_batch_of_foreach_batch_that_spark_forgot_is_not_written_twice(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 10)
    deaths = iter(["in a write", "after it"])

    def write(batch: DataFrame, number: int) -> None:
        death = next(deaths, None)
        if death == "in a write":
            send = broker.faults.on(RequestCode.SEND_MESSAGE_V2, nth=6)
            send.respond(ResponseCode.NO_PERMISSION).always()
        writer = batch.select("body").write.format("rocketmq").mode("append")
        writer.options(
            nameServer=broker.namesrv_addr,
            topic="U",
            replayGuard="Guard",
            batchId=number,
            batchSend=False,
        ).save()
        if death is not None:
            raise RuntimeError(death)

    def run() -> None:
        writer = stream(spark, broker).writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        assert writer.start().awaitTermination(120)

    with pytest.raises(PySparkException, match=r"NO_PERMISSION|\b16\b"):
        run()
    broker.faults.clear()
    assert 0 < len(broker.messages.in_topic("U")) < 10
    with pytest.raises(PySparkException, match="after it"):
        run()
    whole = len(broker.messages.in_topic("U"))
    run()
    found = broker.messages.in_topic("U")
    assert len(found) == whole > 10  # the batch that was written in part came again, once
    assert {message.body for message in found} == {b"m%d" % number for number in range(10)}
    assert len({message.properties["DEDUPE_ID"] for message in found}) == 10
