"""What users are told: lag, mistakes in what they ask for, bad rows, and lines in a log."""

from __future__ import annotations

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import spark_connector
from embedded_broker import EmbeddedBroker, EmbeddedCluster
from rocketmq_py import QueueAccess
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.errors import UnknownLagError
from tests.spark.cluster import Driver
from tests.spark.queries import fill, forget, logged, names, read_all, running, stream, until
from tests.spark.test_batch_faults import refuse_one

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAIT_S = 60


@pytest.fixture(autouse=True)
def topic(broker: EmbeddedBroker) -> None:
    broker.topics.create("T", queues=2)


def read(spark: SparkSession, broker: EmbeddedBroker, **options: str) -> DataFrame:
    reader = spark.read.format("rocketmq").schema("body string")
    return reader.options(nameServer=broker.namesrv_addr, subscribe="T", **options).load()


@pytest.mark.slow
@pytest.mark.case("SP55")
def test_the_lag_after_a_restart_is_that_of_the_batch_that_was_not_finished(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    frame = stream(spark, broker)
    for first in (0, 50):
        fill(broker, first, first + 50)
        read_all(frame, tmp_path)
    assert logged(tmp_path, "commits") == [0, 1]
    forget(tmp_path, "commits", 1)
    fill(broker, 100, 500)
    seen: list[int] = []
    looked = Event()

    def stand_still_after_one(batch: DataFrame, _number: int) -> None:
        seen.append(batch.count())
        if len(seen) > 1:
            assert looked.wait(WAIT_S)

    with running(frame, tmp_path, stand_still_after_one) as query:
        try:
            until(broker, query, lambda: len(seen) > 1)
            again = query.lastProgress
            assert again is not None
            assert (again["batchId"], again["numInputRows"]) == (1, 50)
            # Spark asked for no news before it repeated the batch: nobody says that it is done.
            with pytest.raises(UnknownLagError, match="asks the brokers"):
                spark_connector.lag(query).total  # noqa: B018 - it raises
            assert spark_connector.lag(query, nameServer=broker.namesrv_addr).total == 400
        finally:
            looked.set()
        until(broker, query, lambda: logged(tmp_path, "commits") == [0, 1, 2])
        until(broker, query, lambda: query.recentProgress[-1]["batchId"] == 2)
        assert spark_connector.lag(query).total == 0
    assert seen == [50, 400]


WRONG = {
    "times the wrong way round": (
        {"startingTimestamp": "2024-02-01T00:00:00Z", "endingTimestamp": "2024-01-01T00:00:00Z"},
        r"the read ends at 1704067200000, before it begins at 1706745600000",
    ),
    "times of a queue": (
        {
            "startingTimestamp": "1706745600000",
            "endingOffsetsByTimestamp": '{"T":{"0":1704067200000}}',
        },
        r"ends at 1704067200000, before it begins at 1706745600000.*queue 0 of topic T",
    ),
    "seconds": ({"startingTimestamp": "1706745600"}, "looks like epoch seconds"),
    "seconds of a queue": (
        {"startingOffsetsByTimestamp": '{"T":{"0":1706745600}}'},
        "queue 0 has 1706745600, which looks like epoch seconds",
    ),
    "microseconds": ({"endingTimestamp": "1706745600000000"}, "looks like epoch microseconds"),
    "offsets": (
        {"startingOffsets": '{"T":{"0":5}}', "endingOffsets": '{"T":{"broker-a":{"0":3}}}'},
        "endingOffsets 3 is before startingOffsets 5 in queue 0 of topic T",
    ),
    "an offset and a time": (
        {"startingOffsets": '{"T":{"0":5}}', "endingTimestamp": "1706745600000"},
        "end at 0, before it begins at 5, in topic T, broker broker-a, queue 0",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_range_that_must_be_a_mistake_is_refused(
    spark: SparkSession, broker: EmbeddedBroker, mistake: str
) -> None:
    fill(broker, 0, 20)
    options, match = WRONG[mistake]
    with pytest.raises(PySparkException, match=match):
        read(spark, broker, **options).count()


WRONG_IN_A_STREAM = {
    "seconds": WRONG["seconds"],
    "seconds of a queue": WRONG["seconds of a queue"],
    "an end": ({"endingTimestamp": "1706745600000"}, "endingTimestamp is not for streaming reads"),
}


@pytest.mark.parametrize("mistake", WRONG_IN_A_STREAM)
def test_a_start_that_must_be_a_mistake_is_refused_in_a_stream_too(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path, mistake: str
) -> None:
    options, match = WRONG_IN_A_STREAM[mistake]
    with pytest.raises(PySparkException, match=match):
        read_all(stream(spark, broker, **options), tmp_path)


def test_a_write_waits_for_its_name_server_as_a_read_does(spark: SparkSession) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    frame = spark.range(10).selectExpr("CAST(id AS string) AS body")
    writer = frame.write.format("rocketmq").mode("append")
    writer = writer.options(nameServer=f"127.0.0.1:{port}", topic="T")
    written = Event()

    def come_back() -> int:
        refuse_one(f"127.0.0.1:{port}")  # the name server is away
        with EmbeddedBroker(namesrv_port=port, topics=["T"]) as broker:
            assert written.wait(WAIT_S)
            return len(broker.messages.in_topic("T"))

    with ThreadPoolExecutor(1) as other:
        away = other.submit(come_back)
        try:
            writer.save()
        finally:
            written.set()
        assert away.result(WAIT_S) == 10


def test_an_address_that_cannot_be_reached_is_told_with_the_option_that_helps(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    fill(broker, 0, 2)
    options = {"addressMap": f"{broker.addr}=127.0.0.1:1", "missingQueueGraceMs": "0"}
    with pytest.raises(PySparkException, match="set the option addressMap") as caught:
        read(spark, broker, **options).collect()
    assert "address_mapper" not in str(caught.value)


def test_a_bad_row_is_named_with_its_partition_and_key(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    frame = spark.range(0, 20, 1, 2).selectExpr(
        "if(id = 15, '', 'good') AS body", "concat('order-', id) AS keys"
    )
    writer = frame.write.format("rocketmq").mode("append")
    with pytest.raises(
        PySparkException, match=r"partition 1, row 5: body is empty \(keys order-15\)"
    ):
        writer.options(nameServer=broker.namesrv_addr, topic="T").save()


def keys_of(broker: EmbeddedBroker, code: RequestCode) -> set[str]:
    """Under which access keys a request came."""
    found = set()
    for one in broker.journal._ring:
        if one.entry().code == code and isinstance(one.header, bytes):
            found.add(str(json.loads(one.header)["extFields"].get("AccessKey")))
    return found


@pytest.mark.slow
def test_workers_log_with_time_and_level_and_take_keys_from_their_environment(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker, 0, 10)
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        queue = access.read_queues("T")[0]
        access.send(queue, b"?", properties="UNIQ_KEY\x01p\x02", sys_flag=1).result(10)
    monkeypatch.setenv("OF_A_TEST_ACCESS_KEY", "who")
    monkeypatch.setenv("OF_A_TEST_SECRET_KEY", "hush")
    broker.journal.clear()
    with Driver(tmp_path, {"spark.master": "local[2]"}) as driver:
        driver.run("register")
        options = {"credentialsEnv": "OF_A_TEST", "mode": "DROPMALFORMED"}
        rows = driver.run("read", address=broker.namesrv_addr, topic="T", **options)
        line = driver._process.wait_for(r"^(.*)1 messages cannot be decoded")[1]
        told = driver._process.told()
    assert sorted(body for _, _, body in rows) == names(0, 10)
    assert re.fullmatch(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARNING spark_connector: ", line)
    assert keys_of(broker, RequestCode.PULL_MESSAGE) == {"who"}
    assert keys_of(broker, RequestCode.GET_TOPIC_STATS_INFO) == {"who"}
    assert "hush" not in told


@pytest.mark.slow
def test_credentials_that_are_not_in_the_environment_are_told_by_their_variables(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    with pytest.raises(PySparkException, match=r"NOBODY_ACCESS_KEY is not set.*NOBODY_SECRET_KEY"):
        read(spark, broker, credentialsEnv="NOBODY").collect()


def test_a_cluster_without_its_only_broker_is_waited_for(spark: SparkSession) -> None:
    with EmbeddedCluster(brokers=1, topics=["T"]) as cluster, ThreadPoolExecutor(1) as other:
        (broker,) = cluster.brokers
        fill(broker, 0, 10)
        cluster.stop("broker-a")
        reader = spark.read.format("rocketmq").schema("body string")
        given = {"nameServer": cluster.namesrv_addr, "subscribe": "T"}
        hasty = reader.options(**given, missingQueueGraceMs="0").load()
        with pytest.raises(PySparkException, match="topic T has no route"):
            hasty.count()
        counted = other.submit(reader.options(**given, missingQueueGraceMs="600000").load().count)
        with pytest.raises(TimeoutError):
            counted.result(2)
        cluster.start("broker-a")
        assert counted.result(WAIT_S) == 10
