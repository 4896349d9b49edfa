"""Dead letters that are sent back, topics that are played again, and copies that keep a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import spark_connector
from embedded_broker import EmbeddedBroker, VirtualClock
from spark_connector.errors import OptionError, SchemaError
from tests.spark.letters import DEAD, GROUP, give_up
from tests.spark.queries import Seen, logged, running, stream, until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: SparkSession, broker: EmbeddedBroker, **options: object) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServer", broker.namesrv_addr)
    return reader.options(**{name: str(value) for name, value in options.items()}).load()


def test_a_group_without_dead_letters_is_read_as_empty(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    letters = read(spark, broker, deadLettersOf="nobody, nobody_else")
    assert letters.columns[-3:] == ["origin_topic", "origin_message_id", "reconsume_times"]
    assert letters.collect() == []
    assert read(spark, broker, retriesOf="nobody").collect() == []


def test_dead_letters_say_where_they_come_from_and_go_back_there(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    ids = give_up(broker, retries=1)
    letters = read(spark, broker, deadLettersOf=GROUP, includeHeaders=True)
    rows = sorted(letters.collect(), key=lambda row: row.body)
    assert [(row.topic, row.origin_topic, row.message_id) for row in rows] == [
        (DEAD, "Invoices", one) for one in ids
    ]
    assert {row.reconsume_times for row in rows} == {2}
    assert [row.origin_message_id is not None for row in rows] == [True, True]

    chosen = letters.where("keys = 'k1'")
    (answer,) = spark_connector.send_back(chosen, nameServer=broker.namesrv_addr).collect()

    assert (answer.status, answer.topic, answer.message_id) == ("SEND_OK", "Invoices", ids[1])
    place = answer.dead_letter
    assert (place.topic, place.offset) == (DEAD, rows[1].offset)
    back = broker.messages.in_topic("Invoices")[-1]
    assert (back.body, back.tags, back.keys) == (b"1", "new", ("k1",))
    assert back.properties["a"] == "b"
    assert not {"RETRY_TOPIC", "DLQ_ORIGIN_TOPIC", "MAX_RECONSUME_TIMES"} & set(back.properties)
    assert len(broker.messages.in_topic(DEAD)) == 2


def test_dead_letters_of_a_namespace_go_back_into_it(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    give_up(broker, namespace="shop")
    letters = read(spark, broker, deadLettersOf=GROUP, includeHeaders=True, namespace="shop")
    rows = letters.collect()
    assert [(row.topic, row.origin_topic) for row in rows] == [(DEAD, "Invoices")] * 2

    answers = spark_connector.send_back(
        letters, nameServer=broker.namesrv_addr, namespace="shop"
    ).collect()

    assert {(one.status, one.topic, one.dead_letter.topic) for one in answers} == {
        ("SEND_OK", "Invoices", DEAD)
    }
    assert len(broker.messages.in_topic("shop%Invoices")) == 4


def test_retries_are_read_when_they_came(spark: SparkSession, broker: EmbeddedBroker) -> None:
    ids = give_up(broker, retries=2)
    tries = read(spark, broker, retriesOf=GROUP).collect()
    assert sorted((row.message_id, row.reconsume_times) for row in tries) == sorted(
        (one, count) for one in ids for count in (1, 2)
    )
    assert {row.origin_topic for row in tries} == {"Invoices"}


def test_a_stream_of_dead_letters_may_begin_before_the_first_one(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    frame, seen = stream(spark, broker, deadLettersOf=GROUP), Seen()
    with running(frame, tmp_path, seen) as query:
        until(broker, query, lambda: logged(tmp_path, "commits") == [0])
        give_up(broker)
        until(broker, query, lambda: len(seen.rows) >= 2)
    assert seen.bodies == ["0", "1"]
    assert {row.topic for row in seen.rows} == {DEAD}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"deadLettersOf": "g", "subscribe": "T"}, "exactly one of subscribe"),
        ({"deadLettersOf": "g", "retriesOf": "g"}, "2 are given"),
        ({}, "deadLettersOf and retriesOf; 0 are given"),
    ],
)
def test_dead_letters_are_read_in_place_of_topics(
    spark: SparkSession, broker: EmbeddedBroker, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        read(spark, broker, **options).collect()


def test_what_cannot_go_back_is_refused_before_anything_is_sent(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    frame = spark.createDataFrame([("m", b"x")], "message_id string, body binary")
    address = broker.namesrv_addr
    with pytest.raises(SchemaError, match="needs the column origin_topic"):
        spark_connector.send_back(frame, nameServer=address)
    named = frame.selectExpr("*", "'T' AS origin_topic")
    with pytest.raises(SchemaError, match="send_back needs the column properties"):
        spark_connector.send_back(named, nameServer=address)
    for option in ("topic", "extraColumns"):
        with pytest.raises(OptionError, match=f"option {option} is not for send_back"):
            spark_connector.send_back(named, nameServer=address, **{option: "T"})


def test_a_topic_is_played_again_as_it_came(spark: SparkSession, broker: EmbeddedBroker) -> None:
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    for topic in ("Clicks", "Again"):
        broker.topics.create(topic, queues=2)
    for number, seconds in enumerate((0, 60, 90)):
        broker.send("Clicks", b"%d" % number, queue=number % 2, properties={"a": "b"})
        clock.advance(90 - seconds if seconds == 90 else (60, 30)[number])
    clicks = read(spark, broker, subscribe="Clicks", includeHeaders=True)
    start = clock.now() + timedelta(minutes=5)

    again = spark_connector.replay(clicks, speed=10, start=start)

    due = sorted((bytes(row.body), row.deliver_at.astimezone(UTC)) for row in again.collect())
    assert due == [
        (b"0", start),
        (b"1", start + timedelta(seconds=6)),
        (b"2", start + timedelta(seconds=9)),
    ]
    write = again.write.format("rocketmq").options(nameServer=broker.namesrv_addr, topic="Again")
    write.option("maxDelayMs", 0).mode("append").save()
    clock.advance(timedelta(minutes=5, seconds=6))
    assert [one.body for one in broker.messages.in_topic("Again")] == [b"0", b"1"]
    clock.advance(3)
    (last,) = [one for one in broker.messages.in_topic("Again") if one.body == b"2"]
    assert last.properties["a"] == "b"


def test_a_replay_counts_from_the_first_moment_that_it_is_given(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    rows = [(b"x", 1_000_000), (b"y", 1_001_500)]
    frame = spark.createDataFrame(rows, "body binary, born_timestamp long")
    start = datetime(2030, 1, 1, tzinfo=UTC)
    first = datetime.fromtimestamp(999, UTC)
    told = spark_connector.replay(
        frame, start=start, by="born_timestamp", first=first, properties=False
    )
    due = sorted(row.deliver_at.astimezone(UTC) for row in told.collect())
    assert due == [start + timedelta(seconds=1), start + timedelta(seconds=2.5)]
    before = datetime.now(UTC)
    soon = spark_connector.replay(frame, by="born_timestamp", properties=False).collect()
    assert min(row.deliver_at.astimezone(UTC) for row in soon) >= before + timedelta(seconds=9)
    nothing = frame.where("false")
    assert spark_connector.replay(nothing, by="born_timestamp", properties=False).collect() == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"speed": 0}, "speed = 0 must be a number above 0"),
        ({"speed": True}, "speed = True must be"),
        ({"speed": float("nan")}, "speed = nan must be"),
        ({"speed": "10"}, "speed = '10' must be"),
        ({"by": "offset"}, "must be store_timestamp or born_timestamp"),
        ({"start": datetime(2030, 1, 1)}, "start = .* has no time zone"),  # noqa: DTZ001 - wrong
        ({"first": datetime(2030, 1, 1)}, "first = .* has no time zone"),  # noqa: DTZ001 - wrong
    ],
)
def test_a_replay_that_means_nothing_is_refused(
    spark: SparkSession, wrong: dict[str, Any], said: str
) -> None:
    frame = spark.createDataFrame([(b"x", 1)], "body binary, store_timestamp long")
    with pytest.raises(OptionError, match=said):
        spark_connector.replay(frame, properties=False, **wrong)


def test_a_replay_needs_times_and_an_end(spark: SparkSession, broker: EmbeddedBroker) -> None:
    broker.topics.create("Clicks")
    frame = spark.createDataFrame([(b"x",)], "body binary")
    with pytest.raises(SchemaError, match="replay needs the column store_timestamp"):
        spark_connector.replay(frame, properties=False)
    with pytest.raises(SchemaError, match="replay needs the column properties"):
        spark_connector.replay(frame)
    reader = spark.readStream.format("rocketmq").option("nameServer", broker.namesrv_addr)
    with pytest.raises(OptionError, match="takes no stream"):
        spark_connector.replay(reader.option("subscribe", "Clicks").load())


def test_copies_tell_when_their_first_original_was_stored(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    for topic in ("Old", "Copy", "Second"):
        broker.topics.create(topic, queues=1)
    moments = []
    for body in (b"1", b"2"):
        moments.append(str(clock.now_ms))
        broker.send("Old", body, properties={"a": "b"})
        clock.advance(60)
    address = broker.namesrv_addr
    for topic, copy in (("Old", "Copy"), ("Copy", "Second")):
        frame = read(spark, broker, subscribe=topic, includeHeaders=True)
        ready = spark_connector.for_write(frame, store_time_as="stored_at")
        writer = ready.coalesce(1).write.format("rocketmq")
        writer.options(nameServer=address, topic=copy).mode("append").save()
        told = [one.properties for one in broker.messages.in_topic(copy)]
        assert [(one["stored_at"], one["a"]) for one in told] == [(one, "b") for one in moments]
    bare = spark_connector.for_write(
        read(spark, broker, subscribe="Old"), properties=False, store_time_as="stored_at"
    )
    assert {row.properties["stored_at"] for row in bare.collect()} == set(moments)
    for name in ("", "KEYS", "TIMER_DELAY_MS"):
        with pytest.raises(SchemaError, match=r"store_time_as = .* must be the name of a property"):
            spark_connector.for_write(frame, store_time_as=name)
    with pytest.raises(SchemaError, match="needs the column store_timestamp"):
        spark_connector.for_write(frame.select("body"), properties=False, store_time_as="stored_at")
