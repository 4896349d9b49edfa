"""Runs of ``tests/sdk`` on one backend of the kit: what it can do passes, the rest is skipped.

``tests/sdk`` is written for any broker, and `make test` runs it on the embedded one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.interop.java_tools import CACHE, ROOT

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
