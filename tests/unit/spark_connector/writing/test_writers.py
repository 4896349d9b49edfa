"""A write looks at its topic before it has tasks, and tells at its end what was not a message."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from embedded_broker import EmbeddedCluster
from rocketmq_py import NameServerUnavailableError, NoRouteError
from spark_connector.errors import WeaklyStoredError
from spark_connector.servers.access import close_all
from spark_connector.source import RocketMQDataSource
from spark_connector.writing.sending import Report
from spark_connector.writing.write_task import WrittenMessage, raise_failure
from spark_connector.writing.writers import BatchWriter

BODY = StructType([StructField("body", BinaryType())])
KEYED = StructType([*BODY.fields, StructField("sharding_key", StringType())])


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=2, config={"autoCreateTopicEnable": False}) as started:
        started["broker-a"].topics.create("T", queues=3)
        yield started
    close_all()


def writer(cluster: EmbeddedCluster, schema: StructType = BODY, **given: str) -> BatchWriter:
    options = {"nameServer": cluster.namesrv_addr, "topic": "T"} | given
    made = RocketMQDataSource(options).writer(schema, overwrite=False)
    assert isinstance(made, BatchWriter)
    return made


@pytest.mark.case("SP20")
def test_a_topic_that_does_not_exist_is_refused_before_there_are_tasks(
    cluster: EmbeddedCluster,
) -> None:
    with pytest.raises(NoRouteError, match="create the topic"):
        writer(cluster, topic="Nowhere")
    with pytest.raises(NameServerUnavailableError):
        writer(cluster, nameServer="127.0.0.1:1")


@pytest.mark.case("SP39")
def test_a_task_that_finds_no_broker_fails_for_now_only(cluster: EmbeddedCluster) -> None:
    sent = pickle.dumps(writer(cluster, sendRetries="1", sendDeadlineMs="0"))
    cluster.stop("broker-a")
    close_all()  # the task runs in a process that has seen no topic
    task = pickle.loads(sent)  # noqa: S301 - pickled by this test
    batch = pa.RecordBatch.from_pydict({"body": pa.array([b"x"])})
    with pytest.raises(Exception, match="not stored after 2 tries"):
        task.write(iter([batch]))
    cluster.start("broker-a")
    assert task.write(iter([batch])).report.stored == 1


@pytest.mark.case("SP25")
def test_queues_of_keys_are_fixed_when_the_write_is_planned(cluster: EmbeddedCluster) -> None:
    (fixed,) = writer(cluster, KEYED)._task.fixed_queues.values()
    assert [queue.queue_id for queue in fixed] == [0, 1, 2]
    assert writer(cluster)._task.fixed_queues == {}


@pytest.mark.case("SP27")
def test_a_commit_counts_what_was_left_out_and_what_went_elsewhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    messages = [
        WrittenMessage(Report(stored=5, skipped=2)),
        WrittenMessage(Report(stored=9, skipped=1, redirected=4)),
        WrittenMessage(Report(stored=1, redirected=3)),
        None,
    ]
    with caplog.at_level(logging.WARNING, "spark_connector"):
        raise_failure(messages)
    assert [one.getMessage() for one in caplog.records] == [
        "3 invalid rows were left out",
        "7 invalid rows went to invalidRowTopic",
    ]
    failed = WrittenMessage(Report(failure=WeaklyStoredError("stored")))
    with pytest.raises(WeaklyStoredError):
        raise_failure([*messages, failed])
