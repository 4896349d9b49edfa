"""What users of Kafka's source and sink count on: keys that choose, limits, figures of a batch."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming import StreamingQueryListener

import spark_connector
from embedded_broker import EmbeddedBroker
from spark_connector.servers.spark_api import FIRST_FILTERS, VERSION
from tests.spark.queries import Seen, fill, names, offset_of, read_all, stream, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_connector import BatchFigures

# Key to its partition among 8 and among 4, as Kafka's client of version 3.9 numbers them.
OF_8 = {"21": 4, "foobar": 6, "abc": 3, "a": 4, "a-little-bit-longer-string": 3}
OF_4 = {key: number % 4 for key, number in OF_8.items()}


def queues_of_keys(broker: EmbeddedBroker, topic: str) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for message in broker.messages.in_topic(topic):
        found.setdefault(" ".join(message.keys), set()).add(message.queue_id)
    return found


def test_keys_choose_queues_as_in_kafka_also_when_there_are_more_of_these(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=4)
    rows = spark.range(0, 500, 1, 4).selectExpr(
        "CAST(id AS STRING) AS value", f"array{tuple(OF_8)}[id % 5] AS key"
    )
    to = {"nameServer": broker.namesrv_addr, "topic": "T", "routeByKey": "kafka"}
    rows.write.format("rocketmq").options(**to).mode("append").save()
    assert queues_of_keys(broker, "T") == {key: {queue} for key, queue in OF_4.items()}
    assert len(broker.messages.in_topic("T")) == 500
    broker.topics.create("U", queues=4)
    copies = stream(spark, broker).selectExpr("body", "keys")
    sink = copies.writeStream.format("rocketmq").options(**(to | {"topic": "U"}))
    sink = sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    assert sink.start().awaitTermination(120)
    assert queues_of_keys(broker, "U") == {key: {queue} for key, queue in OF_4.items()}
    # Twice as many queues, as a worker hears that was told of the topic anew: keys move.
    broker.topics.create("U", queues=8)
    later = to | {"topic": "U", "rocketmq.instanceName": "later"}
    rows.write.format("rocketmq").options(**later).mode("append").save()
    both = {key: {OF_4[key], OF_8[key]} for key in OF_8}
    assert queues_of_keys(broker, "U") == both
    assert any(len(queues) == 2 for queues in both.values())


def test_rows_without_a_key_go_anywhere_and_the_usual_hash_is_that_of_sharding_keys(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    to = {"nameServer": broker.namesrv_addr}
    keyed = "concat('k', id % 7)"
    for topic in ("T", "U"):
        broker.topics.create(topic, queues=8)
    by_key = spark.range(140).selectExpr("'x' AS body", f"{keyed} AS key", f"{keyed} AS keys")
    by_key.select("body", "key").write.format("rocketmq").options(
        topic="T", routeByKey="rocketmq", **to
    ).mode("append").save()
    by_key.selectExpr("body", "keys", "keys AS sharding_key").write.format("rocketmq").options(
        topic="U", **to
    ).mode("append").save()
    assert queues_of_keys(broker, "T") == queues_of_keys(broker, "U")
    without = spark.range(64).selectExpr("'x' AS body", "CAST(NULL AS STRING) AS key")
    without.write.format("rocketmq").options(topic="T", routeByKey="kafka", **to).mode(
        "append"
    ).save()
    spread = Counter(one.queue_id for one in broker.messages.in_topic("T") if not one.keys)
    assert len(spread) == 8


def test_a_time_for_each_trigger_ends_batches_where_their_offsets_say(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=2)
    fill(broker, 0, 9_000)
    frame = stream(spark, broker, maxFetchTimeMs="3600000")
    seen, _ = read_all(frame, tmp_path)
    # There is time for all; each batch still has twice as many offsets as the one before at most.
    assert seen.sizes == [1_000, 2_000, 4_000, 2_000]
    assert seen.bodies == names(0, 9_000)
    ends = [offset_of(tmp_path, number)["topics"]["T"]["broker-a"] for number in range(4)]
    assert [sum(one.values()) for one in ends] == [1_000, 3_000, 7_000, 9_000]
    fill(broker, 9_000, 11_000)
    again, _ = read_all(frame, tmp_path)
    assert again.sizes == [1_000, 1_000]  # a new run begins carefully
    assert again.bodies == names(9_000, 11_000)


class Figures(StreamingQueryListener):
    """Keeps what every batch of the query ``figures`` did."""

    def __init__(self) -> None:
        self.seen: list[BatchFigures | None] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Keep the figures."""
        if event.progress.name == "figures":  # the last words of an earlier query may come late
            self.seen.append(spark_connector.batch_figures(event.progress))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""


def test_a_listener_gets_rows_bytes_lag_and_the_slowest_queue_of_each_batch(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=2)
    for number in range(90):
        broker.send("T", b"x" * 1_000, queue=min(1, number % 3), tags="ab"[number % 2])
    listener = Figures()
    spark.streams.addListener(listener)
    try:
        frame = stream(spark, broker, maxOffsetsPerTrigger="60", subExpression="a")
        writer = frame.writeStream.foreachBatch(Seen()).queryName("figures")
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        try:
            until(broker, query, lambda: len([one for one in listener.seen if one]) >= 2)
        finally:
            query.stop()
    finally:
        spark.streams.removeListener(listener)
    first, second = (one for one in listener.seen[:2] if one is not None)
    assert (first.query, first.batch, first.rows, first.offsets) == ("figures", 0, 30, 60)
    assert (second.batch, second.rows, second.offsets) == (1, 15, 30)
    assert first.bytes is not None
    assert second.bytes is not None
    assert 30_000 < first.bytes < 40_000
    assert 15_000 < second.bytes < 20_000
    assert first.behind == {("T", "broker-a", 0): 10, ("T", "broker-a", 1): 20}
    assert first.slowest == ("T", "broker-a", 1)
    assert (second.behind.total, second.slowest) == (0, None)
    assert first.seconds > 0


def test_a_session_has_one_line_a_batch_however_often_it_registers_and_none_if_told_so(
    spark: SparkSession,
) -> None:
    other = spark.newSession()

    def listeners() -> int:
        return len(other._jsparkSession.streams().listListeners())

    before = listeners()
    spark_connector.register(other, log_batches=False)
    assert listeners() == before
    for _ in range(2):
        spark_connector.register(other)
    if VERSION < FIRST_FILTERS and find_spec("pyspark_rocketmq"):
        pytest.skip("Spark 4.0 keeps the source of the installed wheel: no line for a batch")
    assert listeners() == before + 1
