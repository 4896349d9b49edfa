"""How Spark reads topics as a stream: offsets on the driver, ranges in tasks.

Spark's `DataSourceStreamReader`. A micro-batch is a closed set of ranges that the two offsets alone
decide, so a repeated one reads the same messages. Nothing relies on `stop` or `commit`, which Spark
rarely or lately calls. Read on: ``planning/tracker.py`` for every decision about offsets.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from rocketmq_py import RocketMQError
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.options.table import NUMBER_MOST
from spark_connector.planning.backlog import Limit
from spark_connector.planning.stream_offset import KeptOffsets
from spark_connector.planning.task_plan import plan
from spark_connector.planning.tracker import Tracker
from spark_connector.reading.batch_reader import RangePartition, arrow_schema, task_bounds
from spark_connector.reading.range_reader import read_ranges
from spark_connector.servers.access import access_for
from spark_connector.servers.spark_api import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
    refuse_lacking,
)
from spark_connector.servers.tally import Pulled, Tally
from spark_connector.servers.versions import Shipped


class StreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics from a first place on, batch after batch."""

    def __init__(
        self,
        options: Mapping[str, str],
        schema: StructType,
        cores: int | None = None,
        tally: Tally | None = None,
    ) -> None:
        self.options: ReadOptions = read_options(options, streaming=True)
        refuse_lacking(self.options)
        self.schema = arrow_schema(schema, self.options)
        self._bounds = task_bounds(self.options, cores)
        self._tally = tally
        self._tracker: Tracker | None = None
        self._offsets = KeptOffsets()
        self._reached: dict[str, Any] | None = None

    def carried(self) -> dict[str, Any]:
        """Leave what belongs to this process behind: executors only read ranges."""
        mine = {"options": self.options, "schema": self.schema}
        return mine | {"_tally": self._tally, "_tracker": None}

    # --- on the driver ---------------------------------------------------------------------------

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the present ends: the run stops when they are reached."""
        self._track().freeze()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit that the options ask for; Spark knows one, `latestOffset` knows all."""
        options = self.options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        if options.max_fetch_time_ms is not None:
            return ReadMaxRows(NUMBER_MOST)  # the limit of a trigger of once is none at all
        return ReadAllAvailable()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query begins; the same for every call."""
        return self._offsets.write(self._track().initial())

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the next micro-batch: ``start`` itself when there is no news.

        Spark 4.0 and 4.1 tell neither start nor limit. Then the batch begins where the last call of
        `partitions` ended, and takes all there is. With `availableNow` newer ones wait for queues
        that are away; these two do not say that a run will end, so such queues are only logged.
        """
        tracker = self._track()
        known = self._reached or self.initialOffset() if start is None else start
        begin = self._offsets.read(known)
        end = tracker.latest(begin, Limit() if limit is None else self._limit(limit))
        if start is None:
            tracker.tell_away(begin)
        tracker.push_group(begin)  # a run of one batch calls this once: the look comes first
        return known if end is None else self._offsets.write(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the ends of all queues, for the progress report."""
        ends = self._track().ends()
        return None if ends is None else ends.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide what lies between two offsets into tasks.

        What is read depends on the two alone. How it is divided does not: for that brokers are
        asked how large messages are, now and then and without waiting for long. Spark 4.0 and 4.1
        call it first when a query is started again, with the last offset they have, twice.
        """
        first, past = self._offsets.read(start), self._offsets.read(end)
        self._reached = end
        ranges = list(first.ranges(past))
        sizes = self._track().sizes.of_topics(ranges)
        return [RangePartition(task) for task in plan(ranges, self._bounds, sizes)]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: comes a batch late; the group is told when the next batch is planned."""

    def stop(self) -> None:
        """Tell the group's brokers what they do not know; connections end with the process.

        Spark seldom lets it come to this: nothing relies on it.
        """
        if self._tracker is not None:
            self._tracker.finish()

    def _track(self) -> Tracker:
        if self._tracker is None:
            self._tracker = Tracker(access_for(self.options.connection), self.options)
        return self._tracker

    def _limit(self, given: ReadLimit) -> Limit:
        options = self.options
        if isinstance(given, ReadAllAvailable):
            return Limit()  # Trigger.Once: everything, whatever the options say
        limit = Limit(
            options.max_offsets_per_trigger,
            options.max_bytes_per_trigger,
            options.min_offsets_per_trigger,
            is_timed=options.max_fetch_time_ms is not None,
        )
        if isinstance(given, ReadMaxRows):
            limit.offsets_most = given.max_rows
        return limit

    # --- in a task -------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges."""
        if isinstance(partition, RangePartition):
            access = access_for(self.options.connection)
            pulled = Pulled(self._tally)
            yield from read_ranges(access, self.options, partition.wanted, self.schema, pulled)
            pulled.tell()


class RefusingStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stands for a reader whose options or columns are wrong, and says so whatever it is asked.

    Spark hides an error of the call that makes a stream's reader behind one of its own.
    """

    def __init__(self, error: RocketMQError) -> None:
        self._error = error

    def _refuse(self, *_asked: object) -> NoReturn:
        raise self._error from None

    prepareForTriggerAvailableNow = getDefaultReadLimit = initialOffset = _refuse  # noqa: N815
    latestOffset = reportLatestOffset = partitions = read = _refuse  # noqa: N815 - Spark's names
