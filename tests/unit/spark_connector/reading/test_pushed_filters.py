"""Filters only narrow: what is left holds every row that matches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import MessageQueue
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.reading.batch_reader import FilteringBatchReader, RangePartition
from spark_connector.reading.pushed_filters import Span, narrowing_of

AT = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
"""Millisecond 1000."""
MICROSECOND = timedelta(microseconds=1)


@pytest.mark.case("SP17")
@pytest.mark.parametrize(
    ("one", "span"),
    [
        (EqualTo(("store_timestamp",), AT), Span(1000, 1001)),
        (EqualNullSafe(("timestamp",), AT), Span(1000, 1001)),
        (GreaterThan(("store_timestamp",), AT), Span(low=1001)),
        (GreaterThanOrEqual(("store_timestamp",), AT), Span(low=1000)),
        (LessThan(("storeTimestamp",), AT), Span(past=1000)),
        (LessThanOrEqual(("store_timestamp",), AT), Span(past=1001)),
        # Limits between two milliseconds.
        (GreaterThan(("store_timestamp",), AT + MICROSECOND), Span(low=1001)),
        (GreaterThanOrEqual(("store_timestamp",), AT + MICROSECOND), Span(low=1001)),
        (LessThan(("store_timestamp",), AT + MICROSECOND), Span(past=1001)),
        (LessThanOrEqual(("store_timestamp",), AT + MICROSECOND), Span(past=1001)),
        (GreaterThan(("store_timestamp",), AT - MICROSECOND), Span(low=1000)),
        # The column read as bigint.
        (LessThanOrEqual(("store_timestamp",), 7), Span(past=8)),
        (In(("store_timestamp",), [9, 7]), Span(7, 10)),
        (Not(EqualTo(("store_timestamp",), AT)), Span()),
        (EqualTo(("store_timestamp",), None), Span()),
    ],
)
def test_limits_of_store_times_are_rounded_so_that_no_match_is_lost(
    one: Filter, span: Span
) -> None:
    assert narrowing_of([one]).times == span


def test_several_filters_must_all_hold() -> None:
    found = narrowing_of(
        [
            In(("queue_id",), [1, 2, 3]),
            EqualTo(("partition",), 2),
            GreaterThan(("offset",), 4),
            LessThanOrEqual(("queueOffset",), 9),
            GreaterThanOrEqual(("offset",), 2),
            EqualTo(("nested", "queue_id"), 7),
            EqualTo(("body",), b"x"),
            EqualTo(("strange",), 1),
        ]
    )
    assert found.offsets == Span(5, 10)
    assert [n for n in range(5) if found.takes(MessageQueue("T", "b", n))] == [2]
    assert found.offsets.cut(0, 7) == (5, 7)


@pytest.mark.parametrize(
    ("tags", "expression", "asked"),
    [
        (EqualTo(("tags",), "A"), "*", "A"),
        (In(("tags",), ["B", "A"]), "*", "A||B"),
        (In(("tags",), ["B", "A"]), "A || C", "A"),
        (EqualTo(("tags",), "B"), "A", None),
        (EqualTo(("tags",), " A"), "*", "*"),  # no expression says blanks
        (EqualTo(("tags",), "*"), "*", "*"),
        (In(("tags",), ["A", None]), "*", "*"),
        (StringStartsWith(("tags",), "A"), "*", "*"),
    ],
)
def test_tags_become_the_expression_that_brokers_filter_by(
    tags: Filter, expression: str, asked: str | None
) -> None:
    assert narrowing_of([tags]).expression(expression) == asked


@pytest.mark.case("SP17")
def test_a_reader_pulls_only_what_the_filters_leave_over() -> None:
    clock = VirtualClock()
    with EmbeddedBroker(clock=clock) as broker:
        broker.topics.create("T", queues=2)
        begin = clock.now_ms
        for number in range(600):
            broker.send("T", b"%d" % number, tags="AB"[number // 2 % 2], queue=number % 2)
            clock.advance(timedelta(milliseconds=500))
        schema = StructType().add("offset", LongType()).add("body", BinaryType())
        options = {"nameServer": broker.namesrv_addr, "subscribe": "T", "pushFilters": "true"}
        # A place of a queue that the filters leave out is still a place of the subscription.
        options |= {"startingOffsets": '{"T":{"0":7}}'}
        reader = FilteringBatchReader(options, schema)
        since = datetime.fromtimestamp(begin / 1000, UTC) + timedelta(seconds=100)
        filters: list[Filter] = [
            GreaterThanOrEqual(("store_timestamp",), since),
            LessThan(("store_timestamp",), since + timedelta(seconds=10)),
            EqualTo(("tags",), "B"),
            EqualTo(("queue_id",), 1),
        ]
        assert reader.pushFilters(filters) == filters
        (part,) = reader.partitions()
        assert isinstance(part, RangePartition)
        (wanted,) = part.wanted
        assert (wanted.queue_id, wanted.start, wanted.until) == (1, 100, 110)
        broker.journal.clear()
        found = [one for batch in reader.read(part) for one in batch.column("offset").to_pylist()]
        assert found == [101, 103, 105, 107, 109]
        pulls = broker.journal.requests(code=RequestCode.PULL_MESSAGE)
        assert {pull.fields["subscription"] for pull in pulls} == {"B"}
        reader.pushFilters([EqualTo(("tags",), "A"), EqualTo(("tags",), "B")])
        assert reader.partitions() == []


def test_asking_again_gives_the_same_and_every_filter_comes_back() -> None:
    options = {"nameServer": "h:1", "subscribe": "T", "pushFilters": "true"}
    reader = FilteringBatchReader(options, StructType([StructField("offset", LongType())]))
    filters = [EqualTo(("tags",), "A"), EqualTo(("queue_id",), 1)]
    for _ in range(2):
        assert all(
            one is other for one, other in zip(reader.pushFilters(filters), filters, strict=True)
        )
        assert reader.options.expression == "A"
    reader.pushFilters([])
    assert reader.options.expression == "*"
    assert reader.narrowing.takes(MessageQueue("T", "b", 0))
