"""How Spark reads topics in a batch: plan the ranges on the driver, read each in a task.

Spark's `DataSourceReader`. `partitions` asks name server and brokers once; what a task needs
travels in its partition. Must not know bytes. Read on: ``planning/start_places.py``,
``range_reader.py``, ``pushed_filters.py``.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from attrs import evolve
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketmq_py import MessageQueue, QueueAccess, QueueBounds
from spark_connector.decoding.read_columns import projection
from spark_connector.errors import OptionError
from spark_connector.options.positions import in_order
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.planning.message_sizes import MessageSizes
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.planning.start_places import resolve
from spark_connector.planning.task_plan import Task, TaskBounds, plan
from spark_connector.planning.time_places import first_at
from spark_connector.planning.whole_topics import whole_bounds
from spark_connector.reading.pulling import lost
from spark_connector.reading.pushed_filters import Narrowing, narrowing_of
from spark_connector.reading.range_reader import read_ranges
from spark_connector.servers import spark_api
from spark_connector.servers.access import access_for
from spark_connector.servers.spark_api import Filter, refuse_lacking
from spark_connector.servers.versions import Shipped

NAMED_PLACES = {"offsets", "timestamp", "timestamps"}
"""Kinds of a start and an end that are places: the wrong way round they are a mistake."""


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


def arrow_schema(schema: StructType, options: ReadOptions) -> pa.Schema:
    """Return the exact Arrow schema that Spark expects of record batches.

    Raises `SchemaError` for a column that topics do not have.
    """
    arrow = spark_api.arrow_schema(schema)
    projection(arrow, corrupt=options.column_name_of_corrupt_record, mode=options.mode)
    return arrow.remove_metadata()


class BatchReader(Shipped, DataSourceReader):
    """Reads what is between two places of every queue when the query is planned."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, cores: int | None = None
    ) -> None:
        self.options: ReadOptions = read_options(options, streaming=False)
        refuse_lacking(self.options)
        self.schema = arrow_schema(schema, self.options)
        self.cores = cores
        self.narrowing = Narrowing()

    def partitions(self) -> Sequence[InputPartition]:
        """Ask for the bounds of every queue and cut the ranges into tasks."""
        options = self.options
        access = access_for(options.connection)
        bounds = whole_bounds(access, options)
        # Of all queues, wanted or not: what is wrong is so with and without filters.
        start = resolve(access, options, options.start, bounds, is_end=False)
        end = resolve(access, options, options.end, bounds, is_end=True)
        _check_order(options, start, end)
        asked_for = self._narrowed(access, bounds, start, end)
        ranges = []
        for queue, (first, past) in in_order(asked_for):
            one = bounds[queue]
            place = queue.topic, queue.broker_name, queue.queue_id
            asked = QueueRange(*place, first, past, access.address_of(queue.broker_name))
            if first < one.min_offset and first < past:
                available = f"{one.min_offset} to {one.max_offset}"
                lost(options, asked, first, min(one.min_offset, past), available)
                asked = QueueRange(*place, one.min_offset, past, asked.address)
            ranges.append(asked)
        sizes = MessageSizes(access, options).of_topics(ranges)
        tasks = plan(ranges, task_bounds(options, self.cores), sizes)
        return [RangePartition(one) for one in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges; Spark makes a partition of its own when there is none."""
        if isinstance(partition, RangePartition):
            access = access_for(self.options.connection)
            yield from read_ranges(access, self.options, partition.wanted, self.schema)

    def _narrowed(
        self,
        access: QueueAccess,
        bounds: Mapping[MessageQueue, QueueBounds],
        start: Mapping[MessageQueue, int],
        end: Mapping[MessageQueue, int],
    ) -> dict[MessageQueue, tuple[int, int]]:
        """Return the parts of all ranges that the query's filters leave."""
        offsets, times = self.narrowing.offsets, self.narrowing.times
        found = {
            queue: offsets.cut(start[queue], end[queue])
            for queue in bounds
            if self.narrowing.takes(queue)
        }
        for moment, is_start in ((times.low, True), (times.past, False)):
            if moment is None:
                continue
            open_ = {queue: moment for queue, (first, past) in found.items() if first < past}
            for queue, match in first_at(access, self.options, bounds, open_).items():
                first, past = found[queue]
                if not is_start:
                    found[queue] = first, min(past, match)
                elif match > bounds[queue].min_offset:
                    # Else lost messages before it might have matched.
                    found[queue] = max(first, match), past
        return found


def _check_order(
    options: ReadOptions, start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]
) -> None:
    """Refuse places the wrong way round; what is "latest" or a group's may be behind the end."""
    if not {options.start.kind, options.end.kind} <= NAMED_PLACES:
        return
    for queue, first in in_order(start):
        if first > end[queue]:
            raise OptionError(
                f"the read would end at {end[queue]}, before it begins at {first}, in "
                f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}"
            )


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
