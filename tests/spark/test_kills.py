"""Python workers and drivers that are killed in the middle of their work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import TaskContext
from pyspark.sql import functions

from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.codes import RequestCode
from tests.spark.cluster import Driver
from tests.spark.processes import kill, workers_asking
from tests.spark.queries import Seen, fill, logged, names, running, stream, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PULL = RequestCode.PULL_MESSAGE
SEND = RequestCode.SEND_BATCH_MESSAGE
WAIT_S = 60


def ids_of(broker: EmbeddedBroker, topic: str) -> Iterator[tuple[str, str]]:
    """The body and id of every message of a topic."""
    for message in broker.messages.in_topic(topic):
        yield message.body.decode(), message.properties["DEDUPE_ID"]


def attempt(_number: int) -> int:
    context = TaskContext.get()
    return -1 if context is None else context.attemptNumber()


@pytest.mark.slow
@pytest.mark.case("SP40")
def test_a_write_whose_worker_is_killed_twice_succeeds_with_repeated_ids(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=2)
    frame = spark.range(0, 5_000, 1, 1).select(
        functions.expr("CAST(id AS STRING) AS body"),
        functions.expr("CONCAT('id-', id) AS dedupe_key"),
        functions.udf(attempt, "int")("id").alias("attempt"),
    )
    held = broker.faults.on(SEND, nth=3).drop_response().always()
    killed: set[int] = set()

    def kill_two() -> None:
        for _ in range(2):
            broker.wait_for(
                lambda _b: held.hits and workers_asking(broker, SEND) - killed, timeout=WAIT_S
            )
            (worker,) = workers_asking(broker, SEND) - killed
            kill(worker)
            killed.add(worker)
        held.end()

    writer = frame.write.format("rocketmq").mode("append")
    writer.options(nameServer=broker.namesrv_addr, topic="T", batchBytes="16384")
    writer.option("extraColumns", "properties")
    with ThreadPoolExecutor(1) as thread:
        killing = thread.submit(kill_two)
        writer.options(sendTimeoutMs="20000").save()
        killing.result(WAIT_S)
    found = Counter(ids_of(broker, "T"))
    assert set(found) == {(str(number), f"id-{number}") for number in range(5_000)}
    assert set(found.values()) <= {1, 2, 3}
    assert max(found.values()) > 1
    tries: dict[str, list[str]] = {}
    for message in broker.messages.in_topic("T"):
        tries.setdefault(message.properties["attempt"], []).append(message.properties["DEDUPE_ID"])
    assert tries.keys() == {"0", "1", "2"}
    assert len(tries["2"]) == len(set(tries["2"])) == 5_000  # the one that succeeded sent all


@pytest.mark.case("SP40")
def test_a_read_whose_workers_are_killed_gives_every_row_once(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=2)
    for number in range(1_000):
        broker.send("T", b"%d" % number, queue=number % 2)
    held = broker.faults.on(PULL, nth=8).drop().always()

    def kill_all() -> None:
        broker.wait_for(lambda _b: held.hits, timeout=WAIT_S)
        for worker in workers_asking(broker, PULL):
            kill(worker)
        held.end()

    reader = spark.read.format("rocketmq").options(nameServer=broker.namesrv_addr, subscribe="T")
    with ThreadPoolExecutor(1) as thread:
        killing = thread.submit(kill_all)
        # Two tasks; with their number fixed the planner pulls nothing.
        given = {"minPartitions": "2", "maxPartitions": "2", "pullTimeoutMs": "500"}
        rows = reader.options(**given).load().select("body").collect()
        killing.result(WAIT_S)
    assert held.hits
    assert sorted(int(row.body) for row in rows) == list(range(1_000))


@pytest.mark.case("SP40")
def test_a_stream_whose_workers_are_killed_reads_the_same_batch_again(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=2)
    fill(broker, 0, 1_000)
    held = broker.faults.on(PULL, nth=8).drop().always()
    by_two = {"minPartitions": "2", "maxPartitions": "2", "pullTimeoutMs": "500"}
    seen = Seen()
    with running(stream(spark, broker, **by_two), tmp_path, seen) as query:
        until(broker, query, lambda: held.hits)
        victims = workers_asking(broker, PULL)
        fill(broker, 1_000, 1_100)  # news are for the next batch
        for worker in victims:
            kill(worker)
        held.end()
        until(broker, query, lambda: len(seen.rows) >= 1_100)
        until(broker, query, lambda: logged(tmp_path, "commits") == [0, 1])
    assert victims
    assert not victims & workers_asking(broker, PULL)
    assert seen.bodies == names(0, 1_100)
    assert seen.sizes == [1_000, 100]


@pytest.mark.case("SP40")
def test_a_sink_of_a_stream_whose_worker_is_killed_repeats_rows_with_their_ids(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    for topic in ("T", "Copies"):
        broker.topics.create(topic, queues=2)
    fill(broker, 0, 2_000)
    held = broker.faults.on(SEND, topic="Copies", nth=3).drop_response().always()
    writer = stream(spark, broker).select("body").writeStream.format("rocketmq")
    writer = writer.options(nameServer=broker.namesrv_addr, topic="Copies", batchBytes="16384")
    writer = writer.options(sendTimeoutMs="20000", checkpointLocation=str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    try:
        until(broker, query, lambda: held.hits)
        (victim,) = workers_asking(broker, SEND)
        before = Counter(ids_of(broker, "Copies"))
        kill(victim)
        held.end()
        assert query.awaitTermination(WAIT_S)
    finally:
        query.stop()
    assert logged(tmp_path, "commits") == [0]
    assert before
    found = Counter(ids_of(broker, "Copies"))
    assert {body for body, _ in found} == set(names(0, 2_000))
    assert len(found) == 2_000  # a row that came again came with the id that it had
    assert {one for one, times in found.items() if times > 1} >= before.keys()


@pytest.mark.slow
@pytest.mark.case("SP40")
def test_a_write_that_is_begun_anew_after_spark_was_killed_repeats_rows_with_their_ids(
    tmp_path: Path,
) -> None:
    settings = {"spark.master": "local[2]"}
    with EmbeddedBroker(topics=["T"]) as broker:
        rows: dict[str, Any] = {"address": broker.namesrv_addr, "topic": "T", "count": 5_000}
        held = broker.faults.on(SEND, nth=3).drop_response().always()
        first = Driver(tmp_path, settings)
        try:
            first.run("register")
            slow = {"batchBytes": "16384", "sendTimeoutMs": "20000"}
            job = first.begin("write", **rows, **slow)
            broker.wait_for(lambda _b: held.hits or job.done(), timeout=WAIT_S)
            assert not job.done()
        finally:
            first.kill()
        held.end()
        before = Counter(ids_of(broker, "T"))
        assert 0 < len(before) < 5_000
        with Driver(tmp_path, settings) as second:
            second.run("register")
            second.run("write", **rows)
        found = Counter(ids_of(broker, "T"))
    assert found.keys() == {(str(number), str(number)) for number in range(5_000)}
    # What the job that failed has sent stays, and all is sent anew.
    assert {one for one, times in found.items() if times > 1} >= before.keys()


@pytest.mark.slow
@pytest.mark.case("SP59")
def test_a_batch_whose_driver_is_killed_before_sparks_log_is_repeated_or_left_out(
    tmp_path: Path,
) -> None:
    with EmbeddedBroker() as broker:
        for topic in ("T", "Guarded", "Plain"):
            broker.topics.create(topic, queues=2)
        for number in range(100):
            broker.send("T", b"%d" % number, queue=number % 2)
        targets: dict[str, dict[str, str]] = {"Guarded": {"replayGuard": "Guard"}, "Plain": {}}
        settings = {"spark.master": "local[2]"}
        place: dict[str, Any] = {"address": broker.namesrv_addr, "source": "T"}
        first = Driver(tmp_path, settings)
        try:
            first.run("copy_and_halt", targets=targets, folder=str(tmp_path), **place)
            both_are_committed = [tmp_path / target for target in targets]
            broker.wait_for(
                lambda _b: all(one.exists() for one in both_are_committed), timeout=WAIT_S
            )
        finally:
            first.kill()
        assert [len(broker.messages.in_topic(target)) for target in targets] == [100, 100]
        for target in targets:
            assert not (tmp_path / f"checkpoint-{target}" / "commits" / "0").exists()
        with Driver(tmp_path, settings) as second:
            second.run("register")
            for target, sink in targets.items():
                checkpoint = str(tmp_path / f"checkpoint-{target}")
                second.run("copy_stream", target=target, checkpoint=checkpoint, **place, **sink)
        assert len(broker.messages.in_topic("Guarded")) == 100
        copies = Counter(
            (one.properties["DEDUPE_ID"], one.body) for one in broker.messages.in_topic("Plain")
        )
        assert set(copies.values()) == {2}
        assert {int(body) for _, body in copies} == set(range(100))
