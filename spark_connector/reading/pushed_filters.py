"""What the filters of a query say about which queues, offsets, times and tags can match at all.

`narrowing_of` reads Spark's filters; a batch reader then plans less. It only narrows: Spark checks
every row again, so what is not understood here is left to it. Store times are taken to grow with
offsets, as brokers do when they look one up. Must not know queues' bounds or the network.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from attrs import field, frozen

from rocketmq_py import MessageQueue
from spark_connector.decoding.read_columns import US_PER_MS, source_of
from spark_connector.errors import SchemaError
from spark_connector.options.read_options import named_tags
from spark_connector.servers.spark_api import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_BY_VALUE = ("topic", "broker_name", "queue_id", "tags")


@frozen
class Span:
    """Whole numbers from `low` to before `past`; None where there is no limit."""

    low: int | None = None
    past: int | None = None

    def both(self, other: "Span") -> "Span":
        """Return what lies in both."""
        lows = [one for one in (self.low, other.low) if one is not None]
        pasts = [one for one in (self.past, other.past) if one is not None]
        return Span(max(lows, default=None), min(pasts, default=None))

    def cut(self, first: int, past: int) -> tuple[int, int]:
        """Return the part of a range that lies in it."""
        low = first if self.low is None else max(first, self.low)
        return low, past if self.past is None else min(past, self.past)


@frozen
class Narrowing:
    """What can match: the only values of some columns, offsets, and store times in epoch ms."""

    values: Mapping[str, frozenset[object]] = field(factory=dict)
    offsets: Span = Span()
    times: Span = Span()

    def takes(self, queue: MessageQueue) -> bool:
        """Whether a queue can have matching messages."""
        of_queue = {
            "topic": queue.topic,
            "broker_name": queue.broker_name,
            "queue_id": queue.queue_id,
        }
        return all(
            of_queue[name] in wanted for name, wanted in self.values.items() if name in of_queue
        )

    def expression(self, expression: str) -> str | None:
        """Return the tag expression that brokers are asked with; None when no tag can match.

        ``expression`` is the user's own, which counts as well. Tags that cannot be written into
        an expression leave it as it is.
        """
        tags = self.values.get("tags")
        if tags is None or not all(_is_plain_tag(one) for one in tags):
            return expression
        wanted = {str(one) for one in tags}
        if expression != "*":
            wanted.intersection_update(named_tags(expression))
        return "||".join(sorted(wanted)) or None


def narrowing_of(filters: Iterable[Filter]) -> Narrowing:
    """Read filters that all must hold."""
    values: dict[str, frozenset[object]] = {}
    offsets = times = Span()
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        if len(attribute) != 1:
            continue
        try:
            source = source_of(attribute[0])
        except SchemaError:
            continue
        if source in _BY_VALUE:
            wanted = values_of(one)
            if wanted is not None:
                values[source] = values.get(source, wanted) & wanted
        elif source == "offset":
            offsets = offsets.both(span_of(one, 1))
        elif source == "store_timestamp":
            times = times.both(span_of(one, US_PER_MS))
    return Narrowing(values, offsets, times)


def values_of(one: Filter) -> frozenset[object] | None:
    """Return the only values that a filter lets pass, None for other filters."""
    if isinstance(one, In):
        return frozenset(one.value)
    if isinstance(one, (EqualTo, EqualNullSafe)):
        return frozenset({one.value})
    return None


def span_of(one: Filter, moment_unit: int) -> Span:
    """Return the span of a comparison; moments count in units of ``moment_unit`` microseconds.

    Stored times are whole units, so a limit between two of them is moved to the right one.
    """
    if isinstance(one, In):
        edges = [_floor(value, moment_unit) for value in one.value]
        if not edges or None in edges:
            return Span()
        whole = [edge[0] for edge in edges if edge is not None]
        return Span(min(whole), max(whole) + 1)
    edge = _floor(getattr(one, "value", None), moment_unit)
    if edge is None:
        return Span()
    floor, is_whole = edge
    ceiling = floor if is_whole else floor + 1
    match one:
        case EqualTo() | EqualNullSafe():
            return Span(ceiling, floor + 1)
        case GreaterThan():
            return Span(low=floor + 1)
        case GreaterThanOrEqual():
            return Span(low=ceiling)
        case LessThan():
            return Span(past=ceiling)
        case LessThanOrEqual():
            return Span(past=floor + 1)
        case _:
            return Span()


def _floor(value: object, moment_unit: int) -> tuple[int, bool] | None:
    """Return a limit rounded down, and whether it was whole; None for what is no limit."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value, True
    if isinstance(value, datetime) and value.tzinfo is not None:
        floor, rest = divmod((value - _EPOCH) // _MICROSECOND, moment_unit)
        return floor, rest == 0
    return None


def _is_plain_tag(value: object) -> bool:
    return (
        isinstance(value, str)
        and value == value.strip() != ""
        and "|" not in value
        and (value != "*")
    )
