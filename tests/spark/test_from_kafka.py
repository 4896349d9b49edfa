"""The page for users of Kafka's source runs, and gives them the columns that they had."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedded_broker import EmbeddedBroker
from tests.pages import blocks_of
from tests.spark.test_readme import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = "spark_connector/FROM_KAFKA.md"
OF_KAFKA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
    "timestampType:int,headers:array<struct<key:string,value:binary>>>"
)
"""What Spark's Kafka source gives with `includeHeaders`."""


def test_every_program_of_the_page_works_from_its_top_to_its_end(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    for topic in ("Orders", "Copies", "Back"):
        broker.topics.create(topic, queues=2)
    for number in range(4):
        broker.send(
            "Orders",
            b"order %d" % number,
            queue=number % 2,
            keys="21",
            properties={"trace": "abc" if number else "def"},
        )
    given: dict[str, Any] = {"spark": spark, "address": broker.namesrv_addr, "folder": tmp_path}
    run(blocks_of(PAGE), given)
    shown = given["as_in_kafka"]
    assert shown.schema.simpleString() == OF_KAFKA
    rows = sorted(shown.collect(), key=lambda row: bytes(row.value))
    assert [bytes(row.value) for row in rows] == [b"order %d" % number for number in range(4)]
    assert [(bytes(row.key), row.partition, row.offset) for row in rows] == [
        (b"21", number % 2, number // 2) for number in range(4)
    ]
    headers = {one.key: bytes(one.value) for one in rows[1].headers}
    assert (headers["trace"], headers["KEYS"]) == (b"abc", b"21")
    assert {row.timestampType for row in rows} == {1}
    assert {row.topic for row in rows} == {"Orders"}
    stored = {message.stored_at for message in broker.messages.in_topic("Orders")}
    assert {row.timestamp.astimezone(UTC) for row in rows} == stored
    assert {row.value for row in given["traced"].collect()} == {"order 1", "order 2", "order 3"}
    some = given["some"].selectExpr("queue_id", "offset").collect()
    assert sorted(map(tuple, some)) == [(0, 1), (1, 0), (1, 1)]
    lines = spark.read.load(f"{tmp_path}/lines").collect()
    assert sorted(map(tuple, lines)) == [
        (f"order {number}", "abc" if number else "def") for number in range(4)
    ]
    assert sum(one["numInputRows"] for one in given["followed"].recentProgress) == 4
    copies = broker.messages.in_topic("Copies")
    assert len(copies) == 8
    # Key 21 has the number -973932308 in Kafka: of two partitions it goes to the first one.
    assert {(message.keys, message.queue_id) for message in copies} == {(("21",), 0)}
    assert sum(message.properties.get("from") == "kafka" for message in copies) == 4
    # What has all of Kafka's columns is written as it is.
    there = {"nameServer": broker.namesrv_addr, "topic": "Back"}
    columns = ("CAST(key AS STRING) AS key", "value", "partition", "headers")
    back = shown.selectExpr(*columns).write.format("rocketmq").options(**there)
    back.options(usePartition=True, reservedProperties="drop").mode("append").save()
    written = {
        (one.body, one.keys, one.queue_id, one.properties["trace"])
        for one in broker.messages.in_topic("Back")
    }
    assert written == {
        (b"order %d" % number, ("21",), number % 2, "abc" if number else "def")
        for number in range(4)
    }
