"""The data source on a Spark Connect server, whose Python sees only what it is given."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker
from spark_connector.bundle import PACKAGES, write_bundle
from tests.spark.cluster import ROOT, Driver, DriverError, bare_python, connect_server

pytestmark = pytest.mark.connect


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        yield started


def install(site: Path) -> None:
    """Put there what pip would."""
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        origin = origin if spec.submodule_search_locations is None else origin.parent
        (site / origin.name).symlink_to(origin)
    module = site / "pyspark_rocketmq"
    module.mkdir()
    shutil.copy(ROOT / "spark_connector" / "discovery.py", module / "__init__.py")


def check_batches(driver: Driver, broker: EmbeddedBroker) -> None:
    broker.topics.create("T", queues=2)
    driver.run("write", address=broker.namesrv_addr, topic="T", count=50)
    check_read(driver, broker, "T")


def check_streams(driver: Driver, broker: EmbeddedBroker, folder: Path) -> None:
    """Copy by a stream what `check_batches` has written."""
    broker.topics.create("U", queues=2)
    place = {"address": broker.namesrv_addr, "source": "T", "target": "U"}
    driver.run("copy_stream", checkpoint=str(folder), **place)
    check_read(driver, broker, "U")


def check_read(driver: Driver, broker: EmbeddedBroker, topic: str) -> None:
    rows = driver.run("read", address=broker.namesrv_addr, topic=topic)
    assert sorted(int(body) for _, _, body in rows) == list(range(50))


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python without this package for the servers, as on machines of others."""
    folder = tmp_path_factory.mktemp("connect") / "python"
    return bare_python(folder, ("pyspark", "py4j", "pyarrow", "numpy"))


@pytest.mark.slow
@pytest.mark.case("SP67")
def test_a_server_without_the_package_works_with_what_a_client_sends(
    python: str, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle.zip"
    write_bundle(bundle)
    with connect_server(tmp_path, python, ()) as url, Driver(tmp_path, {"remote": url}) as driver:
        driver.run("register")
        with pytest.raises(DriverError, match="No module named 'spark_connector'"):
            driver.run("read", address=broker.namesrv_addr, topic="T")
        driver.run("add_bundle", path=str(bundle))
        driver.run("register")
        check_batches(driver, broker)  # streams do not see what was sent, in Spark 4.3


@pytest.mark.slow
@pytest.mark.case("SP67")
def test_a_server_finds_the_installed_package_by_itself(
    python: str, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    install(site)
    with (
        connect_server(tmp_path, python, (site,)) as url,
        Driver(tmp_path, {"remote": url}) as driver,
    ):
        check_batches(driver, broker)
        driver.run("log_batches")
        check_streams(driver, broker, tmp_path / "checkpoint")
        driver.said(
            r"INFO spark_connector: query \S+, batch 0: 50 rows, unknown bytes, .*; 0 behind"
        )
        driver.run("register")
        check_read(driver, broker, "U")
