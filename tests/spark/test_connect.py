"""The data source on a Spark Connect server, whose Python sees only what it is given."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip(
    "pyspark", minversion="4.2", reason="PySpark 4.2 is not installed (extra spark)"
)
pytest.importorskip("grpc", reason="grpcio is not installed (dependency group spark)")
if shutil.which("java") is None:
    pytest.skip("no java on this machine", allow_module_level=True)

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


def check_all_four(driver: Driver, broker: EmbeddedBroker, folder: Path) -> None:
    """Write and read batches and streams."""
    for topic in ("T", "U"):
        broker.topics.create(topic, queues=2)
    address = broker.namesrv_addr
    driver.run("write", address=address, topic="T", count=50)
    driver.run(
        "copy_stream", address=address, source="T", target="U", checkpoint=str(folder / "copy")
    )
    for topic in ("T", "U"):
        rows = driver.run("read", address=address, topic=topic)
        assert sorted(int(body) for _, _, body in rows) == list(range(50))


@pytest.mark.case("SP67")
def test_a_connect_server_knows_the_source_once_it_is_sent_or_installed(tmp_path: Path) -> None:
    site, bundle = tmp_path / "site", tmp_path / "bundle.zip"
    site.mkdir()
    write_bundle(bundle)
    python = bare_python(tmp_path / "python", ("pyspark", "py4j", "pyarrow", "numpy"))
    with connect_server(tmp_path, python, (site,)) as url:
        with Driver(tmp_path, {"remote": url}) as driver, EmbeddedBroker() as broker:
            driver.run("register")
            with pytest.raises(DriverError, match="No module named 'spark_connector'"):
                driver.run("read", address=broker.namesrv_addr, topic="T")
            driver.run("add_bundle", path=str(bundle))
            driver.run("register")
            check_all_four(driver, broker, tmp_path / "sent")
        install(site)
        with Driver(tmp_path, {"remote": url}) as driver, EmbeddedBroker() as broker:
            check_all_four(driver, broker, tmp_path / "installed")
