"""Sending and recalling with an answer for each row, and where queues stand, in a real Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame

import spark_connector
from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.errors import InvalidRowError, OptionError, SchemaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.case("SP76")
def test_the_recalled_half_of_delayed_messages_never_arrives(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=4)
    rows = spark.range(0, 200, 1, 4).selectExpr(
        "id",
        "concat('m', id) AS body",
        "if(id < 100, INTERVAL '60' SECOND, NULL) AS delay_ms",
        f"if(id < 100, NULL, timestamp_millis({broker.clock.now_ms + 60_000})) AS deliver_at",
    )
    there = {"nameServer": broker.namesrv_addr}
    sent = spark_connector.send(rows, topic="T", extraColumns="ignore", **there)
    told = sent.collect()
    assert sorted(row.id for row in told) == list(range(200))
    assert Counter((row.status, row.topic, row.offset) for row in told) == {
        ("SEND_OK", "T", None): 200
    }
    assert len({row.recall_handle for row in told} - {None}) == 200
    assert broker.timers.count(topic="T") == 200  # looking at the result sent nothing more
    recalled = spark_connector.recall(sent.where("id % 2 = 0"), **there)
    assert recalled.columns[0] == "id"
    assert Counter(row.status for row in recalled.collect()) == {"RECALLED": 100}
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(62)
    arrived = broker.messages.in_topic("T")
    assert sorted(one.body for one in arrived) == sorted(b"m%d" % n for n in range(1, 200, 2))
    assert {one.msg_id for one in arrived} == {row.message_id for row in told if row.id % 2}
    (late,) = spark_connector.recall(sent.where("id = 1"), **there).collect()
    assert (late.status, late.id) == ("TOO_LATE", 1)
    assert "604" in late.problem


def test_rows_are_told_the_places_where_a_read_finds_them(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=3)
    rows = spark.range(0, 500, 1, 2).selectExpr(
        "CAST(concat('m', id) AS binary) AS body",
        "array('a', concat('k', id)) AS keys",
        "map('p', 'v') AS properties",
        "concat('id-', id) AS message_id",
    )
    sent = spark_connector.send(rows, nameServer=broker.namesrv_addr, topic="T")
    reader = spark.read.format("rocketmq").option("nameServer", broker.namesrv_addr)
    read = reader.option("subscribe", "T").load()
    place = ["topic", "broker_name", "queue_id", "offset", "message_id"]
    found = set(read.select(place).collect())
    assert {row.message_id for row in found} == {f"id-{number}" for number in range(500)}
    assert set(sent.select(place).collect()) == found
    assert len(broker.messages.in_topic("T")) == 500
    one = broker.messages.in_topic("T")[0]
    assert (one.properties["p"], one.keys) == ("v", ("a", "k" + one.body.decode()[1:]))


def test_rows_that_are_no_messages_end_the_send_or_are_told(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T")
    there = {"nameServer": broker.namesrv_addr, "topic": "T"}
    rows = spark.range(0, 100, 1, 1).selectExpr("if(id = 40, '', concat('m', id)) AS body")
    with pytest.raises(InvalidRowError, match="row 40: body is empty"):
        spark_connector.send(rows, **there)
    assert broker.messages.in_topic("T") == []
    assert broker.journal.requests(code=RequestCode.SEND_BATCH_MESSAGE) == []
    sent = spark_connector.send(rows, onInvalidRow="skip", **there)
    assert Counter(row.status for row in sent.collect()) == {"SEND_OK": 99, "SKIPPED": 1}
    assert len(broker.messages.in_topic("T")) == 99


def test_what_cannot_be_sent_or_recalled_is_refused_before_anything_is_asked(
    spark: SparkSession,
) -> None:
    nowhere = {"nameServer": "127.0.0.1:1"}
    stream = spark.readStream.format("rate").load().selectExpr("'x' AS body")
    with pytest.raises(OptionError, match="foreachBatch"):
        spark_connector.send(stream, topic="T", **nowhere)
    rows = spark.range(1)
    with pytest.raises(SchemaError, match="unknown column id"):
        spark_connector.send(rows, topic="T", **nowhere)
    with pytest.raises(OptionError, match="did you mean topic"):
        spark_connector.send(rows, topics="T", **nowhere)
    with pytest.raises(SchemaError, match="needs the column recall_handle"):
        spark_connector.recall(rows, **nowhere)


@pytest.mark.case("SP55")
def test_the_lag_of_a_stream_and_the_offsets_of_its_group_are_shown_queue_by_queue(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    for topic in ("T", "U", "Copies"):
        broker.topics.create(topic, queues=2)
    for number in range(30):
        broker.send("T", b"x", queue=number % 3 // 2)
    there = {"nameServer": broker.namesrv_addr, "subscribe": "T,U", "groupId": "G"}
    reader = spark.readStream.format("rocketmq").options(**there)
    frame = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="12").load()

    def copy(batch: DataFrame, _number: int) -> None:
        to = {"nameServer": broker.namesrv_addr, "topic": "Copies", "dedupe": "auto"}
        spark_connector.send(batch.select("body"), **to)

    query = (
        frame.writeStream.foreachBatch(copy)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    behind = [spark_connector.lag(one) for one in query.recentProgress]
    assert [one.total for one in behind] == [18, 6, 0]
    assert behind[0].topic("U").metrics["maxOffsetsBehindLatest"] == 0
    assert (
        behind[0].metrics["maxOffsetsBehindLatest"]
        == behind[0].topic("T").metrics["maxOffsetsBehindLatest"]
    )
    assert spark_connector.lag(query) == behind[-1]

    ids = {one.properties["DEDUPE_ID"] for one in broker.messages.in_topic("Copies")}
    assert len(ids) == 30
    assert {one.rsplit("-", 4)[0] for one in ids} == {str(query.id)}

    shown = spark_connector.offsets(spark, **there)
    rows = {(row.topic, row.queue_id): row for row in shown.collect()}
    assert list(rows) == [("T", 0), ("T", 1), ("U", 0), ("U", 1)]
    assert [(row.min_offset, row.max_offset) for row in rows.values()] == [
        *((0, 20), (0, 10), (0, 0), (0, 0))
    ]
    assert rows["U", 0].last_stored is None
    stored = rows["T", 0].last_stored
    assert int(stored.timestamp() * 1000) == broker.clock.now_ms
    for number in (0, 1):
        row = rows["T", number]
        assert row.lag == row.max_offset - row.group_offset
    broker.send("T", b"news", queue=0)
    again = {(row.topic, row.queue_id): row.max_offset for row in shown.collect()}
    assert again["T", 0] == 21
    plain = spark_connector.offsets(spark, nameServer=broker.namesrv_addr, subscribe="T")
    assert {(row.group_offset, row.lag) for row in plain.collect()} == {(None, None)}
