"""The data source on each Spark 4: ``make spark-versions`` runs these tests on all of them.

``python -m tests.spark.versions 4.0.5 4.1.4 [-- PYTEST ARGUMENTS]``. Each version of PySpark is
installed into a folder of its own, below ``.cache``, that stands in front of the environment's.
A test of what an older Spark lacks is refused there by name, and counts as skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("4.0.5", "4.1.4", "4.2.1", "4.3.0")
"""The newest of each minor version when this was written."""
TESTS = ["tests/spark", "-m", "not slow", "-p", "no:randomly"]


def installed(version: str) -> Path:
    """Return the folder with a version of PySpark, installed unless it is there."""
    folder = ROOT / ".cache" / "pyspark" / version
    if not (folder / "pyspark").is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        subprocess.run([*pip, f"pyspark=={version}"], check=True)
    return folder


def run_on(version: str, arguments: list[str]) -> tuple[int, str]:
    """Run the tests on one version; returns the exit status and the last line of pytest."""
    path = os.pathsep.join([str(installed(version)), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *(arguments or TESTS)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout, flush=True)
    return done.returncode, done.stdout.strip().rpartition("\n")[2]


def main(arguments: list[str]) -> int:
    """Run and print a line for each version; 1 when a test has failed on one."""
    given, _, rest = " ".join(arguments).partition("--")
    results = {version: run_on(version, rest.split()) for version in given.split() or VERSIONS}
    for version, (_, line) in results.items():
        print(f"Spark {version}: {line}")
    return int(any(status for status, _ in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
