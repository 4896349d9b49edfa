"""Columns and filters of a read, where the topic of a row comes from, and mistakes told soon."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions

from embedded_broker import EmbeddedBroker, PlainAccount, PlainAcl, VirtualClock
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.decoding.read_columns import _TYPES, ALIASES
from tests.spark.queries import read_all, stream
from tests.unit.spark_connector.decoding.test_columns_as_clients_see_them import (
    OTHER_TYPES,
    SHOWN,
    Both,
    Shown,
    both,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["both"]


@pytest.mark.case("SP12")
def test_every_column_and_alias_shows_what_a_push_consumer_shows(
    spark: SparkSession, both: Both
) -> None:
    names = {name: name for name in _TYPES} | ALIASES
    reader = spark.read.format("rocketmq").options(nameServer=both._address, subscribe="T")
    frame = reader.option("columns", ",".join(names)).load()
    assert frame.columns == list(names)
    # As numbers, because Spark gives times in the zone of the session.
    times = {name for name, kind in frame.dtypes if kind == "timestamp"}
    shown = frame.select(
        *[
            functions.unix_millis(functions.col(f"`{name}`")).alias(name)
            if name in times
            else functions.col(f"`{name}`")
            for name in names
        ]
    )
    rows = sorted(shown.collect(), key=lambda row: int(row["offset"]))
    assert len(rows) == len(both.seen)
    for name, source in names.items():
        expected = [plain(SHOWN[source](message)) for message in both.seen]
        assert [plain(row[name]) for row in rows] == expected, name


PAIRS = "array<struct<key: string, value: string>>"
ASKED: dict[str, tuple[str, Shown]] = {
    # The aliases, as the old connector and Kafka write them, with the other types that there are.
    "queueOffset": ("bigint", SHOWN["offset"]),
    "brokerName": ("string", SHOWN["broker_name"]),
    "queueId": ("int", SHOWN["queue_id"]),
    "partition": ("int", SHOWN["queue_id"]),
    "bornTimestamp": ("bigint", OTHER_TYPES["born_timestamp", "int64"]),
    "storeTimestamp": ("bigint", OTHER_TYPES["store_timestamp", "int64"]),
    "timestamp": ("timestamp", SHOWN["store_timestamp"]),
    "value": ("string", OTHER_TYPES["body", "string"]),
    "key": ("string", SHOWN["keys"]),
    "headers": (PAIRS, SHOWN["properties"]),
    "properties": ("string", OTHER_TYPES["properties", "string"]),
    "deliver_at": ("bigint", OTHER_TYPES["deliver_at", "int64"]),
    "property.region": ("string", lambda m: m.properties.get("region")),
    "property.DELAY": ("string", lambda m: m.properties.get("DELAY")),
}
"""Column of a schema to its type, and to what a client shows of it."""


@pytest.mark.case("SP12")
def test_a_schema_may_ask_by_alias_for_other_types_and_for_single_properties(
    spark: SparkSession, both: Both
) -> None:
    schema = ", ".join(f"`{name}` {kind}" for name, (kind, _) in ASKED.items())
    reader = spark.read.format("rocketmq").options(nameServer=both._address, subscribe="T")
    frame = reader.schema(schema).load()
    assert frame.columns == list(ASKED)
    in_ms = functions.unix_millis(functions.col("timestamp"))
    rows = frame.withColumn("timestamp", in_ms).orderBy("queueOffset").collect()
    assert {name.lower() for name in ASKED} >= ALIASES.keys()
    for name, (_, shown) in ASKED.items():
        expected = [plain(shown(message)) for message in both.seen]
        assert [plain(row[name]) for row in rows] == expected, name


def plain(value: Any) -> Any:
    """What Spark and the client give under one type: epoch ms, bytes, a dict."""
    if isinstance(value, datetime):
        return round(value.timestamp() * 1_000)
    if isinstance(value, bytearray):
        return bytes(value)
    return dict(value) if isinstance(value, list) else value


SQL = "region = 'south' AND size > 30"


@pytest.mark.slow
@pytest.mark.case("SP10")
def test_an_sql_filter_leaves_gaps_and_no_loss(spark: SparkSession, tmp_path: Path) -> None:
    with EmbeddedBroker(clock=VirtualClock()) as broker:
        broker.topics.create("T", queues=2)
        for number in range(300):
            region = ("north", "south", "west")[number % 3]
            broker.send(
                "T",
                b"m%d" % number,
                queue=number // 3 % 2,
                properties={"region": region, "size": str(number)},
            )
        wanted = {"sqlExpression": SQL, "failOnDataLoss": "true"}
        expected = sorted(f"m{number}" for number in range(300) if number % 3 == 1 and number > 30)
        reader = spark.read.format("rocketmq").options(nameServer=broker.namesrv_addr)
        frame = reader.options(subscribe="T", pullBatchSize="16", **wanted).load()
        rows = frame.select("queue_id", "offset", frame.body.cast("string").alias("body")).collect()
        assert sorted(row.body for row in rows) == expected
        asked = broker.journal.requests(code=RequestCode.PULL_MESSAGE)
        # The broker filters: what does not match never comes here.
        assert {(one.fields["expressionType"], one.fields["subscription"]) for one in asked} == {
            ("SQL92", SQL)
        }
        for queue in (0, 1):
            offsets = sorted(row.offset for row in rows if row.queue_id == queue)
            steps = {later - one for one, later in pairwise(offsets)}
            assert steps == {3}  # two messages of other regions lie between
        seen, _ = read_all(stream(spark, broker, maxOffsetsPerTrigger="70", **wanted), tmp_path)
        assert seen.bodies == expected
        assert len(seen.batches) == 5  # each of 70 offsets, whatever of them matches
        with pytest.raises(PySparkException, match='Encountered "<EOF>" at line 1, column 8'):
            reader.options(subscribe="T", sqlExpression="region =").load().collect()


@pytest.mark.case("SP23")
def test_the_option_topic_wins_over_the_column_and_one_of_them_is_needed(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    for name in ("A", "B", "Option"):
        broker.topics.create(name, queues=1)
    frame = spark.createDataFrame([("x", "A"), ("y", "B")], "body string, topic string")

    def write(rows: DataFrame, **options: str) -> None:
        writer = rows.write.format("rocketmq").mode("append")
        writer.options(nameServer=broker.namesrv_addr, **options).save()

    def stored() -> dict[str, set[bytes]]:
        names = ("A", "B", "Option")
        return {name: {one.body for one in broker.messages.in_topic(name)} for name in names}

    with pytest.raises(PySparkException, match=r"row 1: topic is null.*none of this"):
        write(
            spark.createDataFrame([("z", "A"), ("z", None)], "body string, topic string").coalesce(
                1
            )
        )
    write(frame)
    assert stored() == {"A": {b"x"}, "B": {b"y"}, "Option": set()}
    write(frame, topic="Option")
    assert stored() == {"A": {b"x"}, "B": {b"y"}, "Option": {b"x", b"y"}}
    with pytest.raises(PySparkException, match="needs the option topic, or a column topic"):
        write(frame.select("body"))
    assert stored() == {"A": {b"x"}, "B": {b"y"}, "Option": {b"x", b"y"}}


# --- what fails says so soon ---------------------------------------------------------------------

KEYS = {"accessKey": "accessor", "secretKey": "hush-hush"}
WRONG_KEYS = KEYS | {"secretKey": "hush-wrong"}
ACL = PlainAcl(accounts=[PlainAccount(access_key="accessor", secret_key="hush-hush", admin=True)])


def read_batch(spark: SparkSession, _folder: Path, **options: str) -> None:
    topic = options.pop("topic")
    spark.read.format("rocketmq").options(**options, subscribe=topic).load().count()


def read_stream(spark: SparkSession, folder: Path, **options: str) -> None:
    topic = options.pop("topic")
    frame = spark.readStream.format("rocketmq").options(**options, subscribe=topic).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder))
    writer.trigger(availableNow=True).start().awaitTermination(60)


def write_batch(spark: SparkSession, _folder: Path, **options: str) -> None:
    frame = spark.range(3).selectExpr("CAST(id AS string) AS body")
    frame.write.format("rocketmq").mode("append").options(**options).save()


@pytest.mark.case("SP20")
@pytest.mark.parametrize("use", [read_batch, read_stream, write_batch])
@pytest.mark.parametrize("mistake", ["topic", "name server", "key"])
def test_a_mistake_in_where_to_connect_is_told_by_its_kind(
    spark: SparkSession, tmp_path: Path, use: Callable[..., None], mistake: str
) -> None:
    errors = {
        "topic": "NoRouteError",
        "name server": "NameServerUnavailableError",
        "key": "PermissionDeniedError",
    }
    config = {"autoCreateTopicEnable": False}
    with EmbeddedBroker(config=config, topics=["T"], acl=ACL) as broker:
        broker.send("T", b"x")
        # Workers that run: the time that Python takes to start is not ours.
        read_batch(spark, tmp_path, nameServer=broker.namesrv_addr, topic="T", **KEYS)
        keys = WRONG_KEYS if mistake == "key" else KEYS
        address = "127.0.0.1:1" if mistake == "name server" else broker.namesrv_addr
        topic = "Nowhere" if mistake == "topic" else "T"
        with pytest.raises(PySparkException, match=errors[mistake]) as caught:
            use(spark, tmp_path, nameServer=address, topic=topic, **keys)
        assert [one.body for one in broker.messages.in_topic("T")] == [b"x"]
    assert "hush" not in str(caught.value)
