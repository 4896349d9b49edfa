"""A program in a process of its own, on a file system of a few megabytes that only it can see.

`run_on_small_disk` mounts it in a new mount namespace, so nothing stays behind. A tmpfs needs a new
user namespace and no root; an ext4 lies in a file behind a loop device and needs root. Where
mounting is not allowed the test is skipped with the reason, but not an ext4 as root in CI.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import frozen

ROOT = Path(__file__).resolve().parents[2]
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
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

def flush(broker):
    # A whole cycle of the flush thread, whether or not the disk takes it.
    from embedded_broker.errors import StoreError
    try:
        broker._parts().flush_everything()
    except StoreError as error:
        assert "No space left" in str(error), error

def tell(**what):
    print(json.dumps(what), flush=True)
"""


@frozen
class _Disk:
    """How a file system is made and mounted; `$0` is the place, `$IMAGE` a file of its size."""

    namespace: tuple[str, ...]
    mount: str
    programs: tuple[str, ...] = ()
    needs_root: bool = False


DISKS: Final = {
    "tmpfs": _Disk(("unshare", "-Urm"), 'mount -t tmpfs -o size="$SIZE" tmpfs "$0"'),
    "ext4": _Disk(
        ("unshare", "-m"),
        'truncate -s "$SIZE" "$IMAGE" && mkfs.ext4 -q -m 0 "$IMAGE" && mount -o loop "$IMAGE" "$0"',
        ("mkfs.ext4", "losetup"),
        needs_root=True,
    ),
}


@lru_cache
def _refusal(kind: str) -> str | None:
    """Say why no file system of this kind can be mounted here; None when one can."""
    disk = DISKS[kind]
    if disk.needs_root and os.geteuid() != 0:
        return f"mounting an {kind} needs root"
    for name in ("unshare", *disk.programs):
        if shutil.which(name, path=_PATH) is None:
            return f"{name} is not installed"
    with tempfile.TemporaryDirectory() as folder:
        done = _run_there(Path(folder), disk, 8, ["true"], 50)
    return None if done.returncode == 0 else f"mounting is not allowed: {done.stderr.strip()}"


def _run_there(
    place: Path, disk: _Disk, megabytes: int, command: list[str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    image = place.with_name(f"{place.name}.img")
    try:
        return subprocess.run(
            [*disk.namespace, "sh", "-c", f'{disk.mount} && exec "$@"', str(place), *command],
            cwd=ROOT,
            env=os.environ
            | {"PYTHONPATH": str(ROOT), "PATH": _PATH}
            | {"SIZE": f"{megabytes}m", "IMAGE": str(image)},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    finally:
        image.unlink(missing_ok=True)


def run_on_small_disk(
    place: Path,
    program: str,
    *arguments: str,
    kind: str = "tmpfs",
    megabytes: int = 16,
    timeout_s: float = 50,
) -> dict[str, Any]:
    """Run a program there and give all that it told; fails when it did not end well.

    It finds `DISK`, `STORE`, `fill`, `free`, `flush` and `tell`. The disk is gone when it ends.
    """
    refusal = _refusal(kind)
    if refusal is not None:
        if os.environ.get("CI") and DISKS[kind].needs_root and os.geteuid() == 0:
            pytest.fail(f"CI runs as root, so this must run: {refusal}")
        pytest.skip(refusal)
    place.mkdir(exist_ok=True)
    file = place.parent / f"{place.name}.py"
    file.write_text(_PRELUDE + program)
    command = [sys.executable, str(file), str(place), *arguments]
    done = _run_there(place, DISKS[kind], megabytes, command, timeout_s)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    told: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        told |= json.loads(line)
    return told
