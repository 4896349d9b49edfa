"""Folder `damaged/` of a store: where damaged bytes are kept before they are cut.

Answers: how bytes and whole files are kept under a name of their own, so that nothing is lost by a
repair. Nothing there is ever read or overwritten by the broker. Must not know: what the bytes mean.
Read on: `config_files.py` and `recovery.py` for who cuts.
"""

import contextlib
import posixpath
from typing import Final

from embedded_broker.errors import StoreError
from embedded_broker.store.fs import Buffer, FileSystem, Segment

DAMAGED_FOLDER: Final = "damaged"
_CHUNK: Final = 1024 * 1024


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


def keep_range(fs: FileSystem, segment: Segment, begin: int, end: int) -> list[str]:
    """Copy the bytes of a segment that are to be cut, but not the zeros behind the last one.

    Gives the durable copy's path; no path when all the bytes are zero. Raises `StoreError`.
    """
    end = min(end, segment.data_end())
    while end > begin:
        start = max(begin, end - _CHUNK)
        rest = bytes(segment.view(start, end - start)).rstrip(b"\0")
        end = start + len(rest)
        if rest:
            break
    if end <= begin:
        return []
    kept = _new_name(fs, f"{posixpath.basename(segment.path)}-{begin}")
    copy = fs.open_segment(kept, end - begin)
    try:
        for at in range(begin, end, _CHUNK):
            copy.write(at - begin, segment.view(at, min(_CHUNK, end - at)))
        copy.sync()
    except StoreError:
        copy.close()
        with contextlib.suppress(StoreError):
            fs.remove(kept)
        raise
    copy.close()
    fs.sync_dir(DAMAGED_FOLDER)
    return [kept]


def ways_out(fs: FileSystem) -> str:
    """Say what helps when opening has refused a store, as a user would type it."""
    return (
        f"`rocketmq-py store repair {getattr(fs, 'root', 'DIR')} NEW` writes a store without the "
        "damage to the folder NEW; the option damagedRecords=skip leaves it out in place and keeps "
        "a copy in damaged/"
    )


def _new_name(fs: FileSystem, name: str) -> str:
    numbers = [one.partition("-")[0] for one in fs.list(DAMAGED_FOLDER)]
    last = max((int(one) for one in numbers if one.isdecimal()), default=0)
    return f"{DAMAGED_FOLDER}/{last + 1:04d}-{name}"
