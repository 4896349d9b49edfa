"""Driver and worker must run the same software; what travels between them says who wrote it."""

from __future__ import annotations

import pickle
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from spark_connector.errors import VersionError
from spark_connector.reading.batch_reader import BatchReader
from spark_connector.reading.stream_reader import StreamReader
from spark_connector.servers import versions as origin_module
from spark_connector.servers.spark_api import register_source
from spark_connector.servers.versions import check_origin, origin
from spark_connector.source import RocketMQDataSource
from spark_connector.writing.writers import BatchWriter, StreamWriter

READ = {"nameServer": "h:1", "subscribe": "T"}
WRITE = {"nameServer": "h:1", "topic": "T"}
OFFSET = StructType([StructField("offset", LongType())])
BODY = StructType([StructField("body", BinaryType())])


def travellers() -> list[Any]:
    return [
        BatchReader(READ, OFFSET),
        StreamReader(READ, OFFSET),
        BatchWriter(WRITE, BODY, overwrite=False),
        StreamWriter(WRITE, BODY, overwrite=False),
    ]


def arrive(sent: bytes) -> Any:
    return pickle.loads(sent)  # noqa: S301 - pickled by this test


def test_readers_and_writers_arrive_as_they_were() -> None:
    for one in travellers():
        assert arrive(pickle.dumps(one)).carried().keys() == one.carried().keys()
    assert arrive(pickle.dumps(BatchReader(READ, OFFSET))).schema.names == ["offset"]


@pytest.mark.parametrize("number", range(4))
def test_another_version_of_the_package_is_told_before_its_objects_are_opened(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = pickle.dumps(travellers()[number])
    monkeypatch.setattr(origin_module, "__version__", "9.8.7")
    with pytest.raises(VersionError, match=r"rocketmq-py 0\S+ there and 9\.8\.7 here.*py-files"):
        arrive(sent)


def test_the_error_names_only_what_differs() -> None:
    check_origin(origin())
    with pytest.raises(VersionError, match=r"Python 2\.7 there") as caught:
        check_origin(origin() | {"Python": "2.7"})
    assert "rocketmq-py 0" not in str(caught.value)
    with pytest.raises(VersionError, match="unknown version there"):
        check_origin({})


def without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a worker whose Python does not have it."""
    for name in [one for one in sys.modules if one.partition(".")[0] == "spark_connector"]:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("number", range(4))
def test_a_worker_without_the_package_says_what_to_do(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = pickle.dumps(travellers()[number])
    without_the_package(monkeypatch)
    with pytest.raises(
        ImportError, match=r"spark_connector.* Set PYSPARK_PYTHON, before"
    ) as caught:
        arrive(sent)
    assert sys.executable in str(caught.value)


def test_a_planner_without_the_package_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    register = SimpleNamespace(register=lambda source: sent.append(cloudpickle.dumps(source)))
    session: Any = SimpleNamespace(dataSource=register)
    source = RocketMQDataSource.on_cluster(3, cast("Any", None))
    assert register_source(session, source)
    found = arrive(sent[0])
    assert (found.name(), found.cores) == ("rocketmq", 3)
    without_the_package(monkeypatch)
    with pytest.raises(ImportError, match="Set PYSPARK_PYTHON"):
        arrive(sent[0])
