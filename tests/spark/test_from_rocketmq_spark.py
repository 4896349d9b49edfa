"""The page for users of rocketmq-spark runs, and gives them the columns that they had."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedded_broker import EmbeddedBroker
from tests.pages import blocks_of
from tests.spark.test_readme import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_THE_OLD = (
    "struct<topic:string,flag:int,body:binary,properties:string,brokerName:string,queueId:int,"
    "queueOffset:bigint,bornTimestamp:timestamp,storeTimestamp:timestamp>"
)
"""The columns of rocketmq-spark, by its guide."""


def test_every_program_of_the_page_works_from_its_top_to_its_end(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    for topic in ("Orders", "Copies"):
        broker.topics.create(topic, queues=2)
    for number in range(4):
        broker.send("Orders", b"%d" % number, queue=number % 2, tags="new")
    given: dict[str, Any] = {"spark": spark, "address": broker.namesrv_addr, "folder": tmp_path}
    run(blocks_of("spark_connector/FROM_ROCKETMQ_SPARK.md"), given)
    assert given["rows"].schema.simpleString() == OF_THE_OLD
    first = min(given["rows"].collect(), key=lambda row: row.body)
    assert (first.brokerName, first.queueId, first.queueOffset) == ("broker-a", 0, 0)
    assert '"TAGS":"new"' in first.properties
    copies = broker.messages.in_topic("Copies")
    assert sorted((one.body, one.tags) for one in copies) == [
        (b"%d" % number, "copied") for number in range(4)
    ]
    bodies = spark.read.load(f"{tmp_path}/bodies").collect()
    assert sorted(bytes(row.body) for row in bodies) == [b"1", b"2", b"3"]
    lines = spark.read.json(f"{tmp_path}/lines").collect()
    assert sorted(row.body for row in lines) == ["0", "1", "2", "3"]
