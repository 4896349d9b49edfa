"""Many runs: one after the other, or spread over processes; what they did, added up.

Answers: what came out of a seed, and what out of all of them. Must not know: what a run does.
Read on: `__main__.py` for the command, `story.py` for a run.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context

from attrs import define, field

from tests.sim.story import OPERATIONS, TIMERS_LEAST, Story

LEAST = {"operations": OPERATIONS, "timers": TIMERS_LEAST, "crashes": 2}
"""What every run must have done."""
NEVER_ZERO = (
    "operations",
    "sends",
    "recalls",
    "exact recalls",
    "reschedules",
    "fire nows",
    "changes of role",
    "holds",
    "crashes",
    "kills",
    "power losses",
    "crashes in recovery",
    "torn writes",
    "lost syncs",
    "lost names",
    "failed syncs",
    "clean restarts",
    "clock set back",
    "config saves refused",
    "flips refused",
    "flips said",
)
SEEN_NEVER_ZERO = (
    "timers",
    "moved timers",
    "releases",
    "rolls",
    "marks that hit",
    "levels",
    "immediate",
)
CHECKS_NEVER_ZERO = (
    "nothing early",
    "nothing twice",
    "recalled stays away",
    "nothing late or lost",
    "same content",
    "counts equal the truth",
    "listing equals the truth",
    "log and queues agree",
    "consumers see the log",
    "store walk",
    "what was durable is kept",
    "acknowledged is durable",
    "a generation can be read",
    "saved when there is room",
)


@define(slots=True)
class Outcome:
    """What one run did; `error` is empty when every invariant held."""

    seed: int
    error: str
    details: str
    totals: Counter[str]
    seen: Counter[str]
    checks: Counter[str]
    engine: str = "wheel"

    @property
    def command(self) -> str:
        """What to type to see it again."""
        engine = "" if self.engine == "wheel" else f" --engine {self.engine}"
        return f"python -m tests.sim{engine} --seed {self.seed} --runs 1 --trace"


@define(slots=True)
class Report:
    """The sum over runs."""

    engine: str = "wheel"
    runs: int = 0
    totals: Counter[str] = field(factory=Counter)
    seen: Counter[str] = field(factory=Counter)
    checks: Counter[str] = field(factory=Counter)
    failed: list[Outcome] = field(factory=list)

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        self.totals += outcome.totals
        self.seen += outcome.seen
        self.checks += outcome.checks
        if outcome.error:
            self.failed.append(outcome)

    def zeros(self) -> list[str]:
        """Name what never happened although it should have: then the runs prove nothing of it."""
        return [
            *(name for name in NEVER_ZERO if not self.totals[name]),
            *(
                name
                for name in SEEN_NEVER_ZERO
                if not self.seen[name] and (name != "rolls" or self.engine == "wheel")
            ),
            *(name for name in CHECKS_NEVER_ZERO if not self.checks[name]),
        ]

    def lines(self) -> list[str]:
        """Give the report as text."""
        tables = (
            ("what happened", self.totals),
            ("records seen", self.seen),
            ("checks", self.checks),
        )
        lines: list[str] = []
        for title, table in tables:
            lines.append(f"{title}:")
            lines += [f"  {number:>12,}  {name}" for name, number in sorted(table.items())]
        return lines


def play(seed: int, engine: str = "wheel", *, harms: bool = True) -> Outcome:
    """Play one run to its end, or to the first thing that is wrong."""
    story = Story(seed, engine, harms=harms)
    error = details = ""
    try:
        story.run()
    except Exception as found:  # noqa: BLE001 - whatever a broken broker raises is a result
        error = f"{type(found).__name__}: {found}"
        story.trace.append(f"settings {story.plan.settings}, slots {story.plan.slots}")
        details = "\n".join([*story.trace, traceback.format_exc()])
    totals, truth = story.totals, story.truth
    error = error or _too_little(totals, truth.seen)
    totals["torn writes"] = story.disk.torn_writes
    totals["config saves refused"] = story.disk.refused_saves
    totals["file changes"] = story.disk.changes
    return Outcome(seed, error, details, totals, truth.seen, truth.checks, engine)


def _too_little(totals: Counter[str], seen: Counter[str]) -> str:
    """Say what a run lacks to prove anything; empty when it did enough."""
    done = {
        "operations": totals["operations"],
        "timers": seen["timers"],
        "crashes": totals["crashes"],
    }
    lacks = [
        f"{done[name]} {name} of {least}" for name, least in LEAST.items() if done[name] < least
    ]
    return f"too little happened: {', '.join(lacks)}" if lacks else ""


def play_many(seeds: range, processes: int, engine: str = "wheel") -> Iterator[Outcome]:
    """Play every seed, in any order."""
    one = partial(play, engine=engine)
    if processes <= 1:
        yield from map(one, seeds)
        return
    with get_context("spawn").Pool(processes, initializer=be_quiet) as pool:
        yield from pool.imap_unordered(one, seeds, chunksize=25)


def be_quiet() -> None:
    """Keep the broker's warnings of damaged files out of the output: damage is the point."""
    import logging

    logging.disable(logging.CRITICAL)
