"""How much one micro-batch, and one task, takes of many queues."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions

from embedded_broker import EmbeddedBroker, TopicSpec
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.frame import FRAME_SIZE_MAX, encode_frame, encode_head
from tests.spark.queries import Seen, fill, names, running, stream, until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.slow
def test_with_fewer_offsets_than_queues_these_take_turns(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=6)
    for queue, count in enumerate((20, 22, 24, 200, 300, 400)):
        for number in range(count):
            broker.send("T", b"m%d" % number, queue=queue)
    seen = Seen()
    frame = stream(spark, broker, maxOffsetsPerTrigger="3")
    with running(frame, tmp_path, seen) as query:
        until(broker, query, lambda: len(seen.batches) >= 12)
    served = Counter(row.queue_id for _, rows in seen.batches[:12] for row in rows)
    assert served == dict.fromkeys(range(6), 6)
    assert set(seen.sizes[:12]) == {3}


@pytest.mark.slow
def test_a_limit_of_bytes_looks_at_the_messages_of_each_queue(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=3)
    for _ in range(3_000):
        broker.send("T", b"x" * 100, queue=0)
    for queue in (1, 2):
        for _ in range(60):
            broker.send("T", b"x" * 60_000, queue=queue)
    sizes: list[tuple[int, int]] = []

    def note(batch: DataFrame, _number: int) -> None:
        size, rows = batch.agg(functions.sum("store_size"), functions.count("*")).collect()[0]
        sizes.append((size or 0, rows))

    frame = stream(spark, broker, maxBytesPerTrigger="1000000", columns="queue_id,store_size")
    writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert sum(rows for _, rows in sizes) == 3_120
    assert all(size < 1_200_000 for size, _ in sizes)
    assert len(sizes) < 12  # and little is left unused


def test_no_task_has_more_than_so_many_records(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=2)
    fill(broker, 0, 200)
    reader = spark.read.format("rocketmq").schema("body string")
    frame = reader.options(
        nameServer=broker.namesrv_addr, subscribe="T", maxRecordsPerPartition="30"
    ).load()
    per_task = frame.groupBy(functions.spark_partition_id()).count().collect()
    assert max(row["count"] for row in per_task) <= 30
    assert sorted(row.body for row in frame.collect()) == names(0, 200)
    tasks: list[int] = []

    def note(batch: DataFrame, _number: int) -> None:
        rows = batch.groupBy(functions.spark_partition_id()).count().collect()
        tasks.extend(row["count"] for row in rows)

    limited = stream(spark, broker, maxRecordsPerPartition="30")
    writer = limited.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert sum(tasks) == 200
    assert max(tasks) <= 30


def test_a_broker_that_gives_more_than_a_frame_carries_is_asked_for_less(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ours keeps to what a frame carries. Real ones do not.
    generous = 64 << 20
    monkeypatch.setattr("embedded_broker.store.message_store.ANSWER_BYTES_MAX", generous)
    for encode in (encode_frame, encode_head):
        usual = encode.__kwdefaults__ or {}
        monkeypatch.setitem(usual, "frame_size_max", 2 * generous)
    limits = {
        "maxTransferCountOnMessageInMemory": 1_024,
        "maxTransferBytesOnMessageInMemory": generous,
    }
    size, count = 60_000, 600
    with EmbeddedBroker(config=limits, topics=[TopicSpec("T", queues=1)]) as broker:
        for number in range(count):
            broker.send("T", b"%06d" % number + bytes(size - 6))
        reader = spark.read.format("rocketmq").schema("offset bigint, body binary")
        reader = reader.options(nameServer=broker.namesrv_addr, subscribe="T", maxPartitions="1")
        frame = reader.option("pullDeadlineMs", "5000").load()
        broker.journal.clear()
        rows = frame.selectExpr(
            "offset", "CAST(substring(body, 1, 6) AS STRING)", "length(body)"
        ).collect()
        pulls = broker.journal.requests(code=RequestCode.PULL_MESSAGE)
    assert sorted(map(tuple, rows)) == [(n, f"{n:06}", size) for n in range(count)]
    asked = [int(pull.fields["maxMsgNums"]) for pull in pulls]
    assert asked[0] * size > FRAME_SIZE_MAX  # which failed
    assert max(asked[-2:]) * size < FRAME_SIZE_MAX
