"""`python -m tests.hostile --runs 300`: damage the files of stores; nothing may be lost in silence.

Each seed draws a store (wheel, sliced, or written by a real 5.3.3 broker; closed or killed), one of
its files and a damage: a flipped bit, or the file cut short, emptied, deleted, or swapped.
The table says what became of them. Exit status 1 if any loss was silent.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.hostile.corruptions import GOOD, Verdict, play


def main(arguments: list[str]) -> int:
    """Play the damages and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--all", action="store_true", help="print every damage, not only failures")
    chosen = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    table: Counter[tuple[str, Verdict]] = Counter()
    bad = 0
    memory = Path("/dev/shm")  # noqa: S108 - fsync of a disk is what takes the time
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        for one in play(range(chosen.seed, chosen.seed + chosen.runs), Path(folder)):
            table[one.damage.split()[0], one.verdict] += 1
            bad += one.verdict not in GOOD
            if chosen.all or one.verdict not in GOOD:
                print(f"{one.seed} {one.store}: {one.damage}: {one.verdict}", flush=True)
                print(f"    {one.before} -> {one.after} {one.text[:400]}", flush=True)
    verdicts = [one for one in Verdict if any(key[1] is one for key in table)]
    print("".join(f"{word:>24}" for word in ("", *verdicts)))
    for kind in sorted({key[0] for key in table}):
        print("".join(f"{word:>24}" for word in (kind, *(table[kind, one] for one in verdicts))))
    print(f"{chosen.runs} damages, {bad} silent or worse")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
