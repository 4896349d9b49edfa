"""The data source says what is wrong where Spark shows it, before anything is connected."""

from __future__ import annotations

import pytest

pytest.importorskip(
    "pyspark", minversion="4.2", reason="PySpark 4.2 is not installed (extra spark)"
)

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_connector.errors import OptionError, SchemaError
from spark_connector.source import RocketMQDataSource
from spark_connector.stream_reader import StreamReader

READ = {"nameServer": "h:1", "subscribe": "T"}
OFFSETS = StructType([StructField("offset", LongType())])


@pytest.mark.case("SP21")
@pytest.mark.parametrize(
    ("extra", "error"),
    [
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger = '0': must be a whole number"),
        ({"sendRetries": "1"}, "sendRetries is not for"),
        ({"subscribe": ""}, "exactly one of subscribe"),
        ({"offsetPollInterval": "1"}, "unknown option offsetPollInterval"),
    ],
)
def test_the_error_of_a_read_is_about_what_the_options_are_for(
    extra: dict[str, str], error: str
) -> None:
    with pytest.raises(OptionError, match=error):
        RocketMQDataSource(READ | extra).schema()


def test_options_of_a_stream_and_of_a_batch_both_give_a_schema() -> None:
    for extra in ({"maxOffsetsPerTrigger": "5"}, {"endingOffsets": "latest"}):
        assert "`offset` BIGINT" in RocketMQDataSource(READ | extra).schema()


@pytest.mark.case("SP21")
@pytest.mark.parametrize(
    ("extra", "column", "error"),
    [
        ({"prefetsh": "4"}, "offset", OptionError),
        ({}, "offzet", SchemaError),
    ],
)
def test_a_stream_that_cannot_be_made_says_so_when_it_is_asked_for_something(
    extra: dict[str, str], column: str, error: type[Exception]
) -> None:
    schema = StructType([StructField(column, LongType())])
    reader = RocketMQDataSource(READ | extra).streamReader(schema)
    for call in (
        reader.initialOffset,
        reader.getDefaultReadLimit,
        reader.reportLatestOffset,
        reader.prepareForTriggerAvailableNow,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: reader.partitions({}, {}),
    ):
        with pytest.raises(error, match="did you mean"):
            call()
    reader.stop()
    good = RocketMQDataSource(READ).streamReader(OFFSETS)
    assert isinstance(good, StreamReader)


def test_a_column_of_another_type_is_refused_by_a_batch_at_once() -> None:
    with pytest.raises(SchemaError, match="offset cannot be string"):
        RocketMQDataSource(READ).reader(StructType([StructField("offset", StringType())]))
