"""What type checkers refuse: every marked line of ``tests/typing/refused.py``, and no other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FILE: Final = "tests/typing/refused.py"
LINES: Final = (ROOT / FILE).read_text("utf-8").splitlines()
MARKED: Final = {number for number, line in enumerate(LINES, 1) if line.endswith("  # refused")}
LINES_MIN: Final = 80


def refused_by_mypy() -> set[int]:
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty", FILE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found = re.findall(rf"^{FILE}:(\d+): error", done.stdout, re.MULTILINE)
    return {int(number) for number in found}


def refused_by_pyright(directory: Path) -> set[int]:
    config = directory / "pyrightconfig.json"
    settings = {  # "standard": errors of types only, none of what is not used
        "include": [str(ROOT / FILE)],
        "extraPaths": [str(ROOT)],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
    }
    config.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "-p", str(config), "--outputjson"]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    assert answer["summary"]["filesAnalyzed"] == 1, done.stdout
    return {
        one["range"]["start"]["line"] + 1
        for one in answer["generalDiagnostics"]
        if one["severity"] == "error"
    }


@pytest.mark.timeout(300)
def test_every_marked_mistake_is_refused_and_nothing_else(tmp_path: Path) -> None:
    refused = refused_by_mypy() | refused_by_pyright(tmp_path)
    assert len(MARKED) >= LINES_MIN
    accepted = [f"{number}: {LINES[number - 1].strip()}" for number in sorted(MARKED - refused)]
    assert accepted == []
    others = [f"{number}: {LINES[number - 1].strip()}" for number in sorted(refused - MARKED)]
    assert others == []
