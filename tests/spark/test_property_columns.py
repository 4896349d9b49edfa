"""Single properties are used as they are written, without backticks where Spark needs none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embedded_broker import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.readwriter import DataFrameReader


@pytest.fixture
def reader(spark: SparkSession, broker: EmbeddedBroker) -> DataFrameReader:
    broker.topics.create("T", queues=1)
    for number, region in enumerate(("north", "south", "north")):
        properties = {"region": region, "user-id": f"u{number}"}
        broker.send("T", b"x", properties=properties if number else {"region": region})
    return spark.read.format("rocketmq").options(nameServer=broker.namesrv_addr, subscribe="T")


def test_a_property_is_a_field_in_frames_and_in_sql(
    spark: SparkSession, reader: DataFrameReader
) -> None:
    rows = reader.option("columns", "offset,property.region,property.user-id").load()
    assert rows.columns == ["offset", "property"]
    north = rows.where("property.region = 'north'").select("offset", "property.region")
    assert sorted(tuple(row) for row in north.collect()) == [(0, "north"), (2, "north")]
    counted = rows.groupBy("property.region").count().collect()
    assert {row.region: row["count"] for row in counted} == {"north": 2, "south": 1}
    rows.createOrReplaceTempView("of_regions")
    try:
        found = spark.sql("SELECT property.`user-id` AS id FROM of_regions ORDER BY offset")
        assert [row.id for row in found.collect()] == [None, "u1", "u2"]
    finally:
        spark.catalog.dropTempView("of_regions")


def test_a_schema_may_ask_for_the_fields_or_for_a_column_with_a_dot(
    reader: DataFrameReader,
) -> None:
    both = "offset bigint, property struct<region: string>, `property.user-id` string"
    rows = reader.schema(both).load().select("property.region", "`property.user-id`")
    assert sorted(map(tuple, rows.collect()), key=str) == [
        ("north", "u2"),
        ("north", None),
        ("south", "u1"),
    ]
    with pytest.raises(Exception, match=r"it must be struct<NAME:string>"):
        reader.schema("property map<string, string>").load().collect()
