"""`python -m tests.soak --minutes 30 --seed N`: do the clients keep their promises under faults?

Three brokers in processes of their own are killed, stopped, restarted, slowed down and cut off, as
the seed says. Each fault is told as it ends. Exit status 1 says that a promise was broken; the
seed, the faults and the messages concerned are printed, and the brokers' logs are kept.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.soak.soak import Soak


def main(arguments: list[str]) -> int:
    """Run one soak and print its story."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--log", action="store_true", help="print what the clients log, too")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    if not chosen.log:
        logging.disable(logging.CRITICAL)
    home = Path(tempfile.mkdtemp(prefix="soak-"))
    print(f"seed {chosen.seed}, stores and logs of the brokers in {home}", flush=True)
    failures = Soak(home, chosen.seed, chosen.minutes * 60, partial(print, flush=True)).run()
    for failure in failures:
        print(f"FAILED seed {chosen.seed}: {failure}")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
