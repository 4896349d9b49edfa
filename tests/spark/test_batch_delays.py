"""Delay columns of every kind, and what is written is read back, whatever the bytes."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.codes import RequestCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE_MS = 60_000


@pytest.fixture
def clock(broker: EmbeddedBroker) -> VirtualClock:
    broker.topics.create("T", queues=2)
    assert isinstance(broker.clock, VirtualClock)
    return broker.clock


def write(frame: DataFrame, broker: EmbeddedBroker, **options: Any) -> None:
    options = {"nameServer": broker.namesrv_addr, "topic": "T"} | options
    frame.write.format("rocketmq").options(**options).mode("append").save()


@pytest.mark.case("SP31")
def test_the_start_time_of_ons_delays_and_is_kept(
    spark: SparkSession, broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    due_ms = clock.now_ms + MINUTE_MS
    rows = [("later", due_ms), ("past", clock.now_ms - 1), ("now", None)]
    write(spark.createDataFrame(rows, "body string, start_deliver_time bigint"), broker)
    assert {m.body for m in broker.messages.in_topic("T")} == {b"past", b"now"}
    clock.jump_to_ms(due_ms - 1)
    assert len(broker.messages.in_topic("T")) == 2
    clock.jump_to_ms(due_ms)
    (later,) = [m for m in broker.messages.in_topic("T") if m.body == b"later"]
    assert later.properties["__STARTDELIVERTIME"] == str(due_ms)


@pytest.mark.case("SP32")
def test_two_delays_of_a_row_are_an_error_or_the_first_wins(
    spark: SparkSession, broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    at_ms = clock.now_ms + 5 * MINUTE_MS
    start_ms = clock.now_ms + 3 * MINUTE_MS
    schema = (
        "body string, delay_level int, delay_ms bigint, start_deliver_time bigint, "
        "deliver_at bigint"
    )
    rows = [
        ("at", 3, MINUTE_MS, start_ms, at_ms),
        ("start", 3, MINUTE_MS, start_ms, None),
        ("in", 3, MINUTE_MS, None, None),
        ("level", 3, None, None, None),
    ]
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    columns = "deliver_at, start_deliver_time, delay_ms, delay_level"
    problem = f"row [0-2]: more than one of {columns} has a value"
    with pytest.raises(PySparkException, match=f"3 of 4 rows .*({problem}.*){{3}}"):
        write(frame, broker)
    assert (broker.timers.count(), broker.messages.in_topic("T")) == (0, [])
    begin_ms = clock.now_ms
    write(frame, broker, delayConflict="first")
    waits = {
        timer.body: round(timer.due_at.timestamp() * 1_000) - begin_ms
        for timer in broker.timers.pending()
    }
    assert waits == {
        b"at": 5 * MINUTE_MS,
        b"start": 3 * MINUTE_MS,
        b"in": MINUTE_MS,
        b"level": 10_000,
    }


@pytest.mark.case("SP34")
def test_delayed_rows_of_many_go_alone_the_others_in_batches_and_none_comes_early(
    spark: SparkSession, broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    rows = spark.range(0, 1_000, 1, 2).selectExpr(
        "concat('m', id) AS body", "if(id % 2 = 1, 5000, NULL) AS delay_ms"
    )
    write(rows, broker, batchSend="true")
    now, all_of_them = ({b"m%d" % n for n in range(0, 1_000, step)} for step in (2, 1))
    assert len(broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2)) == 500
    assert 1 <= len(broker.journal.requests(code=RequestCode.SEND_BATCH_MESSAGE)) <= 8
    clock.advance(4.9)
    assert sorted(one.body for one in broker.messages.in_topic("T")) == sorted(now)
    clock.advance(0.1)
    assert sorted(one.body for one in broker.messages.in_topic("T")) == sorted(all_of_them)


@pytest.mark.case("SP35")
def test_every_type_of_a_delay_column_says_the_same(
    spark: SparkSession, broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    due_ms = clock.now_ms + MINUTE_MS
    columns = (
        "60000 AS delay_ms",
        "60000L AS delay_ms",
        "INTERVAL '1' MINUTE AS delay_ms",
        f"{due_ms}L AS deliver_at",
        f"timestamp_millis({due_ms}L) AS deliver_at",
        f"{due_ms}L AS start_deliver_time",
    )
    for column in columns:
        write(spark.sql(f"SELECT '{column[:8]}' AS body, {column}"), broker)
    due = [round(timer.due_at.timestamp() * 1_000) for timer in broker.timers.pending()]
    assert due == [due_ms] * len(columns)


LETTERS = "abcXYZ019-_. äßλ漢😀\t\n{}\"'"


def random_row(random: Random, number: int) -> tuple[bytearray, dict[str, str]]:
    size = random.choice([1, 2, random.randrange(1, 60), random.randrange(1, 2_000)])
    properties = {
        f"p{random.randrange(5)}{random.choice(LETTERS).strip()}": "".join(
            random.choices(LETTERS, k=random.randrange(12))
        )
        + random.choice(LETTERS.split(maxsplit=1)[0])  # a blank value is no value
        for _ in range(random.randrange(6))
    }
    return bytearray(random.randbytes(size)), properties | {"number": str(number)}


@pytest.mark.case("SP70")
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.usefixtures("clock")
def test_random_bodies_and_properties_are_read_back_as_they_were_written(
    spark: SparkSession, broker: EmbeddedBroker, seed: int
) -> None:
    random = Random(seed)
    rows = [random_row(random, number) for number in range(3_000)]
    schema = "body binary, properties map<string,string>"
    write(spark.createDataFrame(rows, schema), broker, batchSend=str(seed == 1).lower())
    reader = spark.read.format("rocketmq").schema(schema)
    found = reader.options(nameServer=broker.namesrv_addr, subscribe="T").load().collect()
    system = {"UNIQ_KEY", "WAIT", "CLUSTER", "MSG_REGION", "TRACE_ON"}
    back = {
        int(row.properties["number"]): (
            row.body,
            {name: one for name, one in row.properties.items() if name not in system},
        )
        for row in found
    }
    assert len(found) == len(back) == len(rows)
    assert back == dict(enumerate(rows))
