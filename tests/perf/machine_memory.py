"""Memory as a physical machine has it: pages that are there when somebody wants them.

Where free memory goes back to the host of a virtual machine, the first touch of such a page costs
ten times the usual (measured: 10 us instead of 1). Whoever runs after a pause pays for it, and that
is noise: it may be more than what is measured. So memory is touched before each measurement.
"""

import mmap
import os
import subprocess
import sys

from tests.perf.measure import ENVIRONMENT, ROOT

SIZE = 2 << 30
PAGE = mmap.PAGESIZE


def touch_memory() -> None:
    """Take 2 GiB, or a quarter of what is free, and give them back at once.

    In a process of its own: what a process has had at most is also told of those that it starts.
    """
    if sys.platform != "win32":
        command = [sys.executable, "-m", "tests.perf.machine_memory"]
        subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=True)


def _touch() -> None:
    free = os.sysconf("SC_AVPHYS_PAGES") * PAGE
    size = min(SIZE, free // 4) // PAGE * PAGE
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
        pages[::PAGE] = bytes(size // PAGE)


if __name__ == "__main__":
    _touch()
