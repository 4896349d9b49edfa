"""House rules that a reader cannot check by eye: who reads a clock, what an import does."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.architecture.source_tree import PACKAGES, ROOT, python_files

CLOCK_FILES = {"rocketmq_py/clock.py", "embedded_broker/clocks/clock.py"}
CLOCK_CALLS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep"}
VAGUE_NAMES = {"utils.py", "common.py", "helpers.py", "manager.py", "misc.py", "util.py"}


def clock_reads(source: str) -> list[int]:
    """Lines that call the time module or ask datetime for the present."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value
        name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
        if name == "time" and node.func.attr in CLOCK_CALLS:
            lines.append(node.lineno)
        if name == "datetime" and node.func.attr in {"now", "utcnow", "today"}:
            lines.append(node.lineno)
    return lines


def test_only_the_clock_modules_read_a_clock() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_files(*PACKAGES)
        if str(path.relative_to(ROOT)) not in CLOCK_FILES
        for line in clock_reads(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_clock_read_would_be_seen() -> None:
    assert clock_reads("import time\ntime.time()\ndatetime.now()") == [2, 3]


def test_every_logger_of_sdk_and_broker_is_shielded_from_its_handlers() -> None:
    """An error of the application's handler would end the thread that logs."""
    found = [
        str(path.relative_to(ROOT))
        for path in python_files("rocketmq_py", "embedded_broker")
        if "getLogger(__name__)" in path.read_text(encoding="utf-8")
    ]
    assert found == []


def test_no_file_has_a_name_without_a_noun() -> None:
    assert [str(p) for p in python_files(*PACKAGES, "tests") if p.name in VAGUE_NAMES] == []


def test_nobody_is_told_to_install_from_an_index_where_the_package_is_not() -> None:
    pages = [*ROOT.glob("*.md"), ROOT / "spark_connector" / "README.md"]
    files = [*python_files(*PACKAGES, "examples"), *pages]
    told = [str(one) for one in files if "rocketmq-py[" in one.read_text(encoding="utf-8")]
    assert told == []


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_starts_nothing_and_configures_nothing(package: str) -> None:
    probe = (
        "import threading, logging, sys\n"
        f"import {package}\n"
        "assert threading.active_count() == 1\n"
        "assert logging.getLogger().handlers == []\n"
        "assert not {'asyncio', 'ssl'} & set(sys.modules), 'asyncio or ssl imported'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 0
