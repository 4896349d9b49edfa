"""Streams in a real Spark: batches, limits, triggers, progress and groups."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

import spark_connector
from embedded_broker import EmbeddedBroker
from rocketmq_py.clock import monotonic
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.planning.stream_offset import StreamOffset
from spark_connector.servers.spark_api import FIRST_LIMITS, VERSION
from tests.spark.queries import (
    Seen,
    fill,
    logged,
    names,
    offset_of,
    read_all,
    running,
    stream,
    until,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress


@pytest.fixture(autouse=True)
def topic(broker: EmbeddedBroker) -> None:
    broker.topics.create("T", queues=2)


@pytest.mark.case("SP43", "SP47", "SP55")
def test_a_run_ends_where_the_topic_ended_and_the_next_one_goes_on_there(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 30)
    later = iter(range(30, 1_000))

    def produce() -> None:
        for _ in range(5):
            fill(broker, number := next(later), number + 1)

    frame = stream(spark, broker, maxOffsetsPerTrigger="12")
    first, query = read_all(frame, tmp_path, Seen(also=produce))
    assert first.bodies == names(0, 30)  # the ends were frozen, whatever came meanwhile
    assert first.sizes == [12, 12, 6]
    sent = next(later)
    ends = []
    for one in query.recentProgress:
        (source,) = one["sources"]
        latest, end = (places(source[name]) for name in ("latestOffset", "endOffset"))
        assert latest.keys() == end.keys() == {("T", "broker-a", 0), ("T", "broker-a", 1)}
        assert spark_connector.lag(one) == {place: latest[place] - end[place] for place in latest}
        ends.append(sum(end.values()))
    assert ends == [12, 24, 30]
    again, _ = read_all(stream(spark, broker, startingOffsets="latest"), tmp_path)
    assert again.bodies == names(30, sent)
    assert again.batches[0][0] == first.batches[-1][0] + 1


def places(offset: str | dict[str, object]) -> dict[tuple[str, str, int], int]:
    """What Spark's progress says of each queue, in whichever form it has it."""
    found = StreamOffset.from_json(json.loads(offset) if isinstance(offset, str) else offset)
    return {(q.topic, q.broker_name, q.queue_id): past for q, past in found.topics.items()}


@pytest.mark.case("SP55")
def test_the_ends_in_a_progress_are_those_of_the_topic_and_the_lag_grows_with_them(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 30)
    growth = iter([(30, 90)])

    def grow() -> None:
        for first, past in growth:  # once: while the sink has the first batch
            fill(broker, first, past)

    def reports() -> list[StreamingQueryProgress]:
        return [one for one in query.recentProgress if one["numInputRows"]]

    frame = stream(spark, broker, maxOffsetsPerTrigger="30")
    with running(frame, tmp_path, Seen(also=grow)) as query:
        until(broker, query, lambda: sum(one["numInputRows"] for one in reports()) == 90)
        last = spark_connector.lag(query)
    found = [
        [set(places(one["sources"][0][name]).values()) for name in ("latestOffset", "endOffset")]
        for one in reports()
    ]
    # Both queues have the same: 15 of 15 are read, 30 of 45, and 45 of 45.
    assert found == [[{15}, {15}], [{45}, {30}], [{45}, {45}]]
    behind = [spark_connector.lag(one) for one in reports()]
    queues = [("T", "broker-a", 0), ("T", "broker-a", 1)]
    assert behind == [dict.fromkeys(queues, each) for each in (0, 15, 0)]
    assert [one.total for one in behind] == [0, 30, 0]
    assert last.metrics["maxOffsetsBehindLatest"] == 0


