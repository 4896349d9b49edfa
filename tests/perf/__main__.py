"""`python -m tests.perf [NAME ...] [--rows N --runs N ...]`: take the figures; without names, all.

The options are for the Spark benches; with them the figures are a trial and kept apart.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from itertools import takewhile

from tests.perf import timer_store

BENCHES = (
    "imports",
    "startup",
    "idle",
    "timer_error",
    *timer_store.PARTS,
    "sliced",
    "client_path",
    "java_load",
    "java_ceiling",
    "spark_read",
    "spark_write",
    "spark_memory",
)


def main(names: list[str]) -> None:
    """Run the named benches one after the other."""
    names = list(takewhile(lambda word: not word.startswith("--"), names))
    for name in names or BENCHES:
        print(f"== {name}", flush=True)
        if name.startswith("spark_") and find_spec("pyspark") is None:
            print("left out: PySpark is not installed, which make spark does")
            continue
        if name in timer_store.PARTS:
            timer_store.main(name)
        else:
            importlib.import_module(f"tests.perf.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
