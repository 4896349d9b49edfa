"""Rows sent, sent back or recalled, and timers read: brokers away, killed workers, once more."""

from __future__ import annotations

import os
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions

import spark_connector
from embedded_broker import EmbeddedBroker, EmbeddedCluster, TopicSpec, VirtualClock
from rocketmq_py.protocol.codes import RequestCode
from tests.spark.letters import GROUP, give_up
from tests.spark.processes import kill, workers_asking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

ROWS = 2_000
WAIT_S = 60
SEND = RequestCode.SEND_MESSAGE_V2
SEND_BATCH = RequestCode.SEND_BATCH_MESSAGE


def letters_of(spark: SparkSession, broker: EmbeddedBroker) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServer", broker.namesrv_addr)
    return reader.options(deadLettersOf=GROUP, includeHeaders="true").load()


def numbered(spark: SparkSession, count: int, *more: str) -> DataFrame:
    return spark.range(0, count, 1, 1).selectExpr(
        "concat('m', id) AS body", "concat('id-', id) AS message_id", *more
    )


def test_a_send_goes_on_when_its_only_broker_was_away_and_a_recall_tells_who_did_not_answer(
    spark: SparkSession,
) -> None:
    with (
        EmbeddedCluster(brokers=1, topics=[TopicSpec("T", queues=2)]) as cluster,
        ThreadPoolExecutor(1) as other,
    ):
        broker = cluster["broker-a"]
        # The hundredth request waits until the stop ends its connection.
        held = broker.faults.on(SEND, nth=100).delay(600)

        def stop_and_start() -> None:
            broker.wait_for(lambda _b: held.hits, timeout=WAIT_S)
            cluster.stop("broker-a")
            cluster.start("broker-a")

        away = other.submit(stop_and_start)
        there = {"nameServer": cluster.namesrv_addr}
        rows = numbered(spark, ROWS, "INTERVAL '1' HOUR AS delay_ms")
        sent = spark_connector.send(rows, topic="T", **there)
        away.result(WAIT_S)
        assert Counter(row.status for row in sent.collect()) == {"SEND_OK": ROWS}
        assert {one.properties["UNIQ_KEY"] for one in broker.timers.pending(limit=ROWS)} == {
            f"id-{number}" for number in range(ROWS)
        }

        cluster.stop("broker-a")
        two = sent.where("message_id in ('id-0', 'id-1')")
        recalled = spark_connector.recall(two, sendTimeoutMs=500, sendRetries=0, **there).collect()
        assert [row.status for row in recalled] == ["FAILED", "FAILED"]
        assert all(row.problem for row in recalled)


def test_what_is_done_once_more_is_sent_again_with_its_ids_and_recalled_as_before(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    there = {"nameServer": broker.namesrv_addr}
    ids = give_up(broker)
    letters = letters_of(spark, broker)
    for _ in range(2):
        spark_connector.send_back(letters, **there)
    assert Counter(one.msg_id for one in broker.messages.in_topic("Invoices")) == dict.fromkeys(
        ids, 3
    )

    sent = spark_connector.send(
        numbered(spark, 5, "INTERVAL '1' HOUR AS delay_ms"), topic="Invoices", **there
    )
    for _ in range(2):
        recalled = spark_connector.recall(sent, **there).collect()
        assert Counter(row.status for row in recalled) == {"RECALLED": 5}
    broker.clock.run(hours=2)
    assert len(broker.messages.in_topic("Invoices")) == 6


def test_timers_are_read_anew_with_every_row_once_or_fail_by_name(spark: SparkSession) -> None:
    def die_at_first(keys: str) -> str:
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            os._exit(1)
        return keys

    token = "sixteen characters or more"
    with EmbeddedBroker(
        clock=VirtualClock(), control=True, control_token=token, topics=["T"]
    ) as broker:
        address = broker.control_url.removeprefix("http://")
        timers = spark.read.format("rocketmq").options(timers="pending", controlAddress=address)
        timers = timers.option("controlToken", token)
        keys = timers.load().select(functions.udf(die_at_first, "string")("keys").alias("keys"))
        for count in (10, 20):
            for number in range(count - 10, count):
                broker.send("T", b"m", delay=60, keys=f"k{number}")
            found = Counter(row.keys for row in timers.load().select("keys").collect())
            assert found == dict.fromkeys((f"k{number}" for number in range(count)), 1)
        assert sorted(row["keys"] for row in keys.collect()) == sorted(found)
        by_control = timers.option("fetchOffset.numRetries", 0).load()
        reader = spark.read.format("rocketmq").options(timers="pending")
        by_topic = reader.options(nameServer=broker.namesrv_addr, pullDeadlineMs=500).load()
        assert by_topic.count() == 20
        # Spark 4.0 plans again; newer ones ask the broker that was there when they planned.
        asked = f"{broker.broker_name}|{re.escape(broker.namesrv_addr)}"
    for frame, named in ((by_control, re.escape(address)), (by_topic, asked)):
        with pytest.raises(PySparkException, match=named):
            frame.collect()


@contextmanager
def worker_killed_while_it_asks(
    broker: EmbeddedBroker, code: RequestCode, nth: int
) -> Iterator[None]:
    """Leave this request without an answer until the workers that asked are killed."""
    held = broker.faults.on(code, nth=nth).drop_response().always()

    def kill_all() -> None:
        broker.wait_for(lambda _b: held.hits and workers_asking(broker, code), timeout=WAIT_S)
        for worker in workers_asking(broker, code):
            kill(worker)
        held.end()

    with ThreadPoolExecutor(1) as other:
        killing = other.submit(kill_all)
        yield
        killing.result(WAIT_S)


@pytest.mark.slow
def test_timers_whose_reading_worker_is_killed_are_read_every_one_once(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    for number in range(20):
        broker.send("Orders", b"m", delay=60, keys=f"k{number}")
    reader = spark.read.format("rocketmq").options(timers="pending")
    frame = reader.option("nameServer", broker.namesrv_addr).load()
    with worker_killed_while_it_asks(broker, RequestCode.PULL_MESSAGE, 1):
        found = Counter(row.keys for row in frame.select("keys").collect())
    assert found == {f"k{number}": 1 for number in range(20)}


@pytest.mark.slow
def test_a_recall_whose_worker_is_killed_takes_every_message_back(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    there = {"nameServer": broker.namesrv_addr}
    rows = numbered(spark, 50, "INTERVAL '1' HOUR AS delay_ms")
    sent = spark_connector.send(rows, topic="Orders", **there)
    with worker_killed_while_it_asks(broker, RequestCode.RECALL_MESSAGE, 3):
        recalled = spark_connector.recall(sent, sendTimeoutMs=20_000, **there).collect()
    assert Counter(row.status for row in recalled) == {"RECALLED": 50}
    assert not broker.timers.pending()


@pytest.mark.slow
def test_a_send_whose_worker_is_killed_repeats_rows_with_their_ids(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=2)
    with worker_killed_while_it_asks(broker, SEND_BATCH, 3):
        sent = spark_connector.send(
            numbered(spark, ROWS),
            nameServer=broker.namesrv_addr,
            topic="T",
            batchBytes=16_384,
            sendTimeoutMs=20_000,
        )
    assert Counter(row.status for row in sent.collect()) == {"SEND_OK": ROWS}
    times = Counter(one.msg_id for one in broker.messages.in_topic("T"))
    assert set(times) == {f"id-{number}" for number in range(ROWS)}
    assert max(times.values()) == 2
