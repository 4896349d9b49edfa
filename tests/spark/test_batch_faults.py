"""Batch reads and writes while messages grow old and brokers restart."""

from __future__ import annotations

import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions

from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec, VirtualClock
from rocketmq_py.protocol.codes import RequestCode
from tests.spark.queries import WORKER_LOGS, fill, logged, names, stream, worker_logs

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

WAIT_S = 60
ROWS = 50_000
MESSAGES = 2_000


@pytest.mark.case("SP18")
@pytest.mark.parametrize("fail_on_loss", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_messages_that_grow_too_old_while_they_are_read(
    spark: SparkSession, fail_on_loss: str
) -> None:
    clock, session_clock = VirtualClock(), VirtualClock()
    every_hour = ";".join(f"{hour:02}" for hour in range(24))
    small = {"mappedFileSizeCommitLog": 4096, "deleteWhen": every_hour}
    topics = [TopicSpec("T", queues=1)]
    with (
        EmbeddedBroker(
            clock=clock, session_clock=session_clock, config=small, topics=topics
        ) as broker,
        ThreadPoolExecutor(1) as other,
    ):
        fill(broker, 0, 60, queues=1)
        clock.advance(days=4)
        fill(broker, 60, 80, queues=1)
        held = broker.faults.on(RequestCode.PULL_MESSAGE).delay(1)
        frame = spark.read.format("rocketmq").options(
            nameServer=broker.namesrv_addr, subscribe="T", failOnDataLoss=fail_on_loss
        )
        spark.conf.set(WORKER_LOGS, "true")

        def told() -> Counter[str]:
            logs = worker_logs(spark).where("level = 'WARNING'").collect()
            return Counter(row.msg for row in logs if "data loss in topic T" in row.msg)

        before = told()
        try:
            rows = other.submit(frame.load().select("offset").collect)
            broker.wait_for(lambda _b: held.hits or rows.done(), timeout=WAIT_S)
            clock.advance(hours=1, age=True)
            low = int(broker.messages.in_topic("T")[0].body[1:])
            session_clock.advance(1)
            lost = (
                "data loss in topic T, broker broker-a, queue 0: "
                f"offsets 0 to {low} were wanted, available are {low} to 80"
            )
            if fail_on_loss == "true":
                with pytest.raises(PySparkException, match="RocketMQDataLossError") as caught:
                    rows.result(WAIT_S)
                assert f"{lost}; " in str(caught.value)
            else:
                found = sorted(row.offset for row in rows.result(WAIT_S))
                assert found == list(range(low, 80))
                assert told() - before == {f"{lost}; {low} offsets skipped": 1}
        finally:
            spark.conf.unset(WORKER_LOGS)
        assert 0 < low < 70


@pytest.mark.case("SP39")
def test_a_write_goes_on_when_its_only_broker_was_away_for_a_while(spark: SparkSession) -> None:
    def attempt(_number: int) -> int:
        context = TaskContext.get()
        return -1 if context is None else context.attemptNumber()

    frame = spark.range(ROWS).select(
        functions.col("id").cast("string").alias("body"),
        functions.concat(functions.lit("id-"), functions.col("id")).alias("dedupe_key"),
        functions.udf(attempt, "int")("id").alias("attempt"),
    )
    with (
        EmbeddedCluster(brokers=1, topics=[TopicSpec("T", queues=4)]) as cluster,
        ThreadPoolExecutor(1) as other,
    ):
        broker = cluster["broker-a"]
        # The tenth request waits until the stop ends its connection.
        held = broker.faults.on(RequestCode.SEND_BATCH_MESSAGE, nth=10).delay(600)

        def stop_and_start() -> int:
            broker.wait_for(lambda _b: held.hits, timeout=WAIT_S)
            address, stored = broker.addr, broker.topics["T"].count()
            cluster.stop("broker-a")
            refuse_one(address)
            cluster.start("broker-a")
            return stored

        away = other.submit(stop_and_start)
        frame.write.format("rocketmq").mode("append").options(
            nameServer=cluster.namesrv_addr,
            topic="T",
            batchBytes="65536",
            extraColumns="properties",
            sendRetries="0",
        ).save()
        before = away.result(WAIT_S)
        found = broker.messages.in_topic("T")
    assert 0 < before < ROWS
    assert {one.properties["DEDUPE_ID"] for one in found} == {f"id-{n}" for n in range(ROWS)}
    # Its tasks waited themselves: only what the stop left without an answer may be there twice.
    assert {one.properties["attempt"] for one in found} == {"0"}
    assert len(found) - ROWS < before


LATE_BROKER = {"one of two": ("broker-b", False), "the only one": ("broker-a", True)}
"""Which broker ends in the middle of a write, and whether it comes back."""


@pytest.mark.parametrize("away", LATE_BROKER)
@pytest.mark.parametrize("how", ["batch", "stream"])
def test_a_write_goes_on_at_another_broker_or_when_its_only_one_is_back(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, how: str, away: str
) -> None:
    broker.topics.create("T", queues=2)
    fill(broker, 0, MESSAGES)
    name, comes_back = LATE_BROKER[away]
    with (
        EmbeddedCluster(brokers=1 if comes_back else 2, topics=["Copies"]) as cluster,
        ThreadPoolExecutor(1) as other,
    ):
        victim = cluster[name]
        # These requests wait until the stop ends their connection.
        held = victim.faults.on(RequestCode.SEND_BATCH_MESSAGE, nth=3).delay(600).always()

        def stop() -> int:
            victim.wait_for(lambda _b: held.hits, timeout=WAIT_S)
            address, stored = victim.addr, victim.topics["Copies"].count()
            cluster.stop(name)
            held.end()
            if comes_back:
                refuse_one(address)
                cluster.start(name)
            return stored

        to = {"nameServer": cluster.namesrv_addr, "topic": "Copies", "batchBytes": "4096"}
        stopped = other.submit(stop)
        if how == "batch":
            reader = spark.read.format("rocketmq").schema("body binary")
            rows = reader.options(nameServer=broker.namesrv_addr, subscribe="T").load()
            rows.write.format("rocketmq").options(**to).mode("append").save()
        else:
            sink = stream(spark, broker).select("body").writeStream.format("rocketmq")
            sink = sink.options(**to).option("checkpointLocation", str(tmp_path))
            assert sink.trigger(availableNow=True).start().awaitTermination(WAIT_S)
            assert logged(tmp_path, "commits") == [0]
        before = stopped.result(WAIT_S)
        if not comes_back:
            cluster.start(name)
        stored = [one.messages.in_topic("Copies") for one in cluster.brokers]
    assert 0 < before < MESSAGES
    found = [one.body.decode() for one in chain(*stored)]
    assert set(found) == set(names(0, MESSAGES))
    # No task was begun anew: only what the stop left without an answer may be there twice.
    assert len(found) - MESSAGES < before


def refuse_one(address: str) -> None:
    """Listen where a broker was, and end the first connection that comes: a write is refused."""
    host, port = address.rsplit(":", 1)
    with socket.create_server((host, int(port))) as listening:
        listening.settimeout(WAIT_S)
        arrived, _ = listening.accept()
        arrived.close()


def test_what_is_stored_less_safely_is_stored_once_and_ends_the_write(
    spark: SparkSession,
) -> None:
    frame = spark.range(0, 10, 1, 1).selectExpr("CAST(id AS string) AS body")
    with EmbeddedBroker(
        config={"flushDiskType": "SYNC_FLUSH", "syncFlushTimeout": 50}, topics=["T"]
    ) as broker:
        broker.faults.disk.fail_next_flush(times=1000)
        writer = frame.write.format("rocketmq").mode("append")
        writer = writer.options(nameServer=broker.namesrv_addr, topic="T", batchSend="false")
        with pytest.raises(PySparkException, match=r"FLUSH_DISK_TIMEOUT.*IS stored.*acceptStatus"):
            writer.save()
        found = [message.body for message in broker.messages.in_topic("T")]
    assert sorted(found) == sorted(str(number).encode() for number in range(10))


@pytest.mark.case("SP20")
def test_a_topic_that_does_not_exist_is_refused_before_a_task_begins(
    spark: SparkSession, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"

    def noted(number: int) -> str:
        begun.touch()
        return str(number)

    frame = spark.range(3).select(functions.udf(noted)("id").alias("body"))
    with EmbeddedBroker(config={"autoCreateTopicEnable": False}) as broker:
        writer = frame.write.format("rocketmq").mode("append")
        with pytest.raises(PySparkException, match="create the topic"):
            writer.options(nameServer=broker.namesrv_addr, topic="Nowhere").save()
    assert not begun.exists()
