"""How Spark reads topics in a batch: plan the ranges on the driver, read each in a task.

Spark's `DataSourceReader`. `partitions` asks name server and brokers once; what a task needs
travels in its partition. Must not know bytes. Read on: ``starting.py``, ``reading.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rocketmq_py import MessageQueue
from spark_connector.access import access_for
from spark_connector.options import ReadOptions, read_options
from spark_connector.origin import Shipped
from spark_connector.partitions import QueueRange, split
from spark_connector.pulling import lost
from spark_connector.reading import read_range
from spark_connector.schema import projection, source_of
from spark_connector.starting import bounds_of, resolve

__all__ = ["BatchReader", "FilteringBatchReader", "RangePartition", "arrow_schema"]


class RangePartition(InputPartition):
    """One task's range of a queue."""

    def __init__(self, wanted: QueueRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the exact Arrow schema that Spark expects of record batches.

    Raises `SchemaError` for a column that topics do not have.
    """
    arrow = to_arrow_schema(schema, timezone="UTC")
    projection(arrow)
    return arrow.remove_metadata()


class BatchReader(Shipped, DataSourceReader):
    """Reads what is between two places of every queue when the query is planned."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options: ReadOptions = read_options(options, streaming=False)
        self.schema = arrow_schema(schema)
        self.limits: dict[str, Any] = {}

    def partitions(self) -> Sequence[InputPartition]:
        """Ask for the bounds of every queue and cut the ranges into tasks."""
        options = self.options
        access = access_for(options.connection)
        bounds = bounds_of(access, options)
        bounds = {queue: one for queue, one in bounds.items() if self._is_wanted(queue)}
        start = resolve(access, options, options.start, bounds, is_end=False)
        end = resolve(access, options, options.end, bounds, is_end=True)
        ranges = []
        for queue, one in sorted(bounds.items()):
            place = queue.topic, queue.broker_name, queue.queue_id
            first, past = self._narrowed(start[queue], end[queue])
            asked = QueueRange(*place, first, past, access.address_of(queue.broker_name))
            if first < one.min_offset and first < past:
                available = f"{one.min_offset} to {one.max_offset}"
                lost(options, asked, first, min(one.min_offset, past), available)
                asked = QueueRange(*place, one.min_offset, past, asked.address)
            ranges.append(asked)
        cut = split(ranges, min_partitions=options.min_partitions, max_records=options.max_records)
        return [RangePartition(one) for one in cut]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's range; Spark makes a partition of its own when there is none."""
        if isinstance(partition, RangePartition):
            access = access_for(self.options.connection)
            yield from read_range(access, self.options, partition.wanted, self.schema)

    def _is_wanted(self, queue: MessageQueue) -> bool:
        values = {
            "topic": queue.topic,
            "broker_name": queue.broker_name,
            "queue_id": queue.queue_id,
        }
        return all(values[name] in self.limits[name] for name in values if name in self.limits)

    def _narrowed(self, first: int, past: int) -> tuple[int, int]:
        return max(first, self.limits.get("low", 0)), min(past, self.limits.get("past", past))


class FilteringBatchReader(BatchReader):
    """A reader that looks at the query's filters first; Spark still checks every row itself.

    Only made when the option says so: with ``spark.sql.python.filterPushdown.enabled`` off, Spark
    refuses every read of a source that has this method.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow queues and offsets; every filter is given back as not handled."""
        for one in filters:
            attribute: tuple[str, ...] = getattr(one, "attribute", ())
            if len(attribute) != 1:
                continue
            try:
                source = source_of(attribute[0])
            except ValueError:
                continue
            self._narrow(source, one)
        return list(filters)

    def _narrow(self, source: str, one: Filter) -> None:
        limits = self.limits
        if source in {"topic", "broker_name", "queue_id"} and isinstance(one, (EqualTo, In)):
            values = set(one.value) if isinstance(one, In) else {one.value}
            limits[source] = limits[source] & values if source in limits else values
        elif source == "offset":
            low, past = limits.get("low", 0), limits.get("past", 1 << 63)
            match one:
                case EqualTo():
                    low, past = max(low, one.value), min(past, one.value + 1)
                case GreaterThan():
                    low = max(low, one.value + 1)
                case GreaterThanOrEqual():
                    low = max(low, one.value)
                case LessThan():
                    past = min(past, one.value)
                case LessThanOrEqual():
                    past = min(past, one.value + 1)
            limits["low"], limits["past"] = low, past