@pytest.mark.case("SP45")
def test_a_limit_is_shared_in_proportion_and_small_queues_go_on(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    for number in range(260):
        broker.send("T", b"m%d" % number, queue=0 if number < 240 else 1)
    frame = stream(spark, broker, maxOffsetsPerTrigger="100")
    seen, _ = read_all(frame, tmp_path)
    assert seen.bodies == names(0, 260)
    assert seen.sizes == [100, 100, 60]
    shares = [Counter(row.queue_id for row in rows) for _, rows in seen.batches]
    assert all(90 <= share[0] <= 94 for share in shares[:2])
    assert all(6 <= share[1] <= 10 for share in shares[:2])


@pytest.mark.case("SP48")
def test_once_reads_everything_in_one_batch_whatever_the_limit(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 30)
    seen, _ = read_all(stream(spark, broker, maxOffsetsPerTrigger="5"), tmp_path, once=True)
    assert seen.sizes == [30]
    assert seen.bodies == names(0, 30)


@pytest.mark.slow
@pytest.mark.case("SP43", "SP46")
def test_few_messages_wait_for_more_but_not_for_ever(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    def asked() -> int:
        return len(broker.journal.requests(code=RequestCode.GET_TOPIC_STATS_INFO))

    seen = Seen()
    patient = stream(spark, broker, minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    with running(patient, tmp_path, seen) as query:
        until(broker, query, lambda: logged(tmp_path, "commits") == [0])
        fill(broker, 0, 3)
        looks = asked()
        until(broker, query, lambda: asked() > looks + 2)
        assert logged(tmp_path) == [0]  # seen, and left for later
        fill(broker, 3, 10)
        until(broker, query, lambda: logged(tmp_path, "commits") == [0, 1])
        assert seen.sizes == [10]
    assert seen.bodies == names(0, 10)
    seen = Seen()
    hasty = stream(spark, broker, minOffsetsPerTrigger="10", maxTriggerDelay="3s")
    fill(broker, 10, 13)
    looks, began = asked(), monotonic()
    with running(hasty, tmp_path, seen) as query:
        until(broker, query, lambda: len(seen.rows) == 3)
        assert monotonic() - began >= 3  # it has waited,
        assert asked() > looks + 4  # and looked again and again while it did
        # Enough of them wait for nothing, though the delay begins anew.
        began = monotonic()
        fill(broker, 13, 23)
        until(broker, query, lambda: len(seen.rows) == 13)
        # Too few wait for the whole delay after that batch, and no longer.
        fill(broker, 23, 26)
        until(broker, query, lambda: len(seen.rows) == 16)
        assert monotonic() - began >= 3
    assert [(number, len(rows)) for number, rows in seen.batches] == [(2, 3), (3, 10), (4, 3)]
    assert seen.bodies == names(10, 26)


@pytest.mark.case("SP49")
def test_an_idle_stream_makes_no_batches_and_asks_little(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    defaults = {"offsetPollIntervalMs": "100", "routeRefreshMs": "30000"}
    writer = stream(spark, broker, **defaults).writeStream.foreachBatch(Seen())
    # No trigger: Spark asks up to a hundred times a second.
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        until(broker, query, lambda: logged(tmp_path, "commits") == [0])
        broker.journal.clear()
        assert not query.awaitTermination(5)
    finally:
        query.stop()
    asked = broker.journal.requests()
    assert 3 <= len(asked) <= 55
    looks = [entry for entry in asked if entry.code == RequestCode.GET_TOPIC_STATS_INFO]
    assert len(asked) - len(looks) <= 1  # the route, once
    assert logged(tmp_path) == [0]


@pytest.mark.case("SP54")
def test_a_group_shows_how_far_the_stream_is(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    def told() -> int:
        return sum(place.committed or 0 for place in broker.groups["G"].offsets(topic="T"))

    fill(broker, 0, 12)
    frame = stream(spark, broker, groupId="G", maxOffsetsPerTrigger="6")
    while_written: list[int] = []
    seen = Seen(also=lambda: while_written.append(told()))
    with running(frame, tmp_path / "told", seen) as query:
        until(broker, query, lambda: logged(tmp_path / "told", "commits") == [0, 1])
    assert 6 <= told() <= 12
    assert all(0 <= of <= done for of, done in zip(while_written, (0, 6), strict=True))
    with broker.faults.on(RequestCode.UPDATE_CONSUMER_OFFSET).always() as refused:
        refused.respond(ResponseCode.NO_PERMISSION)
        other = stream(spark, broker, groupId="H", maxOffsetsPerTrigger="6")
        seen, _ = read_all(other, tmp_path / "refused")
    assert refused.hits
    assert seen.bodies == names(0, 12)


@pytest.mark.slow
@pytest.mark.case("SP54")
def test_runs_of_one_batch_tell_the_group_what_the_run_before_has_done(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    frame = stream(spark, broker, groupId="G")
    for run in range(3):
        fill(broker, 6 * run, 6 * run + 6)
        seen, _ = read_all(frame, tmp_path, once=True)
        assert seen.sizes == [6]
        if run:  # Spark asks once in a run: what this run reads is told by the next one
            stored = broker.groups["G"].offsets(topic="T")
            assert sum(place.committed or 0 for place in stored) == 6 * run


@pytest.mark.case("SP56")
def test_two_queries_of_one_group_each_see_all_rows(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 10)
    one, two = Seen(), Seen()
    frame = stream(spark, broker, groupId="G", maxOffsetsPerTrigger="6")
    with (
        running(frame, tmp_path / "one", one) as first,
        running(frame, tmp_path / "two", two) as second,
    ):
        until(broker, first, lambda: one.rows)
        until(broker, second, lambda: two.rows)
        fill(broker, 10, 20)
        until(broker, first, lambda: len(one.rows) >= 20)
        until(broker, second, lambda: len(two.rows) >= 20)
    assert one.bodies == two.bodies == names(0, 20)


@pytest.mark.case("SP44")
def test_a_batch_that_was_planned_and_not_done_is_read_again_as_it_was(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 4)

    def fail(_batch: DataFrame, _number: int) -> None:
        raise RuntimeError("the sink is down")

    broken = stream(spark, broker).writeStream.foreachBatch(fail)
    query = broken.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match="the sink is down"):
        query.awaitTermination(120)
    fill(broker, 4, 10)
    # The restart's first position would be elsewhere; the logged batch decides.
    batches = read_all(stream(spark, broker, startingOffsets="latest"), tmp_path)[0].batches
    if VERSION < FIRST_LIMITS:  # a run has one batch
        batches += read_all(stream(spark, broker, startingOffsets="latest"), tmp_path)[0].batches
    assert [(number, sorted(row.body for row in rows)) for number, rows in batches] == [
        (0, names(0, 4)),
        (1, names(4, 10)),
    ]
    # What Spark kept is one closed range after the other.
    ends = [offset_of(tmp_path, batch)["topics"]["T"]["broker-a"] for batch in (0, 1)]
    assert ends[0].keys() == ends[1].keys() == {"0", "1"}
    assert all(int(ends[0][queue]) <= int(ends[1][queue]) for queue in ends[0])
    assert ends[0] != ends[1]
