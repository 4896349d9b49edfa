"""The example of declared schemas with the package of Spark's that can be fetched.

It runs in the session of its own that a package needs. That of protobuf is not fetched: it is not
published for this version of Spark. What is tested is that its bodies arrive, and what is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from embedded_broker.kit.maven import fetched

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "interop"
AVRO = "4.1.1"  # the newest one that is published; Spark 4.3 takes it


def test_without_the_package_protobuf_the_example_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    example = import_module("spark_declared_schemas")
    monkeypatch.setattr(example, "missing_packages", lambda *names: list(names))
    with pytest.raises(example.MissingError, match="pip install protobuf"):
        example.from_protobuf_bodies(None)


@pytest.mark.slow
def test_bodies_of_json_avro_and_protobuf_are_read_by_sparks_functions() -> None:
    package = f"org.apache.spark:spark-avro_2.13:{AVRO}"
    (jar,) = fetched(f"spark-avro-{AVRO}", package, cache=CACHE, alone=True).glob("*.jar")
    done = subprocess.run(
        [sys.executable, "examples/spark_declared_schemas.py", "--jars", str(jar)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    missing, read = done.stdout.splitlines()
    assert (
        missing == "SKIPPED protobuf needs --packages org.apache.spark:spark-protobuf_2.13:VERSION"
    )
    orders = "[(1, 'north', 9.5), (2, 'south', 12.0), (3, 'north', 0.25)]"
    assert read == f"OK      orders from JSON: {orders}; orders from Avro: {orders}"
