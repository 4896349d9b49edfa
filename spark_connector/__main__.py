"""`python -m spark_connector bundle OUT.zip`: the command line of the connector, which is small.

Must not know more than its arguments. Read on: ``bundle.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from spark_connector.bundle import write_bundle

USAGE = "usage: python -m spark_connector bundle OUT.zip"


def main(arguments: list[str]) -> int:
    """Run one command; exit status 2 for anything else than ``bundle OUT.zip``."""
    if len(arguments) != len(("bundle", "OUT.zip")) or arguments[0] != "bundle":
        sys.stderr.write(f"{USAGE}\n")
        return 2
    target = Path(arguments[1])
    count = write_bundle(target)
    sys.stdout.write(f"{target}: {count} files, for --py-files\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
