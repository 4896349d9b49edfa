"""Batch reads and writes while messages grow old and brokers restart."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

pytest.importorskip(
    "pyspark", minversion="4.2", reason="PySpark 4.2 is not installed (extra spark)"
)
if shutil.which("java") is None:
    pytest.skip("no java on this machine", allow_module_level=True)

from pyspark.errors import PySparkException
from pyspark.sql import functions

from embedded_broker import EmbeddedBroker, TopicSpec, VirtualClock
from rocketmq_py.protocol.codes import RequestCode
from tests.spark.queries import fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_S = 60
WORKER_LOGS = "spark.sql.pyspark.worker.logging.enabled"


@pytest.mark.case("SP18")
@pytest.mark.parametrize("fail_on_loss", ["true", "false"])
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
        try:
            rows = other.submit(frame.load().select("offset").collect)
            broker.wait_for(lambda _b: held.hits or rows.done(), timeout=WAIT_S)
            clock.advance(hours=1, age=True)
            low = int(broker.messages.in_topic("T")[0].body[1:])
            session_clock.advance(1)
            if fail_on_loss == "true":
                with pytest.raises(PySparkException, match=f"offsets 0 to {low} were wanted"):
                    rows.result(WAIT_S)
            else:
                found = sorted(row.offset for row in rows.result(WAIT_S))
                assert found == list(range(low, 80))
                told = [
                    row.msg
                    for row in spark.tvf.python_worker_logs().collect()
                    if "offsets skipped" in row.msg and f"0 to {low} " in row.msg
                ]
                assert len(told) == 1
        finally:
            spark.conf.unset(WORKER_LOGS)
        assert 0 < low < 70


@pytest.mark.case("SP39")
def test_a_broker_that_restarts_in_the_middle_of_a_write_gets_every_row(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=4)
    frame = spark.range(50_000).select(
        functions.col("id").cast("string").alias("body"),
        functions.concat(functions.lit("id-"), functions.col("id")).alias("dedupe_key"),
    )
    # The tenth request waits until the restart ends its connection.
    held = broker.faults.on(RequestCode.SEND_BATCH_MESSAGE, nth=10).delay(600)

    def restart() -> int:
        broker.wait_for(lambda _b: held.hits, timeout=WAIT_S)
        stored = broker.topics["T"].count()
        broker.restart()
        return stored

    with ThreadPoolExecutor(1) as other:
        restarted = other.submit(restart)
        frame.write.format("rocketmq").mode("append").options(
            nameServer=broker.namesrv_addr, topic="T", batchBytes="65536"
        ).save()
        before = restarted.result(WAIT_S)
    assert 0 < before < 50_000
    found = [message.properties["DEDUPE_ID"] for message in broker.messages.in_topic("T")]
    assert set(found) == {f"id-{number}" for number in range(50_000)}
