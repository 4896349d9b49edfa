"""How Spark reads topics in a batch: plan the ranges on the driver, read each in a task.

Spark's `DataSourceReader`. `partitions` asks name server and brokers once; what a task needs
travels in its partition. Must not know bytes. Read on: ``planning/start_places.py``,
``range_reader.py``, ``pushed_filters.py``.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from attrs import evolve
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rocketmq_py import MessageQueue, QueueAccess, QueueBounds
from spark_connector.decoding.read_columns import projection
from spark_connector.options.positions import in_order
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.planning.message_sizes import MessageSizes
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.planning.start_places import bounds_of, first_at, resolve
from spark_connector.planning.task_plan import Task, TaskBounds, plan
from spark_connector.reading.pulling import lost
from spark_connector.reading.pushed_filters import Narrowing, narrowing_of
from spark_connector.reading.range_reader import read_ranges
from spark_connector.servers.access import access_for
from spark_connector.servers.versions import Shipped


class RangePartition(InputPartition):
    """What one task reads: ranges of one or many queues."""

    def __init__(self, wanted: Task) -> None:
        super().__init__(wanted)
        self.wanted = wanted


def task_bounds(options: ReadOptions, cores: int | None) -> TaskBounds:
    """Return the bounds that options and machine set; an unknown cluster is as large as this."""
    return TaskBounds(
        cores or os.cpu_count() or 1,
        options.min_partitions,
        options.max_partitions,
        options.max_records_per_partition,
    )


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the exact Arrow schema that Spark expects of record batches.

    Raises `SchemaError` for a column that topics do not have.
    """
    arrow = to_arrow_schema(schema, timezone="UTC")
    projection(arrow)
    return arrow.remove_metadata()


class BatchReader(Shipped, DataSourceReader):
    """Reads what is between two places of every queue when the query is planned."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, cores: int | None = None
    ) -> None:
        self.options: ReadOptions = read_options(options, streaming=False)
        self.schema = arrow_schema(schema)
        self.cores = cores
        self.narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        """Ask for the bounds of every queue and cut the ranges into tasks."""
        options = self.options
        access = access_for(options.connection)
        bounds = bounds_of(access, options)
        # Of all queues, wanted or not: what is wrong is so with and without filters.
        start = resolve(access, options, options.start, bounds, is_end=False)
        end = resolve(access, options, options.end, bounds, is_end=True)
        ranges = []
        for queue, one in in_order(bounds):
            if not self.narrowing.takes(queue):
                continue
            place = queue.topic, queue.broker_name, queue.queue_id
            first, past = self._narrowed(access, queue, one, (start[queue], end[queue]))
            asked = QueueRange(*place, first, past, access.address_of(queue.broker_name))
            if first < one.min_offset and first < past:
                available = f"{one.min_offset} to {one.max_offset}"
                lost(options, asked, first, min(one.min_offset, past), available)
                asked = QueueRange(*place, one.min_offset, past, asked.address)
            ranges.append(asked)
        tasks = plan(ranges, task_bounds(options, self.cores), MessageSizes(access).of(ranges))
        return [RangePartition(one) for one in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges; Spark makes a partition of its own when there is none."""
        if isinstance(partition, RangePartition):
            access = access_for(self.options.connection)
            yield from read_ranges(access, self.options, partition.wanted, self.schema)

    def _narrowed(
        self, access: QueueAccess, queue: MessageQueue, one: QueueBounds, asked: tuple[int, int]
    ) -> tuple[int, int]:
        """Return the part of a range that the query's filters leave."""
        first, past = self.narrowing.offsets.cut(*asked)
        times = self.narrowing.times
        if first < past and times.low is not None:
            match = first_at(access, self.options, queue, one, times.low)
            if match > one.min_offset:  # else lost messages before it might have matched
                first = max(first, match)
        if first < past and times.past is not None:
            past = min(past, first_at(access, self.options, queue, one, times.past))
        return first, past


class FilteringBatchReader(BatchReader):
    """A reader that looks at the query's filters first; Spark still checks every row itself.

    Only made when the option says so: with ``spark.sql.python.filterPushdown.enabled`` off, Spark
    refuses every read of a source that has this method.
    """

    def __init__(
        self, options: Mapping[str, str], schema: StructType, cores: int | None = None
    ) -> None:
        super().__init__(options, schema, cores)
        self._asked = self.options

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Note what can match; every filter is given back as not handled.

        Depends on the filters alone, because Spark may ask more than once.
        """
        self.narrowing = narrowing_of(filters)
        options = self._asked
        if options.expression_type == "TAG":
            expression = self.narrowing.expression(options.expression)
            if expression is None:
                self.narrowing = Narrowing({"topic": frozenset()})  # nothing can match
            self.options = evolve(options, expression=expression or options.expression)
        return list(filters)
