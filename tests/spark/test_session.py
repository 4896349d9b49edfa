"""How the source meets a session: discovery, filters, other Arrow types, workers that die."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.servers.spark_api import FIRST_FILTERS, VERSION
from spark_connector.source import RocketMQDataSource
from tests.spark.queries import fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.case("SP17")
def test_filters_narrow_what_is_pulled_only_where_spark_allows_it(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=2)
    for number in range(400):
        broker.send("T", b"%d" % number, queue=number % 2, tags="AB"[number // 2 % 2])
    reader = spark.read.format("rocketmq").options(
        nameServer=broker.namesrv_addr, subscribe="T", pushFilters="true"
    )
    with pytest.raises(PySparkException, match="filterPushdown"):
        reader.load().collect()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        broker.journal.clear()
        rows = reader.load().where("queue_id = 1 AND offset >= 190 AND offset < 195").collect()
        pulls = broker.journal.requests(code=RequestCode.PULL_MESSAGE)
        broker.journal.clear()
        late = "store_timestamp > timestamp '2100-01-01 00:00:00'"
        assert reader.load().where(late).collect() == []
        assert not broker.journal.requests(code=RequestCode.PULL_MESSAGE)
        early = "store_timestamp < timestamp '2100-01-01 00:00:00' AND tags = 'A'"
        tagged = reader.load().where(early).collect()
        asked = broker.journal.requests(code=RequestCode.PULL_MESSAGE)
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    assert sorted(row.offset for row in rows) == list(range(190, 195))
    assert {row.tags for row in tagged} == {"A"}
    assert len(tagged) == 200
    assert {entry.fields["subscription"] for entry in asked} == {"A"}
    assert {entry.fields["queueId"] for entry in pulls} == {"1"}
    assert len(pulls) <= 2


@pytest.mark.case("SP17")
def test_filters_on_store_time_and_tags_give_the_same_rows_with_fewer_pulls(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    clock = broker.clock
    assert isinstance(clock, VirtualClock)
    broker.topics.create("T", queues=2)
    hours = []
    for _ in range(4):
        hours.append(clock.now_ms)
        for number in range(200):
            broker.send("T", b"%d" % number, queue=number % 2, tags="AB"[number // 100])
        clock.advance(timedelta(hours=1))
    wanted = (
        f"queue_id = 1 AND store_timestamp > timestamp_millis({hours[1]}) "
        f"AND store_timestamp < timestamp_millis({hours[3]}) AND tags = 'B'"
    )
    reader = spark.read.format("rocketmq").options(
        nameServer=broker.namesrv_addr, subscribe="T", pullBatchSize="32"
    )

    def found(frame: DataFrame) -> tuple[list[tuple[int, int]], int]:
        broker.journal.clear()
        rows = frame.where(wanted).select("queue_id", "offset").collect()
        pulls = broker.journal.requests(code=RequestCode.PULL_MESSAGE)
        return sorted(map(tuple, rows)), len(pulls)

    all_rows, all_pulls = found(reader.load())
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        rows, pulls = found(reader.option("pushFilters", "true").load())
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    assert rows == all_rows == [(1, offset) for offset in range(250, 300)]
    assert pulls < all_pulls / 2
    tasks = [
        entry
        for entry in broker.journal.requests(code=RequestCode.PULL_MESSAGE)
        if entry.fields["subscription"] == "B"
    ]
    assert {entry.fields["queueId"] for entry in tasks} == {"1"}


@pytest.mark.case("SP21")
def test_a_wrong_option_of_a_stream_with_a_schema_of_its_own_says_what_is_wrong(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T")
    reader = spark.readStream.format("rocketmq").schema("offset bigint")
    wrong = reader.options(nameServer=broker.namesrv_addr, subscribe="T", failOnDataLos="x").load()
    writer = wrong.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(PySparkException) as caught:
        writer.start().processAllAvailable()
    assert "did you mean failOnDataLoss" in str(caught.value)
    assert "UnboundLocalError" not in str(caught.value)


@pytest.mark.case("SP20", "SP78")
def test_a_refused_key_is_told_without_the_secret(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T")
    acl = "org.apache.rocketmq.acl.common.AclException: Check signature failed for accessKey=id"
    refused = broker.faults.on(RequestCode.GET_TOPIC_STATS_INFO).always()
    refused.respond(ResponseCode.SYSTEM_ERROR, acl)
    spark.conf.set("spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled", "true")
    try:
        with pytest.raises(PySparkException, match="PermissionDeniedError") as caught:
            spark.read.format("rocketmq").options(
                nameServer=broker.namesrv_addr, subscribe="T", accessKey="id", secretKey="hush"
            ).load().collect()
    finally:
        spark.conf.unset("spark.sql.execution.pyspark.udf.tracebackWithLocals.enabled")
    assert "hush" not in str(caught.value)


@pytest.mark.case("SP38", "SP14", "SP35")
def test_large_types_and_columns_that_are_never_null_work(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T")
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        frame = spark.range(50).select(
            functions.col("id").cast("string").alias("body"),
            functions.array(functions.lit("a")).alias("keys"),
            functions.expr("timestamp '1999-01-01 00:00:00'").alias("deliver_at"),
        )
        write = frame.write.format("rocketmq").mode("append")
        write.options(nameServer=broker.namesrv_addr, topic="T").save()
        reader = spark.read.format("rocketmq").options(
            nameServer=broker.namesrv_addr, subscribe="T", columns="body,keys,properties,deliver_at"
        )
        as_text = functions.col("deliver_at").cast("string").alias("deliver_at")
        rows = reader.load().select("body", "keys", "properties", as_text).collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    assert {bytes(row.body) for row in rows} == {b"%d" % number for number in range(50)}
    assert (len(rows), {row["keys"] for row in rows}) == (50, {"a"})
    # Midnight in Shanghai, the zone of this session.
    assert {row.properties["TIMER_DELIVER_MS"] for row in rows} == {"915120000000"}
    assert {row.deliver_at for row in rows} == {"1999-01-01 00:00:00"}


@pytest.mark.case("SP40")
def test_a_worker_that_dies_is_replaced_and_ids_tell_the_repeated_rows(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T")
    mark = str(tmp_path / "died")

    def die_once(rows: Iterable[Any]) -> Iterator[tuple[str, str]]:
        for row in rows:
            if row.id == 150 and not Path(mark).exists():
                Path(mark).touch()
                os._exit(1)
            yield (str(row.id), f"id-{row.id}")

    rows = spark.range(0, 200, 1, 1).rdd.mapPartitions(die_once)
    frame = spark.createDataFrame(rows, "body string, dedupe_key string")
    write = frame.write.format("rocketmq").mode("append")
    write.options(nameServer=broker.namesrv_addr, topic="T").save()
    found = [message.properties["DEDUPE_ID"] for message in broker.messages.in_topic("T")]
    assert Path(mark).exists()
    assert set(found) == {f"id-{number}" for number in range(200)}


def test_what_workers_and_planners_have_loaded_is_not_looked_at_after_every_task(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=2)
    fill(broker, 0, 40)

    class Telling(RocketMQDataSource):
        """A source whose one column is named by what is frozen where it is planned."""

        @classmethod
        def name(cls) -> str:
            return "telling"

        def schema(self) -> str:
            return f"frozen_{gc.get_freeze_count()} int"

    spark.dataSource.register(Telling)
    for _ in range(2):
        options = {"nameServer": broker.namesrv_addr, "subscribe": "T", "minPartitions": "8"}
        assert spark.read.format("rocketmq").options(**options).load().count() == 40
        planner = spark.read.format("telling").options(**options).load().columns[0]

    def frozen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"frozen": [gc.get_freeze_count()]})

    if VERSION >= FIRST_FILTERS:  # Spark 4.0 reads in workers that run nothing else
        workers = spark.range(0, 8, 1, 8).mapInArrow(frozen, "frozen bigint").collect()
        assert max(row.frozen for row in workers) > 10_000
    assert int(planner.removeprefix("frozen_")) > 10_000


DISCOVERY = """
import sys
from pyspark.sql import SparkSession
from embedded_broker import EmbeddedBroker
with EmbeddedBroker(topics=["T"]) as broker:
    broker.send("T", b"found")
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config(
        "spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF").getOrCreate()
    rows = spark.read.format("rocketmq").options(
        nameServer=broker.namesrv_addr, subscribe="T").load().collect()
    print([bytes(row.body) for row in rows])
    spark.stop()
"""


@pytest.mark.slow
def test_the_source_is_found_without_register_when_the_wheel_is_installed(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    shutil.unpack_archive(wheel, installed, "zip")
    environment = os.environ | {"PYTHONPATH": str(installed), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", DISCOVERY],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert "[b'found']" in done.stdout, done.stderr[-2_000:]
