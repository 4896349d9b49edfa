"""`python -m tests.perf NAME ... [--rows N --runs N --batches N]`: take the figures.

Figures are kept in `results/NAME.json`, in the place of those of last time; `all` takes all of
them, as `make bench` does. The options are for the Spark benches; with them the figures are a
trial and kept apart.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from importlib.util import find_spec

from tests.perf import java_load, spark_scale, timer_store
from tests.perf.spark_session import USUAL, add_options

BENCHES = (
    "imports",
    "startup",
    "idle",
    "idle_connections",
    "timer_error",
    *timer_store.PARTS,
    "sliced",
    "client_path",
    "aio",
    "consuming",
    "many_consumers",
    "lost_host",
    *java_load.PARTS,
    "java_consume",
    "java_ceiling",
    "grpc_calls",
    "peers",
    "acl",
    "old_and_new",
    "topics",
    "sql",
    "spark_read",
    "spark_write",
    "spark_memory",
    *spark_scale.PARTS,
)


def chosen(arguments: list[str]) -> list[str]:
    """Return the benches that the command line names; what it must not say ends the program."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.perf",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        choices=("all", *BENCHES),
        help=f"all, {', '.join(BENCHES)}",
    )
    add_options(parser)
    given = parser.parse_args(arguments)
    names = list(BENCHES) if "all" in given.names else given.names
    sizes = {name: getattr(given, name) for name in USUAL}
    if min(sizes.values()) < 1:
        parser.error(f"sizes must be 1 or more: {sizes}")
    others = [name for name in names if not name.startswith("spark_")]
    if sizes != USUAL and others:
        # They would take their usual figures and keep them.
        parser.error(f"only the Spark benches have options: {', '.join(others)} take none")
    return names


def main(arguments: list[str]) -> None:
    """Run the chosen benches one after the other."""
    for name in chosen(arguments):
        print(f"== {name}", flush=True)
        if name.startswith("spark_") and find_spec("pyspark") is None:
            print("left out: PySpark is not installed, which make test does")
            continue
        if name in timer_store.PARTS:
            timer_store.main(name)
        elif name in spark_scale.PARTS:
            spark_scale.main(name)
        elif name in java_load.PARTS:
            java_load.main(name)
        else:
            importlib.import_module(f"tests.perf.{name}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
