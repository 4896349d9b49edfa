"""How a figure is taken and kept: five runs, median, spread, and the command, as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from attrs import asdict, frozen

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results"
RUNS = 5

# What a user's interpreter does: compiled modules are kept between runs.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


@frozen
class Figure:
    """One measured quantity and the bar it should reach."""

    name: str
    unit: str
    runs: list[float]
    bar: str
    reached: bool

    @property
    def median(self) -> float:
        """The value to quote."""
        return statistics.median(self.runs)


def figure(
    name: str, unit: str, runs: list[float], *, at_most: float = 0.0, at_least: float = 0.0
) -> Figure:
    """A figure with its bar; a bar of 0 is no bar."""
    median = statistics.median(runs)
    if at_most:
        return Figure(name, unit, runs, f"at most {at_most:g} {unit}", median <= at_most)
    if at_least:
        return Figure(name, unit, runs, f"at least {at_least:g} {unit}", median >= at_least)
    return Figure(name, unit, runs, "reported", True)


def five(take: Callable[[], float]) -> list[float]:
    """Five runs after one that does not count."""
    take()
    return [take() for _ in range(RUNS)]


def keep(bench: str, figures: list[Figure], **details: object) -> None:
    """Print the figures and write them to `results/<bench>.json`."""
    RESULTS.mkdir(exist_ok=True)
    rows = []
    for one in figures:
        low, high = min(one.runs), max(one.runs)
        mark = "ok " if one.reached else "MISS"
        print(
            f"{mark} {one.name}: median {one.median:.4g} {one.unit} "
            f"({low:.4g} .. {high:.4g}; {one.bar})"
        )
        rows.append({**asdict(one), "median": one.median, "spread": [low, high]})
    document = {
        "command": f"python -m tests.perf {bench}",
        "machine": {
            "system": platform.platform(),
            "python": sys.version.split()[0],
            "cores": len(cpus()),
        },
        "figures": rows,
        **details,
    }
    path = RESULTS / f"{bench}.json"
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def cpus() -> set[int]:
    """Processors this process may use."""
    return os.sched_getaffinity(0)
