"""What pip installs: the four packages with their type markers, and Spark's discovery module."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.architecture.source_tree import PACKAGES, ROOT, python_files

SHIM_PACKAGE = "pyspark_rocketmq"
SHIM = f"{SHIM_PACKAGE}/__init__.py"
MADE_FROM = "spark_connector/discovery.py"
"""Where Spark finds the data source in the wheel, and the file it is made from."""


def test_the_wheel_holds_the_four_packages_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    installed = {name for name in names if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in installed} == {*PACKAGES, SHIM_PACKAGE}
    installed.remove(SHIM)
    assert {f"{package}/py.typed" for package in PACKAGES} <= installed
    sources = {str(path.relative_to(ROOT)) for path in python_files(*PACKAGES)} - {MADE_FROM}
    assert sources <= installed
    assert {name for name in installed - sources if not name.endswith("py.typed")} == set()
