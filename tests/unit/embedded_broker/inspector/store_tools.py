"""Directories to look at: made by the timer rig, and changed byte by byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

from embedded_broker.store.directory_fs import DirectoryFileSystem
from tests.unit.embedded_broker.timer.timer_rig import Rig


def manifest(name: str, tmp_path: Path) -> dict[str, tuple[str, int]]:
    """What was sent with a delay: topic and due time by message id."""
    expected = {}
    for line in (tmp_path / f"{name}.tsv").read_text().splitlines():
        topic, _, _, due_ms, message_id = line.split("\t")
        if due_ms != "0":
            expected[message_id] = (topic, int(due_ms))
    return expected


def rig_in(directory: Path, **arguments: object) -> Rig:
    """A timer store of ours in a directory."""
    return Rig(DirectoryFileSystem(directory), **arguments)  # type: ignore[arg-type]


def fingerprint(root: Path) -> dict[str, tuple[int, int, str]]:
    """Time of change, size and hash of every file."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_mtime_ns,
            path.stat().st_size,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def overwrite(path: Path, at: int, data: bytes) -> None:
    """Damage a file."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
