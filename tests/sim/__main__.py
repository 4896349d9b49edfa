"""`python -m tests.sim --runs 10000 --seed 0 --processes 2`: prove the delay promise.

A timer that was accepted and is durable is released or recalled exactly once, crash or not; never
early; never lost, however long the downtime. Every run is decided by its seed; a seed that fails
is printed with the command that repeats it, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys

from rocketmq_py.clock import monotonic
from tests.sim.runs import Report, be_quiet, play_many


def main(arguments: list[str]) -> int:
    """Play the runs and print what they add up to."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="how many seeds to play")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--engine", choices=("wheel", "sliced"), default="wheel")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--trace", action="store_true", help="print every step of a failing run")
    chosen = parser.parse_args(arguments)

    be_quiet()
    started = monotonic()
    report = Report(chosen.engine)
    seeds = range(chosen.seed, chosen.seed + chosen.runs)
    for outcome in play_many(seeds, chosen.processes, chosen.engine):
        report.add(outcome)
        if outcome.error:
            print(f"FAILED seed {outcome.seed}: {outcome.error}", flush=True)
            print(outcome.details if chosen.trace else f"  repeat: {outcome.command}", flush=True)
        if report.runs % 1000 == 0:
            print(f"{report.runs} runs, {monotonic() - started:.0f} s", flush=True)
    elapsed_s = monotonic() - started
    print("\n".join(report.lines()))
    print(f"{report.runs} runs in {elapsed_s:.1f} s, {report.runs / elapsed_s:.1f} a second")
    zeros = report.zeros() if report.runs >= 100 else []
    if zeros:
        print(f"FAILED: never happened, so not proven: {', '.join(zeros)}")
    print(f"{len(report.failed)} failed")
    return 1 if report.failed or zeros else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
