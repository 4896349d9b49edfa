"""A program in a process of its own, on a tmpfs of a few megabytes that only it can see.

`run_on_small_disk` mounts it in a new user and mount namespace, so root is not needed and nothing
stays behind. Where that is not allowed the test is skipped with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_PRELUDE = """
import errno, json, os, signal, sys
from pathlib import Path

DISK = Path(sys.argv[1])
STORE = DISK / "store"

def fill(keep=0):
    # Take every byte of the disk but `keep`, to the last page.
    with open(DISK / "ballast", "ab", buffering=0) as file:
        for size in (1 << 20, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                assert error.errno == errno.ENOSPC, error
        if keep:
            file.truncate(file.seek(0, 2) - keep)

def free():
    (DISK / "ballast").unlink()

def tell(**what):
    print(json.dumps(what), flush=True)
"""


@lru_cache(maxsize=1)
def _refusal() -> str | None:
    """Say why no file system can be mounted here; None when one can."""
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    trial = ["unshare", "-Urm", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"mounting is not allowed: {done.stderr.strip()}"


def run_on_small_disk(
    place: Path, program: str, *arguments: str, megabytes: int = 16, timeout_s: float = 50
) -> dict[str, Any]:
    """Run a program there and give all that it told; fails when it did not end well.

    It finds `DISK`, `STORE`, `fill`, `free` and `tell`. The disk is gone when it ends.
    """
    refusal = _refusal()
    if refusal is not None:
        pytest.skip(refusal)
    place.mkdir(exist_ok=True)
    file = place.parent / f"{place.name}.py"
    file.write_text(_PRELUDE + program)
    mount = f'mount -t tmpfs -o size={megabytes}m tmpfs "$0" && exec "$@"'
    command = [sys.executable, str(file), str(place), *arguments]
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", mount, str(place), *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    told: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        told |= json.loads(line)
    return told
