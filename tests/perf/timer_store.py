"""What timers cost: accepting, waiting in memory, releasing, hopping, recovering.

Every case runs in a process of its own (`timer_store_cases.py`). Rates of one processor core are
taken from CPU time, so that other programs on the machine count less; what a user waits for is
wall time, and stands beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.perf.measure import ENVIRONMENT, ROOT, RUNS, Figure, figure, keep

TIMERS = 100_000
MANY = 500_000
MILLION = 1_000_000
HOPPING = 10_000
CASE_SECONDS = 900.0


def case(name: str, *arguments: object) -> dict[str, float]:
    """Run one case in a fresh process."""
    command = [sys.executable, "-m", "tests.perf.timer_store_cases", name, *map(str, arguments)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=ENVIRONMENT,
        check=True,
        capture_output=True,
        text=True,
        timeout=CASE_SECONDS,
    )
    numbers: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def cases(name: str, *arguments: object) -> list[dict[str, float]]:
    """Run it as often as a figure needs."""
    return [case(name, *arguments) for _ in range(RUNS)]


def values(taken: Iterable[dict[str, float]], name: str) -> list[float]:
    return [numbers[name] for numbers in taken]


def accepting() -> list[Figure]:
    """From a put, or from the request's frame, to the slot of the wheel."""
    puts = cases("put", TIMERS)
    single = cases("frames", TIMERS // 2, 1, 1)
    pieces = cases("frames", TIMERS // 2, 32, 1)
    plain = cases("frames", TIMERS // 2, 32, 0)
    return [
        figure("put to slot", "timers/s of a core", values(puts, "rate"), at_least=40_000),
        figure("frame to slot", "timers/s of a core", values(pieces, "rate"), at_least=30_000),
        figure("frame to slot, one at a time", "timers/s of a core", values(single, "rate")),
        figure("frame to queue, no delay", "us/message", values(plain, "us")),
        figure("pull", "us/message", values(cases("pulls", TIMERS // 2), "us")),
    ]


def releasing() -> list[Figure]:
    """Many timers of one instant, and how long the door is held meanwhile."""
    burst, more = cases("burst", TIMERS), cases("burst", MANY)
    turns = cases("turns", TIMERS)
    return [
        figure("100k of one instant, due to pulled", "s CPU", values(burst, "cpu"), at_most=2),
        figure("100k of one instant, wall", "s", values(burst, "wall")),
        figure("loading a slot", "us/timer", values(burst, "load_us")),
        figure("releasing a slot", "us/timer", values(burst, "release_us")),
        figure("500k of one instant, due to pulled", "s CPU", values(more, "cpu"), at_most=12),
        figure("500k of one instant, wall", "s", values(more, "wall")),
        figure("hold of the door, p99", "ms CPU", values(turns, "cpu_p99"), at_most=6),
        figure("hold of the door, longest", "ms CPU", values(turns, "cpu_max")),
        figure("hold of the door, p99 wall", "ms", values(turns, "wall_p99")),
    ]


def jumping() -> list[Figure]:
    """Jumps of the clock over many days."""
    near = cases("jump", TIMERS, 0, 2, 40)
    far = cases("jump", TIMERS, 40, 40, 41)
    hops = cases("hops", HOPPING)
    return [
        figure("40 days over 100k of two days", "s CPU", values(near, "cpu"), at_most=3),
        figure("40 days over 100k of day 40", "s CPU", values(far, "cpu"), at_most=3),
        figure("a hop that is made", "us", values(hops, "us"), at_most=40),
        figure("10k timers x 20 hops", "s CPU", values(hops, "cpu")),
        figure("10k timers x 20 hops, log growth", "MB", values(hops, "log_mb")),
        figure("10k timers x 20 hops, timer log growth", "MB", values(hops, "timer_log_mb")),
    ]


def waiting() -> list[Figure]:
    """A million timers on a disk: memory, and finding them again."""
    built, killed, clean, rolled = [], [], [], []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as home:
            store = str(Path(home) / "store")
            built.append(case("build", store, MILLION, 3, 0))
            killed.append(case("reopen", store))
            clean.append(case("reopen", store))
        with tempfile.TemporaryDirectory() as home:
            rolled.append(case("build", str(Path(home) / "store"), MILLION, 10, 3))
    return [
        figure("memory", "bytes/timer", values(built, "bytes_each"), at_most=64),
        figure("memory of rolled ones", "bytes/timer", values(rolled, "bytes_each"), at_most=80),
        figure("opening after a kill", "s CPU", values(killed, "open_cpu"), at_most=10),
        figure("opening after a kill, wall", "s", values(killed, "open_wall")),
        figure("opening after a stop", "s CPU", values(clean, "open_cpu"), at_most=5),
        figure("opening after a stop, wall", "s", values(clean, "open_wall")),
        figure("listing the next 100", "ms", values(clean, "listing_ms"), at_most=5),
        figure("listing the next 100, first time", "ms", values(clean, "first_listing_ms")),
    ]


def reopening() -> list[Figure]:
    """A million timers on a disk, whose broker was killed: they are checked and found again."""
    with tempfile.TemporaryDirectory() as home:
        store = str(Path(home) / "store")
        case("build", store, MILLION, 3, 0)
        killed = cases("reopen_and_die", store)
    # The first of them are due by the time that the store is opened again.
    if min(values(killed, "pending")) < MILLION * 0.99 or any(values(killed, "problems")):
        raise RuntimeError(f"not all timers were found: {killed}")
    return [
        figure("opening after a kill", "s CPU", values(killed, "open_cpu"), at_most=12),
        figure("opening after a kill, wall", "s", values(killed, "open_wall")),
    ]


PARTS = {
    "timer_accept": accepting,
    "timer_release": releasing,
    "timer_jump": jumping,
    "timer_wait": waiting,
    "timer_reopen": reopening,
}
"""Each has its own file of results: all of them take most of an hour."""


def main(part: str) -> None:
    keep(part, PARTS[part](), timers=TIMERS, waiting_timers=MILLION, body_bytes=100)
