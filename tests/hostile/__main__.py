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
from pathlib import Path

from tests.hostile.corruptions import GOOD, Damages, table_of
from tests.hostile.stores import MEMORY


def main(arguments: list[str]) -> int:
    """Play the damages and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--all", action="store_true", help="print every damage, not only failures")
    chosen = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    outcomes = []
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        damages = Damages(Path(folder))
        for seed in range(chosen.seed, chosen.seed + chosen.runs):
            one = damages.play(seed)
            outcomes.append(one)
            if chosen.all or one.verdict not in GOOD:
                print(one.line(), flush=True)
    print("\n".join(table_of(outcomes)))
    return 1 if any(one.verdict not in GOOD for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
