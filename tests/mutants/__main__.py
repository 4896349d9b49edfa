"""`python -m tests.mutants [letter, case or room ...]`: do the tests notice a broken line?

Each mutant is one wrong line of the broker in a private copy of the tree; only the tests that it
names are run. Exit status 1 when one survives, when its old line is no longer there, or when those
tests fail on the unbroken tree.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from rocketmq_py.clock import monotonic
from tests.cases import proofs
from tests.mutants.mutant import Mutant
from tests.mutants.table import MUTANTS
from tests.mutants.trial import Copy, Verdict

ALL_TESTS_TIMEOUT_S = 900


def tests_of(mutants: list[Mutant]) -> dict[str, list[str]]:
    """Tests to run for each mutant, by title."""
    found = proofs()
    return {
        mutant.title: sorted(
            {test for case in mutant.cases for test in found.get(case, [])} | {*mutant.tests}
        )
        for mutant in mutants
    }


def try_all(
    mutants: list[Mutant], tests: dict[str, list[str]], processes: int
) -> Iterator[Verdict]:
    """Try every mutant, several at once, each copy of the tree holding one."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(processes):
            copies.put(Copy(Path(folder) / str(number)))
        copy = copies.get()
        if not copy.uses_itself():
            raise SystemExit("the copy imports another tree: nothing was tried")
        everything = sorted({test for chosen in tests.values() for test in chosen})
        done = copy.run(everything, timeout_s=ALL_TESTS_TIMEOUT_S)
        copies.put(copy)
        if done.returncode:
            raise SystemExit(f"the tests fail without any mutant:\n{done.stdout[-2000:]}")

        def try_one(mutant: Mutant) -> Verdict:
            copy = copies.get()
            try:
                return copy.try_out(mutant, tests[mutant.title])
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(processes) as pool:
            yield from pool.map(try_one, mutants)


def main(arguments: list[str]) -> int:
    """Try the mutants and print what became of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("wanted", nargs="*", help="families, cases or rooms; all by default")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args(arguments)

    wanted = set(chosen.wanted)
    mutants = [
        mutant
        for mutant in MUTANTS
        if not wanted or mutant.family in wanted or wanted.intersection(mutant.cases)
    ]
    started = monotonic()
    caught: Counter[str] = Counter()
    bad: list[Verdict] = []
    for verdict in try_all(mutants, tests_of(mutants), chosen.processes):
        caught[verdict.mutant.family] += verdict.caught
        if verdict.caught:
            print(f"caught    {verdict.mutant.title}\n          by {verdict.caught_by}", flush=True)
            continue
        bad.append(verdict)
        print(f"{verdict.trouble or 'SURVIVED'}: {verdict.mutant.title}", flush=True)
    by_family = ", ".join(f"{family} {number}" for family, number in sorted(caught.items()))
    print(
        f"{caught.total()} of {len(mutants)} caught in {monotonic() - started:.0f} s: {by_family}"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
