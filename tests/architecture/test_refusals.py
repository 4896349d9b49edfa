"""What type checkers refuse: every marked line of the files named ``refused``, and no other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FILES: Final = ("tests/typing/refused.py", "tests/typing/refused_faces.py")
Line = tuple[str, int]
LINES: Final[dict[Line, str]] = {
    (file, number): line
    for file in FILES
    for number, line in enumerate((ROOT / file).read_text("utf-8").splitlines(), 1)
}
MARKED: Final = {place for place, line in LINES.items() if line.endswith("  # refused")}
LINES_MIN: Final = 80


def refused_by_mypy() -> set[Line]:
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--no-pretty", *FILES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    found = re.findall(r"^(\S+):(\d+): error", done.stdout, re.MULTILINE)
    return {(file, int(number)) for file, number in found}


def refused_by_pyright(directory: Path) -> set[Line]:
    config = directory / "pyrightconfig.json"
    settings = {  # "standard": errors of types only, none of what is not used
        "include": [str(ROOT / file) for file in FILES],
        "extraPaths": [str(ROOT)],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
    }
    config.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "-p", str(config), "--outputjson"]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    assert answer["summary"]["filesAnalyzed"] == len(FILES), done.stdout
    return {
        (Path(one["file"]).relative_to(ROOT).as_posix(), one["range"]["start"]["line"] + 1)
        for one in answer["generalDiagnostics"]
        if one["severity"] == "error"
    }


@pytest.mark.timeout(300)
def test_every_marked_mistake_is_refused_and_nothing_else(tmp_path: Path) -> None:
    refused = refused_by_mypy() | refused_by_pyright(tmp_path)
    assert len(MARKED) >= LINES_MIN
    accepted = [f"{place}: {LINES[place].strip()}" for place in sorted(MARKED - refused)]
    assert accepted == []
    others = [f"{place}: {LINES[place].strip()}" for place in sorted(refused - MARKED)]
    assert others == []
