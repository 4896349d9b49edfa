"""A stream on Spark 4.0 and 4.1, which does not tell where a micro-batch begins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from embedded_broker import EmbeddedBroker
from spark_connector.reading.stream_reader import StreamReader
from tests.waiting import until

GUARD_S = 20
OFFSET = StructType([StructField("offset", LongType())])


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"T": 2}) as broker:
        yield broker


class Query:
    """A query: Spark's calls in the order of 4.0, with texts as a checkpoint has them."""

    def __init__(self, broker: EmbeddedBroker, **options: str) -> None:
        given = {"nameServer": broker.namesrv_addr, "subscribe": "T", "offsetPollIntervalMs": "1"}
        self._options = given | options
        self.restart()
        self.done: dict[str, Any] | None = None

    def restart(self) -> None:
        self._reader = StreamReader(self._options, OFFSET)

    def plan(self) -> dict[str, Any]:
        """Where the next batch ends."""
        return self._kept(self._reader.latestOffset())

    def run(self, end: dict[str, Any]) -> list[tuple[int, int, int]]:
        """Run a batch; returns the ranges that it reads."""
        begin = self._kept(self._reader.initialOffset()) if self.done is None else self.done
        tasks = self._reader.partitions(begin, end)
        self.done = end
        return sorted(
            (one.queue_id, one.start, one.until)
            for task in tasks
            for one in cast("Any", task).wanted
        )

    def batch(self) -> list[tuple[int, int, int]]:
        """Run a batch as soon as there is news."""
        return self.run(self.news())

    def news(self) -> dict[str, Any]:
        """Where the next batch ends, as soon as there is one; brokers are asked now and then."""
        until(lambda: self.plan() != self.done, GUARD_S)
        return self.plan()

    @staticmethod
    def _kept(offset: Any) -> dict[str, Any]:
        return cast("dict[str, Any]", json.loads(json.dumps(offset)))


def send(broker: EmbeddedBroker, queue_id: int, count: int = 1) -> None:
    for _ in range(count):
        broker.send("T", b"x", queue=queue_id)


def test_batches_follow_each_other_and_a_restart_goes_on(broker: EmbeddedBroker) -> None:
    send(broker, 0, 3)
    query = Query(broker, startingOffsets="earliest")
    assert query.batch() == [(0, 0, 3)]
    assert query.plan() == query.done
    send(broker, 1, 2)
    assert query.batch() == [(1, 0, 2)]
    send(broker, 0)
    query.restart()
    assert query.batch() == [(0, 3, 4)]


def test_a_query_that_begins_at_the_latest_reads_what_comes_after_it_was_planned(
    broker: EmbeddedBroker,
) -> None:
    send(broker, 0, 3)
    query = Query(broker, startingOffsets="latest")
    end = query.plan()
    send(broker, 0)
    assert query.run(end) == []
    assert query.batch() == [(0, 3, 4)]


def test_a_first_batch_that_was_not_finished_reads_the_same_after_a_restart(
    broker: EmbeddedBroker,
) -> None:
    send(broker, 0, 3)
    query = Query(broker, startingOffsets="latest")
    query.batch()
    send(broker, 0, 2)
    end = query.news()
    query.restart()
    send(broker, 0, 2)
    assert query.run(end) == [(0, 3, 5)]
    assert query.batch() == [(0, 5, 7)]


def test_queues_that_were_made_while_the_query_was_down_are_read_whole(
    broker: EmbeddedBroker,
) -> None:
    query = Query(broker, startingOffsets="latest")
    query.batch()
    broker.topics.create("T", queues=3)
    send(broker, 0)
    send(broker, 2, 2)
    query.restart()
    assert query.batch() == [(0, 0, 1), (2, 0, 2)]
    send(broker, 2)
    assert query.batch() == [(2, 2, 3)]
