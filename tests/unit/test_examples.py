"""Every example says in one line what it lacks, with the remedy, and counts as skipped then.

The recipes of ``examples/testing`` are tests: pytest says what they lack.
"""

from __future__ import annotations

import ast
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketmq_py.errors import how_to_install

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples"
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("_"))
SPARK = ["pyspark", "pyarrow", "numpy"]
SKIPPED = 77
WITHOUT = """
import runpy, sys
sys.modules.update(dict.fromkeys(sys.argv[2].split(",")))
sys.path.insert(0, "examples")
runpy.run_path(sys.argv[1], run_name="__main__")
"""
OURS = {"_needs", "_spark", "compat", "embedded_broker", "rocketmq_py", "spark_connector"}
OF_EVERY_INSTALLATION = {"attrs", "orjson", "typing_extensions"}


def run_without(path: Path, *blocked: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, str(path), ",".join(blocked)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
    )


def needs() -> Callable[..., list[str]]:
    found: Callable[..., list[str]] = runpy.run_path(str(FOLDER / "_needs.py"))["missing_packages"]
    return found


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_without_what_it_needs_says_so_in_one_line(path: Path) -> None:
    blocked, extra = (SPARK, "spark") if path.stem.startswith("spark") else (["rich"], "cli")
    done = run_without(path, *blocked)
    assert (done.returncode, done.stderr) == (SKIPPED, "")
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"SKIPPED {', '.join(blocked)}")
    assert how_to_install(extra) in line


def test_what_is_missing_is_found_below_a_package_that_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "blocked", None)
    asked = ("blocked.part", "blocked", "attrs", "json.decoder", "json.nothing")
    assert needs()(*asked) == ["blocked.part", "blocked", "json.nothing"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_what_comes_with_an_extra_is_imported_where_it_is_used(path: Path) -> None:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    names = {
        name.partition(".")[0]
        for one in body
        if isinstance(one, (ast.Import, ast.ImportFrom))
        for name in ([one.module or ""] if isinstance(one, ast.ImportFrom) else _names(one))
    }
    assert names <= OURS | OF_EVERY_INSTALLATION | sys.stdlib_module_names


def _names(one: ast.Import) -> list[str]:
    return [alias.name for alias in one.names]


@pytest.mark.parametrize(
    ("status", "ci", "exit_status", "told"),
    [
        (SKIPPED, "", 0, "left out: -c raise SystemExit(77) (above is said what was lacking)"),
        (SKIPPED, "true", 1, "FAILED  in CI nothing may be left out"),
        (1, "", 1, "FAILED  one: "),
        (0, "true", 0, "left out: nothing"),
    ],
)
def test_a_skipped_example_is_told_at_the_end_and_fails_the_gate_in_ci_alone(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: int,
    ci: str,
    exit_status: int,
    told: str,
) -> None:
    monkeypatch.setenv("CI", ci)
    gate = runpy.run_path(str(ROOT / ".ci" / "parts.py"))
    gate["main"].__globals__["give_spark_a_java"] = lambda _folder: None
    gate["PARTS"]["one"] = [[sys.executable, "-c", f"raise SystemExit({status})"]]
    assert gate["main"](["one"]) == exit_status
    assert capsys.readouterr().out.splitlines()[-1].startswith(told)


@pytest.mark.parametrize(
    ("statuses", "status"),
    [([0, 0], 0), ([0, 77, 0], 77), ([77, 1, 0], 1), (["'wrong'"], 1), (["ValueError()"], 1)],
)
def test_examples_of_one_process_all_run_and_the_worst_status_counts(
    tmp_path: Path, statuses: list[object], status: int
) -> None:
    programs = []
    for number, wanted in enumerate(statuses):
        program = tmp_path / f"example_{number}.py"
        program.write_text(f"import sys; print(sys.argv, __name__)\nsys.exit({wanted})\n")
        programs.append(str(program))
    runner = str(ROOT / ".ci" / "in_one_process.py")
    done = subprocess.run(
        [sys.executable, runner, *programs], capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    said = [line for line in done.stdout.splitlines() if not line.startswith("$ ")]
    assert said == [f"{[program]} __main__" for program in programs]
