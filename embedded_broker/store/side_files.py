"""Where damaged bytes go before they are cut: the folder `damaged/` of the store.

Answers: how bytes and whole files are kept under a name of their own, so that nothing is lost by a
repair. Nothing there is ever read or overwritten by the broker. Must not know: what the bytes mean.
Read on: `config_files.py` and `recovery.py` for who cuts.
"""

from __future__ import annotations

import posixpath
from typing import Final

from embedded_broker.store.fs import Buffer, FileSystem

__all__ = ["DAMAGED_FOLDER", "keep_copy", "set_aside"]

DAMAGED_FOLDER: Final = "damaged"


def set_aside(fs: FileSystem, path: str) -> str:
    """Move a file that cannot be read out of the way; gives its new path. Raises `StoreError`."""
    kept = _new_name(fs, posixpath.basename(path))
    fs.rename(path, kept)
    fs.sync_dir(posixpath.dirname(path))
    fs.sync_dir(DAMAGED_FOLDER)
    return kept


def keep_copy(fs: FileSystem, path: str, at: int, data: Buffer) -> str:
    """Copy bytes that are to be cut from `path` at `at`; durable when it returns their path.

    Raises `StoreError`, on a full disk for example: then nothing may be cut.
    """
    kept = _new_name(fs, f"{posixpath.basename(path)}-{at}")
    fs.write_file(kept, bytes(data))
    fs.sync_file(kept)
    fs.sync_dir(DAMAGED_FOLDER)
    return kept


def _new_name(fs: FileSystem, name: str) -> str:
    numbers = [one.partition("-")[0] for one in fs.list(DAMAGED_FOLDER)]
    last = max((int(one) for one in numbers if one.isdecimal()), default=0)
    return f"{DAMAGED_FOLDER}/{last + 1:04d}-{name}"
