"""Which queues, offsets, times and tags the filters of a query leave over.

Only what certainly cannot be wanted is left out, because Spark checks every row itself. Must not
know brokers. Read on: ``batch_reader.py``, which asks for offsets of times and reads less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from attrs import define, field
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from rocketmq_py import MessageQueue
from spark_connector.schema import source_of

__all__ = ["Wanted"]

QUEUE_COLUMNS = ("topic", "broker_name", "queue_id")
NUMBER_MAX = 1 << 63
EPOCH = "1970-01-01T00:00:00+00:00"


@define
class Wanted:
    """What is left over: everything, until filters are taken.

    ``low`` and ``past`` bound offsets, ``since_ms`` and ``before_ms`` store times (epoch ms).
    """

    queues: dict[str, set[object]] = field(factory=dict)
    low: int = 0
    past: int = NUMBER_MAX
    since_ms: int | None = None
    before_ms: int | None = None
    tags: set[str] | None = None

    def take(self, filters: Iterable[Filter]) -> None:
        """Narrow by those filters that can be used, all of which must hold."""
        for one in filters:
            attribute: tuple[str, ...] = getattr(one, "attribute", ())
            if len(attribute) != 1:
                continue
            try:
                source = source_of(attribute[0])
            except ValueError:
                continue
            if source in QUEUE_COLUMNS:
                values = _values(one)
                if values is not None:
                    known = self.queues.get(source)
                    self.queues[source] = values if known is None else known & values
            elif source == "tags":
                self._take_tags(one)
            elif source == "offset":
                self._take_offset(one)
            elif source == "store_timestamp":
                self._take_time(one)

    def has_queue(self, queue: MessageQueue) -> bool:
        """Whether a queue can hold wanted rows."""
        return all(
            getattr(queue, name) in self.queues[name]
            for name in QUEUE_COLUMNS
            if name in self.queues
        )

    @property
    def expression(self) -> str | None:
        """The tags as a broker's filter; None when they cannot be one, or are all wanted."""
        if not self.tags or any(not tag or tag != tag.strip() or "|" in tag for tag in self.tags):
            return None
        return " || ".join(sorted(self.tags))

    def _take_tags(self, one: Filter) -> None:
        values = _values(one)
        if values is None:
            return
        texts = {value for value in values if isinstance(value, str)}
        self.tags = texts if self.tags is None else self.tags & texts

    def _take_offset(self, one: Filter) -> None:
        low, past = _bounds(one, lambda value: value if isinstance(value, int) else None)
        if low is not None:
            self.low = max(self.low, low)
        if past is not None:
            self.past = min(self.past, past)

    def _take_time(self, one: Filter) -> None:
        low, past = _bounds(one, _milliseconds)
        if low is not None:
            self.since_ms = low if self.since_ms is None else max(self.since_ms, low)
        if past is not None:
            self.before_ms = past if self.before_ms is None else min(self.before_ms, past)


def _values(one: Filter) -> set[object] | None:
    if isinstance(one, EqualTo):
        return {one.value}
    return set(one.value) if isinstance(one, In) else None


def _bounds(one: Filter, number: Callable[[object], int | None]) -> tuple[int | None, int | None]:
    """Return the first whole number that can fulfil a filter, and the one past the last."""
    value = number(getattr(one, "value", None))
    if value is None:
        return None, None
    match one:
        case EqualTo():
            return value, value + 1
        case GreaterThan() | GreaterThanOrEqual():
            return value, None
        case LessThan() | LessThanOrEqual():
            return None, value + 1
    return None, None


def _milliseconds(value: object) -> int | None:
    """Return an instant, rounded down; None for one without a zone, which nobody can place."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - datetime.fromisoformat(EPOCH)) // timedelta(milliseconds=1)
    return value if isinstance(value, int) else None
