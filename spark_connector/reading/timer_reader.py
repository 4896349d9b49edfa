"""What Spark calls to read pending timers: a task for each running broker, one for a store.

A running broker is asked at its control port, or its timer topic is pulled.

The planner asks what time it is, once for all rows, so that lateness and age agree. Must not know
HTTP, bytes or files. Read on: ``control_timers.py``, ``topic_timers.py``, ``store_timers.py``, and
``decoding/timer_columns.py`` for the columns.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from attrs import evolve, frozen
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketmq_py import SystemClock
from spark_connector.decoding.read_columns import US_PER_MS
from spark_connector.decoding.timer_columns import (
    TimerRow,
    check_timer_columns,
    timer_batches,
    wants_stored,
)
from spark_connector.errors import OptionError
from spark_connector.options.timer_options import TimerOptions, timer_options
from spark_connector.reading.control_timers import ControlFace, TimerSpan
from spark_connector.reading.pushed_filters import Span, span_of, values_of
from spark_connector.reading.store_timers import timers_of_store
from spark_connector.reading.topic_timers import TopicPlace, topic_places, topic_timers
from spark_connector.servers import spark_api
from spark_connector.servers.spark_api import Filter, refuse_lacking
from spark_connector.servers.versions import Shipped


@frozen
class TimerTask:
    """What one task reads: the timers of a running broker, or those of the store for None.

    With a `place` these are found in the broker's timer topic.
    """

    broker_name: str | None
    span: TimerSpan
    now_ms: int
    place: TopicPlace | None = None


class TimerPartition(InputPartition):
    """A task, as Spark carries it."""

    def __init__(self, wanted: TimerTask) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class TimerReader(Shipped, DataSourceReader):
    """Reads what waits when each task looks; a message that leaves meanwhile may be missing."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options: TimerOptions = timer_options(options)
        refuse_lacking(self.options)
        self.schema = spark_api.arrow_schema(schema).remove_metadata()
        check_timer_columns(self.schema)
        self.span: TimerSpan | None = TimerSpan(self.options.topic)

    def partitions(self) -> Sequence[InputPartition]:
        """Ask which brokers there are, and what time it is for them."""
        if self.span is None:
            return []
        options = self.options
        if options.pulling is not None:
            return [
                TimerPartition(
                    TimerTask(
                        one.queue.broker_name,
                        self.span,
                        one.now_ms if options.as_of_ms is None else options.as_of_ms,
                        one,
                    )
                )
                for one in topic_places(options.pulling, options.broker_name)
            ]
        if options.control_address is None:
            now_ms = SystemClock().now_ms if options.as_of_ms is None else options.as_of_ms
            return [TimerPartition(TimerTask(None, self.span, now_ms))]
        with ControlFace(options) as face:
            names = face.broker_names()
            if options.broker_name is not None:
                if options.broker_name not in names:
                    raise OptionError(
                        f"option brokerName = {options.broker_name}: behind controlAddress = "
                        f"{options.control_address} are {', '.join(names)}"
                    )
                names = [options.broker_name]
            return [
                TimerPartition(
                    TimerTask(
                        name,
                        self.span,
                        face.now_ms(name) if options.as_of_ms is None else options.as_of_ms,
                    )
                )
                for name in names
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's timers; Spark makes a partition of its own when there is none."""
        if not isinstance(partition, TimerPartition):
            return
        options, wanted = self.options, partition.wanted
        yield from timer_batches(
            self._rows(wanted),
            self.schema,
            now_ms=wanted.now_ms,
            rows_most=options.arrow_batch_rows,
            bytes_most=options.arrow_batch_bytes,
        )

    def _rows(self, wanted: TimerTask) -> Iterator[TimerRow]:
        stored = wants_stored(self.schema)
        pulling, place = self.options.pulling, wanted.place
        if pulling is not None and place is not None:
            yield from topic_timers(pulling, place, wanted.span, stored=stored)
            return
        if wanted.broker_name is None:
            yield from timers_of_store(self.options, wanted.span, stored=stored)
            return
        with ControlFace(self.options) as face:
            yield from face.timers(wanted.broker_name, wanted.span, stored=stored)


class FilteringTimerReader(TimerReader):
    """A reader that looks at the query's filters first; Spark still checks every row itself.

    Only made when the option says so, as `FilteringBatchReader`.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Note which topic and due times can match; every filter is given back as not handled."""
        self.span = narrowed(TimerSpan(self.options.topic), filters)
        return list(filters)


def narrowed(span: TimerSpan, filters: Iterable[Filter]) -> TimerSpan | None:
    """Return the part of a span that filters leave, None when nothing can match.

    Of several topics all are read: Spark chooses among them.
    """
    topics: frozenset[object] | None = None if span.topic is None else frozenset({span.topic})
    due = Span(span.since_ms, span.before_ms)
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        match [name.lower() for name in attribute]:
            case ["topic"]:
                wanted = values_of(one)
                if wanted is not None:
                    topics = wanted if topics is None else topics & wanted
            case ["due_at"]:
                due = due.both(span_of(one, US_PER_MS))
            case _:
                pass
    if topics is not None and not topics - {None}:
        return None
    if topics is not None and len(topics) == 1:
        span = evolve(span, topic=str(*topics))
    return evolve(span, since_ms=due.low, before_ms=due.past)
