"""`python -m tests.fuzz --frames 1000000`: send a broker mutants of frames; print the funnel."""

from __future__ import annotations

import argparse
import logging
import sys

from tests.fuzz.run import run


def main(arguments: list[str]) -> int:
    """Send them; exit status 1 when too few got far, or something was left behind."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    funnel = run(chosen.frames, chosen.processes, chosen.seed)
    print("\n".join(funnel.lines()))
    return 0 if funnel.is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
