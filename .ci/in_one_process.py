"""Run programs one after the other in one process, so that those of Spark share one JVM.

Exit status 1 when one has failed, else 77 when one lacked something and has said what.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path

SKIPPED = 77


def status_of(program: str) -> int:
    """Run one program as Python does, and give its exit status."""
    print(f"$ {program}", flush=True)
    sys.argv = [program]
    sys.path[0] = str(Path(program).resolve().parent)
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # noqa: BLE001 - the others have their turn
        traceback.print_exc()
        return 1
    return 0


def main(programs: list[str]) -> int:
    """Run all."""
    statuses = {status_of(program) for program in programs}
    if statuses - {0, SKIPPED}:
        return 1
    return SKIPPED if SKIPPED in statuses else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
