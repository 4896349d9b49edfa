"""A session that starts tasks twice does not write: nothing is sent, and the setting is named."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from embedded_broker import EmbeddedBroker
from spark_connector.errors import OptionError
from spark_connector.servers.access import close_all
from spark_connector.source import RocketMQDataSource
from spark_connector.writing.write_task import raise_failure, speculation_problem

BODY = StructType([StructField("body", BinaryType())])


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        started.topics.create("T")
        yield started
    close_all()


def test_a_task_of_a_session_with_speculation_sends_nothing(
    broker: EmbeddedBroker, task: dict[str, str]
) -> None:
    options = {"nameServer": broker.namesrv_addr, "topic": "T"}
    writer = RocketMQDataSource(options).writer(BODY, overwrite=False)
    sent = pickle.dumps(writer)
    batch = pa.RecordBatch.from_pydict({"body": pa.array([b"x"])})
    task["spark.speculation"] = "true"
    message = pickle.loads(sent).write(iter([batch]))  # noqa: S301 - pickled by this test
    assert broker.messages.in_topic("T") == []
    with pytest.raises(OptionError, match=r"spark\.speculation=true.*spark\.speculation=false"):
        raise_failure([message])
    task["spark.speculation"] = "false"
    raise_failure([writer.write(iter([batch]))])
    assert len(broker.messages.in_topic("T")) == 1


@pytest.mark.parametrize("setting", [None, "", "false", "FALSE"])
def test_a_session_without_speculation_may_write(setting: str | None) -> None:
    assert speculation_problem(setting) is None
    assert speculation_problem(" True ") is not None
