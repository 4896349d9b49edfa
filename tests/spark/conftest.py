"""One local Spark for all tests of this folder, and a broker for each test.

`local[2,4]`: two tasks at once, up to four attempts each, so that retries happen as on a cluster.
The broker lives in the test's process and is reached by TCP, because Spark's workers are others.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from tests.spark.cluster import QUICK_START
from tests.spark.java import provide_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
LACKS = re.compile(r"needs Spark 4\.\d or newer, and this is 4\.[01]\.")


def pytest_configure(config: pytest.Config) -> None:
    folder = TemporaryDirectory(prefix="rocketmq-py-java-")
    config.add_cleanup(folder.cleanup)
    provide_java(Path(folder.name))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(240))
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # Spark's own


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skip, on an older Spark, what is refused there because it lacks something."""
    report = yield
    if report.failed and call.excinfo is not None and LACKS.search(str(call.excinfo.value)):
        path, line, _ = item.location
        report.outcome = "skipped"
        report.longrepr = (path, line or 0, "this Spark lacks what it needs")
    return report


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    from pyspark.sql import SparkSession

    import spark_connector

    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("rocketmq-py-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", QUICK_START)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "Asia/Shanghai")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.python.task.killTimeout", "200ms")  # a stopped query frees its cores soon
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    spark_connector.register(session)
    yield session
    session.stop()


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """A broker on a clock that stands still until a test moves it."""
    with EmbeddedBroker(clock=VirtualClock()) as started:
        yield started
