"""Messages that cannot be decoded, and rows that cannot be sent: what a read and a write do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import QueueAccess
from tests.spark.queries import Seen, fill, logged, logs_of, names, read_all, stream, with_logs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POISON = 7
"""The offset in queue 1 of a body that says it is compressed, and is not."""
KEYS = "UNIQ_KEY\x01poison\x02KEYS\x01k7\x02TAGS\x01A\x02"


@pytest.fixture(autouse=True)
def topic(broker: EmbeddedBroker) -> None:
    """Twenty messages in two queues, one of them poison."""
    broker.topics.create("T", queues=2)
    fill(broker, 0, 2 * POISON)
    poison(broker)
    fill(broker, 2 * POISON, 19)


def poison(broker: EmbeddedBroker) -> None:
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        (_, queue) = access.read_queues("T")
        sent = access.send(queue, b"not zlib", properties=KEYS, sys_flag=1)
        assert sent.result(10).queue.queue_id == 1


def batch(spark: SparkSession, broker: EmbeddedBroker, **options: str) -> DataFrame:
    schema = options.pop("schema", "")
    reader = spark.read.format("rocketmq").options(nameServer=broker.namesrv_addr, subscribe="T")
    return (reader.schema(schema) if schema else reader).options(**options).load()


WHERE = f"topic T, broker broker-a, queue 1, offset {POISON} cannot be decoded"


def test_a_poison_message_fails_a_read_that_is_not_told_otherwise(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    with pytest.raises(PySparkException, match=f"{WHERE}.*mode=PERMISSIVE"):
        batch(spark, broker).collect()
    # Nothing that was asked for is broken.
    offsets = batch(spark, broker, columns="queue_id,offset").collect()
    assert Counter(row.queue_id for row in offsets) == {0: 10, 1: 10}


def test_a_start_at_the_time_of_a_poison_message_is_found(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    clock.advance(60)
    poison(broker)
    times = {"startingTimestamp": str(clock.now_ms), "endingTimestamp": str(clock.now_ms + 1)}
    rows = batch(spark, broker, **times, mode="PERMISSIVE", columns="queue_id,offset").collect()
    assert [(row.queue_id, row.offset) for row in rows] == [(1, 10)]


@pytest.mark.parametrize("name", ["_corrupt_record", "broken"])
def test_a_permissive_read_shows_what_is_broken_and_where(
    spark: SparkSession, broker: EmbeddedBroker, name: str
) -> None:
    columns = f"topic,broker_name,queue_id,offset,keys,message_id,body,{name}"
    frame = batch(spark, broker, mode="permissive", columnNameOfCorruptRecord=name, columns=columns)
    assert dict(frame.dtypes)[name] == "binary"
    rows, told = with_logs(spark, frame)
    assert sorted(bytes(row.body).decode() for row in rows if row.body) == names(0, 19)
    (broken,) = [row for row in rows if row[name] is not None]
    assert (broken.topic, broken.broker_name) == ("T", "broker-a")
    assert (broken.queue_id, broken.offset, broken.body) == (1, POISON, None)
    assert (broken.keys, broken.message_id) == ("k7", "poison")
    assert b"not zlib" in bytes(broken[name])
    (line,) = [text for text in told if "cannot be decoded" in text]
    assert line.startswith("1 messages cannot be decoded (mode=PERMISSIVE)")
    assert WHERE in line
    as_text = batch(
        spark, broker, mode="PERMISSIVE", schema="offset bigint, _corrupt_record string"
    )
    assert as_text.where("_corrupt_record IS NOT NULL").collect() == []  # no body, nothing broken
    text = batch(spark, broker, mode="PERMISSIVE", schema="body string, _corrupt_record string")
    (shown,) = text.where("_corrupt_record IS NOT NULL").collect()
    assert shown.body is None
    assert WHERE in shown["_corrupt_record"]


def test_malformed_messages_are_left_out_and_are_no_loss(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    rows, told = with_logs(spark, batch(spark, broker, mode="DROPMALFORMED", failOnDataLoss="true"))
    assert sorted(bytes(row.body).decode() for row in rows) == names(0, 19)
    (line,) = [text for text in told if "cannot be decoded" in text]
    assert line.startswith("1 messages cannot be decoded (mode=DROPMALFORMED)")
    assert WHERE in line
    broker.send("T", b"\xff\xfe", queue=0)
    strict = {"schema": "body string", "bodyCharsetErrors": "strict"}
    texts = batch(spark, broker, mode="DROPMALFORMED", **strict).collect()
    assert sorted(row.body for row in texts) == names(0, 19)
    with pytest.raises(PySparkException, match="queue 0, offset 10 is no UTF-8"):
        batch(spark, broker, assign='{"T":{"broker-a":[0]}}', subscribe="", **strict).collect()


def test_columns_that_may_be_null_must_say_so(spark: SparkSession, broker: EmbeddedBroker) -> None:
    from pyspark.sql.types import BinaryType, StructField, StructType

    schema = StructType([StructField("body", BinaryType(), nullable=False)])
    reader = spark.read.format("rocketmq").schema(schema)
    with pytest.raises(PySparkException, match="column body is NOT NULL"):
        reader.options(
            nameServer=broker.namesrv_addr, subscribe="T", mode="PERMISSIVE"
        ).load().collect()


def test_a_stream_goes_on_past_a_poison_message(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    with pytest.raises(PySparkException, match=WHERE):
        read_all(stream(spark, broker), tmp_path)
    seen, _ = read_all(stream(spark, broker, mode="DROPMALFORMED"), tmp_path)
    assert seen.bodies == names(0, 19)
    poison(broker)
    fill(broker, 19, 25)
    again = Seen()
    read_all(stream(spark, broker, mode="PERMISSIVE"), tmp_path, again)
    assert sorted(row.body for row in again.rows if row.body) == names(19, 25)
    assert [(row.queue_id, row.offset) for row in again.rows if row.body is None] == [(1, 10)]


# --- rows that cannot be sent --------------------------------------------------------------------


@pytest.fixture
def strict_broker() -> Any:
    with EmbeddedBroker(config={"autoCreateTopicEnable": False}) as started:
        for name in ("Good", "Bad", "T"):
            started.topics.create(name, queues=1)
        yield started


@pytest.mark.slow
def test_rows_of_a_topic_that_does_not_exist_are_invalid_rows(
    spark: SparkSession, strict_broker: EmbeddedBroker
) -> None:
    broker = strict_broker
    frame = spark.range(0, 1_000, 1, 2).selectExpr(
        "CAST(id AS string) AS body",
        "if(id % 100 = 50, 'Nowhere', 'Good') AS topic",
        "concat('k', id) AS keys",
    )

    def write(**options: str) -> None:
        frame.write.format("rocketmq").mode("append").options(
            nameServer=broker.namesrv_addr, **options
        ).save()

    with pytest.raises(PySparkException, match="Nowhere"):
        write()
    broker.reset()
    for name in ("Good", "Bad"):
        broker.topics.create(name, queues=1)
    told = logs_of(spark, lambda: write(onInvalidRow="skip"))
    assert len(broker.messages.in_topic("Good")) == 990
    skipped = [one for one in told if "invalid rows skipped" in one]
    assert sum(int(one.split()[0]) for one in skipped) == 10
    first = "partition 0, row 50: topic Nowhere does not exist (keys k50)"
    assert [one for one in skipped if one.endswith(f"the first one: {first}")]
    write(onInvalidRow="topic", invalidRowTopic="Bad")
    assert len(broker.messages.in_topic("Good")) == 2 * 990
    bad = broker.messages.in_topic("Bad")
    assert {one.body for one in bad} == {b"%d" % number for number in range(50, 1_000, 100)}
    assert {one.properties["INVALID_REASON"] for one in bad} == {"topic Nowhere does not exist"}
    assert {one.properties["ORIGINAL_TOPIC"] for one in bad} == {"Nowhere"}


SET_ASIDE = {
    "skip": {"onInvalidRow": "skip"},
    "topic": {"invalidRows": "topic", "invalidRowTopic": "Bad"},  # its other name
}


@pytest.mark.parametrize("how", SET_ASIDE)
def test_a_stream_sets_bad_rows_aside_and_sends_nothing_twice(
    spark: SparkSession, strict_broker: EmbeddedBroker, tmp_path: Path, how: str
) -> None:
    broker = strict_broker
    fill(broker, 0, 200, queues=1)
    rows = stream(spark, broker).selectExpr(
        "CASE WHEN offset = 150 THEN '' ELSE CAST(body AS string) END AS body",
        "if(offset = 60, 'Nowhere', 'Good') AS topic",
        "CAST(offset AS string) AS keys",
    )

    def copy() -> None:
        writer = rows.writeStream.format("rocketmq").options(
            nameServer=broker.namesrv_addr, checkpointLocation=str(tmp_path), **SET_ASIDE[how]
        )
        assert writer.trigger(availableNow=True).start().awaitTermination(120)

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    try:
        copy()
        fill(broker, 200, 210, queues=1)
        copy()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert logged(tmp_path, "commits") == [0, 1]
    bodies = Counter(one.body.decode() for one in broker.messages.in_topic("Good"))
    assert bodies == dict.fromkeys({f"m{n}" for n in range(210)} - {"m60", "m150"}, 1)
    bad = Counter(
        (one.properties["KEYS"], one.properties["INVALID_REASON"])
        for one in broker.messages.in_topic("Bad")
    )
    reasons = [("60", "topic Nowhere does not exist"), ("150", "body is empty")]
    assert bad == (Counter(reasons) if how == "topic" else Counter())


@pytest.mark.slow
def test_a_stream_with_a_bad_row_fails_with_its_place_and_goes_on_when_told_to(
    spark: SparkSession, strict_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker = strict_broker
    fill(broker, 0, 200, queues=1)
    rows = stream(spark, broker).selectExpr(
        "CASE WHEN offset = 150 THEN '' ELSE CAST(body AS string) END AS body",
        "concat('k', offset) AS keys",
    )

    def copy(**options: str) -> None:
        there = {"nameServer": broker.namesrv_addr, "topic": "Good"}
        writer = rows.writeStream.format("rocketmq").options(**there, **options)
        writer = writer.option("checkpointLocation", str(tmp_path))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)

    with pytest.raises(
        PySparkException, match=r"partition 0, row 150: body is empty \(keys k150\)"
    ):
        copy()
    assert (logged(tmp_path), logged(tmp_path, "commits")) == ([0], [])
    assert broker.messages.in_topic("Good") == []  # nothing of its Arrow batch was sent
    copy(onInvalidRow="skip")
    bodies = Counter(one.body.decode() for one in broker.messages.in_topic("Good"))
    assert bodies == dict.fromkeys({f"m{n}" for n in range(200)} - {"m150"}, 1)
