"""Where streams begin, also when Spark forgets it: first positions, replays, checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions

import spark_connector
from embedded_broker import EmbeddedBroker, TopicSpec, VirtualClock
from embedded_broker.remoting.request_faults import Fault
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.servers.spark_api import FIRST_LIMITS, VERSION
from tests.spark.queries import (
    Seen,
    fill,
    forget,
    logged,
    names,
    offset_of,
    read_all,
    rewrite_offset,
    running,
    stream,
    until,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def session_clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def broker(session_clock: VirtualClock) -> Iterator[EmbeddedBroker]:
    """A broker whose late answers leave when the test says so."""
    topics = [TopicSpec("T", queues=2)]
    with EmbeddedBroker(
        clock=VirtualClock(), session_clock=session_clock, topics=topics
    ) as started:
        yield started


def hold_second_look(broker: EmbeddedBroker) -> Fault:
    """Let the second look at the ends wait: what arrives meanwhile is between the two."""
    return broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO, nth=2).delay(1)


PATIENT = {"rocketmq.mqClientApiTimeout": "60000", "offsetPollIntervalMs": "1"}


def start_of(checkpoint: Path) -> dict[str, int]:
    return dict(offset_of(checkpoint, 0)["from"]["T"]["broker-a"])


@pytest.mark.case("SP41")
def test_nothing_is_missing_after_the_first_position_while_a_producer_runs(
    spark: SparkSession, broker: EmbeddedBroker, session_clock: VirtualClock, tmp_path: Path
) -> None:
    fill(broker, 0, 10)
    ended = Event()

    def produce() -> None:
        number = 10
        while not ended.wait(0.005):
            fill(broker, number, number + 1)
            number += 1

    held = hold_second_look(broker)
    seen = Seen()
    producer = Thread(target=produce)
    producer.start()
    try:
        latest = stream(spark, broker, startingOffsets="latest", **PATIENT)
        with running(latest, tmp_path, seen) as query:
            until(broker, query, lambda: held.hits)
            at_least = broker.topics["T"].count()
            until(broker, query, lambda: broker.topics["T"].count() > at_least + 20)
            session_clock.advance(1)
            until(broker, query, lambda: len(seen.batches) >= 3)
            ended.set()
            producer.join()
            ends = [broker.topics["T"].max_offset(queue) for queue in (0, 1)]
            until(
                broker,
                query,
                lambda: {p[2]: p[3] + 1 for p in seen.places} == dict(enumerate(ends)),
            )
    finally:
        ended.set()
        producer.join()
    begin = start_of(tmp_path)
    assert at_least >= sum(begin.values()) >= 10
    assert [place[2:] for place in seen.places] == [
        (queue, offset) for queue in (0, 1) for offset in range(begin[str(queue)], ends[queue])
    ]


def failing_while(path: Path) -> Callable[[bytes], bytes]:
    flag = str(path)

    def check(body: bytes) -> bytes:
        if Path(flag).exists():
            raise RuntimeError("the task was told to fail")
        return body

    return check


@pytest.mark.case("SP42")
@pytest.mark.parametrize(
    ("start", "late", "nth"),
    [
        pytest.param("latest", RequestCode.GET_TOPIC_STATS_INFO, 2, marks=pytest.mark.slow),
        # The group has no offset, so it begins at the end. It is asked after the first look.
        ("group:latest", RequestCode.QUERY_CONSUMER_OFFSET, 1),
    ],
)
def test_a_first_batch_whose_tasks_fail_is_read_again_whole_and_once(
    spark: SparkSession,
    broker: EmbeddedBroker,
    session_clock: VirtualClock,
    tmp_path: Path,
    start: str,
    late: RequestCode,
    nth: int,
) -> None:
    first, checkpoint = 4, tmp_path / "checkpoint"
    fill(broker, 0, first)
    flag = tmp_path / "fail"
    flag.touch()
    check = functions.udf(failing_while(flag), "binary")
    while True:
        # What follows the first look at the ends is late: what arrives meanwhile is behind the
        # first position, and in the first batch.
        held = broker.faults.on(late, nth=nth).delay(1)
        latest = stream(spark, broker, startingOffsets=start, groupId=f"G{first}", **PATIENT)
        frame = latest.withColumn("body", check("body"))
        with running(frame, checkpoint, Seen()) as query:
            until(broker, query, lambda held=held: held.hits)  # type: ignore[misc] # bound now
            fill(broker, first, first + 10)
            session_clock.advance(1)
            with pytest.raises(PySparkException, match="the task was told to fail"):
                query.awaitTermination(60)
        if not logged(checkpoint, "commits"):
            break
        # A planner waits a second for a broker: on a busy machine an empty batch may go before.
        first, checkpoint = first + 10, tmp_path / f"checkpoint {first}"
        assert first < 54
    assert logged(checkpoint) == [0]
    # And it may have looked once more while they were sent.
    planned = sum(offset_of(checkpoint, 0)["topics"]["T"]["broker-a"].values()) - first
    assert 1 <= planned <= 10
    fill(broker, first + 10, first + 1_010)
    flag.unlink()
    seen, _ = read_all(frame, checkpoint)
    if VERSION < FIRST_LIMITS:  # a run has one batch
        seen, _ = read_all(frame, checkpoint, seen)
    assert seen.bodies == names(first, first + 1_010)
    assert seen.sizes == [planned, 1_010 - planned]
    assert start_of(checkpoint) == {"0": first // 2, "1": first // 2}


@pytest.mark.slow
@pytest.mark.case("SP73")
def test_an_idle_first_batch_keeps_the_place_where_it_began(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 6)
    latest = stream(spark, broker, startingOffsets="latest")
    with running(latest, tmp_path, Seen()) as query:
        until(broker, query, lambda: logged(tmp_path, "commits") == [0])
    forget(tmp_path, "commits", 0)
    fill(broker, 6, 11)
    # Spark asks for the first position again: "latest" has moved on, the batch has not.
    seen, _ = read_all(latest, tmp_path)
    assert seen.bodies == names(6, 11)
    assert start_of(tmp_path) == {"0": 3, "1": 3}


@pytest.mark.slow
@pytest.mark.case("SP74")
def test_the_end_of_a_run_that_ends_is_also_where_latest_begins(
    spark: SparkSession, broker: EmbeddedBroker, session_clock: VirtualClock, tmp_path: Path
) -> None:
    fill(broker, 0, 6)
    held = hold_second_look(broker)
    latest = stream(spark, broker, startingOffsets="latest", **PATIENT)
    seen = Seen()
    writer = latest.writeStream.foreachBatch(seen).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    until(broker, query, lambda: held.hits)
    fill(broker, 6, 11)
    session_clock.advance(1)
    assert query.awaitTermination(60)
    assert seen.rows == []
    again, _ = read_all(latest, tmp_path)
    assert again.bodies == names(6, 11)


@pytest.mark.slow
@pytest.mark.case("SP74")
def test_a_topic_made_anew_is_read_from_its_beginning_once(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 10)
    read_all(stream(spark, broker), tmp_path)
    broker.reset()
    fill(broker, 10, 14)
    with pytest.raises(PySparkException, match="the stream stands at 5, available are 0 to 2"):
        read_all(stream(spark, broker), tmp_path)
    tolerant = stream(spark, broker, failOnDataLoss="false")
    seen, _ = read_all(tolerant, tmp_path)
    assert seen.bodies == names(10, 14)
    fill(broker, 14, 16)
    again, _ = read_all(tolerant, tmp_path)
    assert again.bodies == names(14, 16)


@pytest.mark.slow
@pytest.mark.case("SP61")
def test_checkpoints_of_another_version_are_refused_and_key_order_means_nothing(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 0, 4)
    frame = stream(spark, broker)
    read_all(frame, tmp_path)
    end = offset_of(tmp_path, 0)
    topics = {"T": {"broker-a": {"1": 2, "0": 2}}}
    assert end["topics"] == topics
    rewrite_offset(tmp_path, 0, json.dumps({"v": 1, "topics": topics, "from": end["from"]}))
    idle, _ = read_all(frame, tmp_path)
    assert (idle.rows, logged(tmp_path)) == ([], [0])
    fill(broker, 4, 6)
    seen, _ = read_all(frame, tmp_path)
    assert seen.bodies == names(4, 6)
    rewrite_offset(tmp_path, 1, json.dumps(end | {"v": 3}))
    with pytest.raises(PySparkException, match="offsets of version 3, this connector"):
        read_all(frame, tmp_path)


EACH = 550
"""Queues of each of two topics: the offsets of more than a thousand are packed."""


@pytest.mark.slow
@pytest.mark.case("SP61")
def test_a_checkpoint_of_many_queues_is_packed_and_one_in_words_goes_on(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    for topic in ("T", "U"):
        broker.topics.create(topic, queues=EACH)
        fill(broker, 0, EACH, topic, queues=EACH)
    frame = stream(spark, broker, subscribe="T,U")
    seen, query = read_all(frame, tmp_path)
    assert seen.bodies == sorted(2 * names(0, EACH))
    assert spark_connector.lag(query).total == 0
    kept = offset_of(tmp_path, 0)
    assert kept["v"] == 2
    ends = {topic: {"broker-a": {str(queue): 1 for queue in range(EACH)}} for topic in ("T", "U")}
    in_words = {"v": 1, "topics": ends, "from": {}}
    assert len(json.dumps(kept)) < len(json.dumps(in_words)) / 2
    fill(broker, EACH, EACH + 7, queues=EACH)
    packed, _ = read_all(frame, tmp_path)
    assert packed.bodies == names(EACH, EACH + 7)
    # As a version wrote it that packed nothing.
    ends["T"]["broker-a"] |= {str(queue): 2 for queue in range(7)}
    rewrite_offset(tmp_path, 1, json.dumps(in_words))
    idle, _ = read_all(frame, tmp_path)
    assert (idle.rows, logged(tmp_path)) == ([], [0, 1])
    fill(broker, EACH + 7, EACH + 9, queues=EACH)
    again, _ = read_all(frame, tmp_path)
    assert again.bodies == names(EACH + 7, EACH + 9)
