"""Pending timers read as Spark reads them, without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import Filter
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from spark_connector.options.parsing import HiddenOptions
from spark_connector.reading.timer_reader import FilteringTimerReader, TimerReader

TYPES: dict[str, DataType] = {
    "queue_id": IntegerType(),
    "hops": IntegerType(),
    "body_size": IntegerType(),
    "due_at": LongType(),
    "accepted_at": LongType(),
    "lateness_ms": LongType(),
    "age_ms": LongType(),
    "body": BinaryType(),
    "properties": MapType(StringType(), StringType()),
}


def schema_of(*columns: str) -> StructType:
    return StructType([StructField(one, TYPES.get(one, StringType())) for one in columns])


def read(
    *columns: str, filters: Sequence[Filter] | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Plan as Spark does, in one process, and read in another one."""
    given = {"timers": "pending"} | {name: str(one) for name, one in options.items()}
    kind = TimerReader if filters is None else FilteringTimerReader
    reader = kind(HiddenOptions(given), schema_of(*columns))
    if isinstance(reader, FilteringTimerReader):
        assert list(reader.pushFilters(list(filters or ()))) == list(filters or ())
    there = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own
    batches: list[pa.RecordBatch] = []
    for partition in reader.partitions():
        batches += there.read(pickle.loads(pickle.dumps(partition)))  # noqa: S301 - our own
    assert {batch.schema for batch in batches} <= {reader.schema}
    return [row for batch in batches for row in batch.to_pylist()]
