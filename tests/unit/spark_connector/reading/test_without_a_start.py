"""A stream on Spark 4.0 and 4.1, which plans a micro-batch without telling where it begins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec
from spark_connector.errors import RocketMQDataLossError
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
        self.done: dict[str, Any] | None = None
        self._planned: dict[str, Any] | None = None
        self.restart()

    def restart(self, **options: str) -> None:
        """Start the query again: Spark first asks for the tasks of nothing at its last offset."""
        self._options |= options
        self._reader = StreamReader(self._options, OFFSET)
        if self._planned is not None:
            assert not self._reader.partitions(self._planned, self._planned)

    def plan(self) -> dict[str, Any]:
        """Where the next batch ends; what is news stands in the checkpoint before it is run."""
        end = self._kept(self._reader.latestOffset())
        if end != self.done:
            self._planned = end
        return end

    def run(self, end: dict[str, Any]) -> list[tuple[str, int, int, int]]:
        """Run a batch; returns the ranges that it reads."""
        begin = self._kept(self._reader.initialOffset()) if self.done is None else self.done
        tasks = self._reader.partitions(begin, end)
        self.done = end
        return sorted(
            (one.broker_name, one.queue_id, one.start, one.until)
            for task in tasks
            for one in cast("Any", task).wanted
        )

    def batch(self) -> list[tuple[str, int, int, int]]:
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
    assert query.batch() == [("broker-a", 0, 0, 3)]
    assert query.plan() == query.done
    send(broker, 1, 2)
    assert query.batch() == [("broker-a", 1, 0, 2)]
    send(broker, 0)
    query.restart()
    assert query.batch() == [("broker-a", 0, 3, 4)]


def test_a_query_that_begins_at_the_latest_reads_what_comes_after_it_was_planned(
    broker: EmbeddedBroker,
) -> None:
    send(broker, 0, 3)
    query = Query(broker, startingOffsets="latest")
    end = query.plan()
    send(broker, 0)
    assert query.run(end) == []
    assert query.batch() == [("broker-a", 0, 3, 4)]


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
    assert query.run(end) == [("broker-a", 0, 3, 5)]
    assert query.batch() == [("broker-a", 0, 5, 7)]


def test_queues_that_were_made_while_the_query_was_down_are_read_whole(
    broker: EmbeddedBroker,
) -> None:
    query = Query(broker, startingOffsets="latest")
    query.batch()
    broker.topics.create("T", queues=3)
    send(broker, 0)
    send(broker, 2, 2)
    query.restart()
    assert query.batch() == [("broker-a", 0, 0, 1), ("broker-a", 2, 0, 2)]
    send(broker, 2)
    assert query.batch() == [("broker-a", 2, 2, 3)]


def test_a_restart_without_a_broker_names_its_queues_and_reads_them_on_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with EmbeddedCluster(brokers=2, topics=[TopicSpec("T", queues=1)]) as cluster:
        one, two = cluster.brokers
        send(one, 0)
        send(two, 0)
        query = Query(one, startingOffsets="earliest")
        assert query.batch() == [("broker-a", 0, 0, 1), ("broker-b", 0, 0, 1)]
        send(two, 0)
        cluster.stop("broker-b")
        for begin in (1, 2):
            send(one, 0)
            query.restart()
            assert query.batch() == [("broker-a", 0, begin, begin + 1)]
        told = "queues are away: topic T, broker broker-b, queue 0; the stream goes on without"
        assert caplog.text.count(told) == 2
        query.restart(missingQueueGraceMs="1")
        with pytest.raises(RocketMQDataLossError, match="topic T, broker broker-b, queue 0"):
            until(lambda: query.plan() != query.done, GUARD_S)
        cluster.start("broker-b")
        query.restart()
        assert query.batch() == [("broker-b", 0, 1, 2)]
