"""Spark 4.0 to 4.3: what older ones lack is refused by name, what can be made up for is."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_connector import discovery
from spark_connector.errors import OptionError
from spark_connector.options.read_options import read_options
from spark_connector.servers import spark_api
from spark_connector.servers.versions import tell_other_python
from spark_connector.source import RocketMQDataSource

READ = {"nameServer": "h:1", "subscribe": "T"}
ROWS = StructType(
    [
        StructField("body", BinaryType()),
        StructField("properties", MapType(StringType(), StringType())),
        StructField("queue_id", IntegerType()),
        StructField("deliver_at", TimestampType()),
    ]
)


@pytest.mark.parametrize(
    ("option", "value", "first"),
    [
        ("maxOffsetsPerTrigger", "100", (4, 2)),
        ("maxBytesPerTrigger", "100", (4, 2)),
        ("minOffsetsPerTrigger", "100", (4, 2)),
        ("maxFetchTimeMs", "100", (4, 2)),
        ("pushFilters", "true", (4, 1)),
    ],
)
def test_an_option_that_an_older_spark_cannot_serve_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, option: str, value: str, first: tuple[int, int]
) -> None:
    options = READ | {option.upper(): value}
    found = read_options(options, streaming=option != "pushFilters")
    monkeypatch.setattr(spark_api, "VERSION", first)
    spark_api.refuse_lacking(found)
    monkeypatch.setattr(spark_api, "VERSION", (first[0], first[1] - 1))
    with pytest.raises(OptionError, match=f"option {option} = {value.title()} needs Spark "):
        spark_api.refuse_lacking(found)
    with pytest.raises(OptionError, match=option):  # when it is loaded
        RocketMQDataSource(options).schema()


def test_what_no_option_asks_for_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_api, "VERSION", (4, 0))
    spark_api.refuse_lacking(read_options(READ | {"pushFilters": "false"}, streaming=False))
    assert "body" in RocketMQDataSource(READ).schema()


def test_times_of_arrow_are_in_utc() -> None:
    assert spark_api.arrow_schema(ROWS).field("deliver_at").type == pa.timestamp("us", tz="UTC")


def test_rows_become_batches_and_batches_stay_as_they_are() -> None:
    rows = [
        Row(body=b"%d" % number, properties={"n": str(number)}, queue_id=None, deliver_at=None)
        for number in range(2 * spark_api.ROWS_MOST + 1)
    ]
    batches = list(spark_api.arrow_batches(iter(rows), ROWS))
    assert [one.num_rows for one in batches] == [spark_api.ROWS_MOST, spark_api.ROWS_MOST, 1]
    assert all(one.schema.equals(spark_api.arrow_schema(ROWS)) for one in batches)
    assert batches[2].to_pylist()[0]["properties"] == [("n", "2000")]
    again = list(spark_api.arrow_batches(iter(batches), ROWS))
    assert all(one is other for one, other in zip(again, batches, strict=True))


class Registry:
    """A session whose data sources are refused, or taken."""

    def __init__(self, problem: str | None = None) -> None:
        self.problem = problem
        self.taken: list[type[DataSource]] = []
        self.dataSource = self

    def register(self, source: type[DataSource]) -> None:
        if self.problem is not None:
            raise AnalysisException(self.problem)
        self.taken.append(source)


def test_a_source_that_spark_has_found_by_itself_and_does_not_replace_stays() -> None:
    taking, keeping = Registry(), Registry("[DATA_SOURCE_ALREADY_EXISTS] Data source 'rocketmq'")
    assert spark_api.register_source(cast("Any", taking), RocketMQDataSource)
    assert [one.name() for one in taking.taken] == [RocketMQDataSource.name()]
    assert not spark_api.register_source(cast("Any", keeping), RocketMQDataSource)
    with pytest.raises(AnalysisException, match="no more room"):
        spark_api.register_source(cast("Any", Registry("no more room")), RocketMQDataSource)


def test_discovery_never_fails_and_says_what_is_wrong_when_the_format_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert discovery.DefaultSource is RocketMQDataSource
    monkeypatch.setitem(sys.modules, "spark_connector.source", None)
    try:
        refusing = importlib.reload(discovery).DefaultSource
    finally:
        monkeypatch.undo()
        importlib.reload(discovery)
    assert issubclass(refusing, DataSource)
    assert refusing.name() == "rocketmq"
    with pytest.raises(ImportError, match=r"spark_connector\.source"):
        refusing({}).schema()


@pytest.mark.parametrize(
    ("master", "python", "is_told"),
    [
        ("local[2]", "/usr/bin/some-other-python3", True),
        ("local[2]", sys.executable, False),
        ("spark://host:7077", "/usr/bin/some-other-python3", False),
    ],
)
def test_a_local_session_whose_workers_run_another_python_is_told_the_remedy(
    caplog: pytest.LogCaptureFixture, master: str, python: str, is_told: bool
) -> None:
    tell_other_python(cast("Any", SimpleNamespace(master=master, pythonExec=python)))
    assert (f"set PYSPARK_PYTHON={sys.executable}" in caplog.text) is is_told
