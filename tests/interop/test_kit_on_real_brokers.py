"""Tests of the SDK on real brokers, by the option of the kit: what these cannot do is skipped.

``tests/sdk`` is written for any broker, and `make test` runs it on the embedded one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.java_tools import CACHE, ROOT
from tests.pages import commands_of, files_of, is_as_shown, printed

ROOM = "tests/sdk"
TESTS = 544
"""In the room, without the slow ones. Each is run or skipped on every broker."""
POPS = 164
"""Those of them that pop, which brokers before 5.0 cannot."""
NEW = 9
"""Further ones that need 5.0: delays of any length, and what administrators ask of such brokers."""
EMBEDDED = 2
"""Those for an embedded broker alone: a test moves its clock, or stops one of several."""
DELAYS = "tests/sdk/test_delays.py"
LONG_SECONDS = 3_000
"""Real brokers start again for some tests, and keep locks of vanished members for a minute."""
PAGE = "TUTORIAL.md"
COMMANDS = commands_of(PAGE)


def outcomes(backend: str, tests: str = ROOM) -> tuple[dict[str, int], str]:
    """Run tests on a backend; how many tests passed and were skipped, and what was printed."""
    plain = ["-q", "-rs", "-p", "no:randomly", "-p", "no:cacheprovider"]
    plain += ["-m", "not slow"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, f"--rocketmq={backend}", tests],
        cwd=ROOT,
        env={**os.environ, "ROCKETMQ_PY_CACHE": str(CACHE)},
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
    )
    print(done.stdout)
    last = done.stdout.strip().splitlines()[-1]
    found = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", last)}
    return {
        word: found.get(word, 0) for word in ("passed", "skipped", "failed", "error")
    }, done.stdout


def counts(passed: int, skipped: int) -> dict[str, int]:
    return {"passed": passed, "skipped": skipped, "failed": 0, "error": 0}


def test_embedded() -> None:
    found, _ = outcomes("embedded")
    assert found == counts(TESTS, 0)


@pytest.mark.smoke
def test_delays_on_a_process_of_5x() -> None:
    found, said = outcomes("process:5.3.3", DELAYS)
    assert found == counts(5, 1)
    assert "rocketmq_clock: process:5.3.3 does not offer a clock that the test moves" in said


@pytest.mark.case("W110")
@pytest.mark.timeout(LONG_SECONDS + 100)
def test_a_process_of_5x() -> None:
    found, _ = outcomes("process:5.3.3")
    assert found == counts(TESTS - EMBEDDED, EMBEDDED)


@pytest.mark.case("W110")
@pytest.mark.timeout(LONG_SECONDS + 100)
def test_a_process_of_49() -> None:
    found, said = outcomes("process:4.9.7")
    skipped = POPS + NEW + EMBEDDED
    assert found == counts(TESTS - skipped, skipped)
    assert "RocketMQ has pops since 5.0: code 3" in said
    assert "process:4.9.7 does not offer delays of any length: RocketMQ has them since" in said


def test_a_container(engine_image: str) -> None:
    found, said = outcomes(f"container:{engine_image}", DELAYS)
    assert found == counts(4, 2)
    assert "does not offer a store that is opened again" in said


@pytest.mark.parametrize("command", [one for one in COMMANDS if "--rocketmq=process" in one])
def test_the_tutorial_shows_what_real_brokers_do(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETMQ_PY_CACHE", str(CACHE))
    told = printed(command, files_of(PAGE), tmp_path)
    assert is_as_shown(COMMANDS[command], told), told
