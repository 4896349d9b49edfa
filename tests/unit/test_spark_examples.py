"""The Spark examples say why they do not run where Spark is missing; in CI that is a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("spark_*.py"))
WITHOUT_SPARK = """
import runpy, sys
sys.modules["pyspark"] = None
sys.path.insert(0, "examples")
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def run(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, str(path)],
        cwd=ROOT,
        env=clean | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_without_spark_is_skipped_with_its_reason(path: Path) -> None:
    done = run(path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("SKIPPED pyspark")


def test_an_example_without_spark_fails_in_ci() -> None:
    done = run(EXAMPLES[0], CI="true")
    assert done.returncode == 1
    assert "FAILED  pyspark" in done.stdout
