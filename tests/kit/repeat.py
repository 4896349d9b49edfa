"""Run the tests of the shop again and again, in random order: not one may fail now and then.

    python -m tests.kit.repeat --runs 20 [--workers 2] [--seed N] [TESTS ...]

Every run has an order of its own. A line tells its seed, its seconds by the wall and of the
processor, and how many tests passed. The exit status is 1 when any run failed; the seed repeats
its order.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from random import SystemRandom

from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]
SHOP = "tests/kit/shop"
LIMIT_S = 20.0
"""Within this many seconds a suite of two hundred tests is to run on two cores."""
TIMEOUT_S = 600
_PASSED = re.compile(r"(\d+) passed")
_NOT_PASSED = re.compile(r"\d+ (failed|error|skipped|xfailed|xpassed)")


@frozen
class Ran:
    """One run of the tests."""

    seed: int
    wall_s: float
    cpu_s: float
    passed: int
    told: str
    ok: bool

    def line(self) -> str:
        """Tell it on a line."""
        slow = "" if self.wall_s < LIMIT_S else f"  slower than {LIMIT_S:g} s"
        result = f"{self.passed} passed" if self.ok else "FAILED"
        return (
            f"seed {self.seed:>10}  {self.wall_s:6.1f} s  cpu {self.cpu_s:6.1f} s  {result}{slow}"
        )


def run_once(tests: list[str], seed: int, workers: int) -> Ran:
    """Run the tests in the order of a seed."""
    spread = ["-n", str(workers)] if workers else ["-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *spread]
    began, before = time.monotonic(), os.times()
    done = subprocess.run(
        [*command, f"--randomly-seed={seed}", *tests],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    wall_s, after = time.monotonic() - began, os.times()
    cpu_s = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    last = done.stdout.strip().rpartition("\n")[2]
    found = _PASSED.search(last)
    ok = done.returncode == 0 and found is not None and _NOT_PASSED.search(last) is None
    return Ran(seed, wall_s, cpu_s, int(found[1]) if found else 0, done.stdout, ok)


def main(arguments: list[str]) -> int:
    """Run as often as asked for; 1 when a run failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.repeat", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--workers", type=int, default=0, help="processes of pytest-xdist (none)")
    parser.add_argument("--seed", type=int, help="the order of the first run; the next ones follow")
    parser.add_argument("tests", nargs="*", default=[SHOP])
    given = parser.parse_args(arguments)
    first = SystemRandom().randrange(1 << 31) if given.seed is None else given.seed
    ran = []
    for seed in range(first, first + given.runs):
        one = run_once(given.tests, seed, given.workers)
        ran.append(one)
        print(one.line(), flush=True)
        if not one.ok:
            print(one.told, flush=True)
    failed = sum(not one.ok for one in ran)
    slowest = max((one.wall_s for one in ran), default=0.0)
    print(f"{len(ran)} runs, {failed} failed, slowest {slowest:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
