"""Filters of a query leave out only what cannot be wanted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (extra spark)")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra spark)")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import BinaryType, LongType, StructType

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import MessageQueue
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.access import close_all
from spark_connector.batch_reader import FilteringBatchReader, RangePartition
from spark_connector.pushed_filters import Wanted

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_900, UTC)
MS = 1_767_323_045_678


@pytest.fixture(autouse=True)
def _no_connection_is_left_open() -> Iterator[None]:
    yield
    close_all()


def wanted(*filters: Filter) -> Wanted:
    found = Wanted()
    found.take(filters)
    return found


@pytest.mark.case("SP17")
def test_queues_offsets_and_times_are_narrowed_by_all_filters_together() -> None:
    found = wanted(
        In(("topic",), ["T", "U"]),
        EqualTo(("topic",), "T"),
        EqualTo(("partition",), 3),
        GreaterThan(("offset",), 10),
        LessThan(("queueOffset",), 20),
        GreaterThanOrEqual(("store_timestamp",), MOMENT),
        LessThanOrEqual(("timestamp",), MS + 1_000),
        IsNotNull(("body",)),
        EqualTo(("nothing of ours",), 1),
        EqualTo(("properties", "a"), "1"),
    )
    assert found.has_queue(MessageQueue("T", "b", 3))
    assert not found.has_queue(MessageQueue("U", "b", 3))
    assert not found.has_queue(MessageQueue("T", "b", 2))
    assert (found.low, found.past) == (10, 21)
    assert (found.since_ms, found.before_ms) == (MS, MS + 1_001)
    assert wanted(EqualTo(("offset",), 7)) == Wanted(low=7, past=8)
    assert wanted(EqualTo(("store_timestamp",), MOMENT.replace(tzinfo=None))) == Wanted()


@pytest.mark.case("SP17")
@pytest.mark.parametrize(
    ("filters", "expression"),
    [
        ([EqualTo(("tags",), "A")], "A"),
        ([In(("tags",), ["B", "A", None]), IsNotNull(("tags",))], "A || B"),
        ([In(("tags",), ["B", "A"]), EqualTo(("tags",), "B")], "B"),
        ([EqualTo(("tags",), "A|B")], None),
        ([EqualTo(("tags",), " A")], None),
        ([EqualTo(("tags",), "")], None),
        ([EqualTo(("keys",), "A")], None),
    ],
)
def test_tags_become_the_filter_of_the_broker(filters: list[Any], expression: str | None) -> None:
    assert wanted(*filters).expression == expression


@pytest.mark.case("SP17")
def test_a_reader_pulls_only_what_the_filters_leave_over() -> None:
    clock = VirtualClock()
    with EmbeddedBroker(clock=clock) as broker:
        broker.topics.create("T", queues=1)
        begin = clock.now_ms
        for number in range(300):
            broker.send("T", b"%d" % number, tags="AB"[number % 2])
            clock.advance(timedelta(seconds=1))
        schema = StructType().add("offset", LongType()).add("body", BinaryType())
        options = {"nameServer": broker.namesrv_addr, "subscribe": "T", "pushFilters": "true"}
        reader = FilteringBatchReader(options, schema)
        since = datetime.fromtimestamp(begin / 1000, UTC) + timedelta(seconds=100)
        filters: list[Filter] = [
            GreaterThanOrEqual(("store_timestamp",), since),
            LessThan(("store_timestamp",), since + timedelta(seconds=10)),
            EqualTo(("tags",), "B"),
        ]
        assert reader.pushFilters(filters) == filters
        (part,) = reader.partitions()
        assert isinstance(part, RangePartition)
        # One more than needed at the end: which of both a bound means is left to Spark.
        assert (part.wanted.start, part.wanted.until) == (100, 111)
        broker.journal.clear()
        found = [one for batch in reader.read(part) for one in batch.column("offset").to_pylist()]
        assert found == [101, 103, 105, 107, 109]
        pulls = broker.journal.requests(code=RequestCode.PULL_MESSAGE)
        assert {pull.fields["subscription"] for pull in pulls} == {"B"}
