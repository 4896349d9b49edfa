"""Folder of a snapshot or a repaired store: filled under another name, renamed when complete.

Answers: where it is filled meanwhile, and how files of one store get into another. Must not know:
what the bytes mean. Read on: `snapshot.py`, `repair.py`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from shutil import rmtree
from typing import Final

from embedded_broker.errors import StoreError
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.fs import FileSystem

STORE_NAMES: Final = (
    "abort",
    "batchconsumequeue",
    "checkpoint",
    "commitlog",
    "config",
    "consumequeue",
    "dcommitlog",
    "index",
    "timerlog",
    "timerwheel",
)
"""Files and folders that belong to a store; a directory may hold others, which are left alone."""
_CHUNK: Final = 1 << 16
_ZEROS: Final = bytes(_CHUNK)


@contextmanager
def new_folder(path: str | PathLike[str], what: str) -> Iterator[Path]:
    """Give a folder to fill beside the target, a directory that is new or empty.

    At the end it gets the target's name; when anything is raised it goes. Raises `StoreError`.
    """
    target = Path(fspath(path)).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StoreError(f"{target}: a {what} needs a directory that is new or empty")
    beside = target.with_name(target.name + ".part")
    if beside.exists():
        raise StoreError(f"{beside} exists: remove it if an interrupted {what} left it")
    try:
        yield beside
        beside.replace(target)
    except BaseException:
        rmtree(beside, ignore_errors=True)
        raise


def copy_file(source: FileSystem, target: FileSystem, path: str, end: int | None = None) -> None:
    """Copy a file, or its bytes before an end; holes and what lies behind stay holes."""
    size = source.size(path)
    if not size:
        target.write_file(path, b"")
        return
    original = source.open_segment(path, size, create=False)
    copy = target.open_segment(path, size)
    try:
        used = original.data_end() if end is None else min(end, original.data_end())
        for at in range(0, used, _CHUNK):
            chunk = original.read(at, min(_CHUNK, used - at))
            if chunk != _ZEROS[: len(chunk)]:
                copy.write(at, chunk)
        copy.sync()
    finally:
        copy.close()
        if source.persistent:
            original.close()
    target.sync_dir(path.rpartition("/")[0])


def copy_whole(source: FileSystem, target: FileSystem, path: str) -> None:
    """Copy a small file."""
    target.write_file(path, source.read_file(path))
    target.sync_file(path)


def files_below(fs: FileSystem, path: str) -> Iterator[str]:
    """Give every file of a tree, or the file itself."""
    names = fs.list(path)
    if not names and fs.exists(path) and not _is_folder(fs, path):
        yield path
    for name in names:
        yield from files_below(fs, f"{path}/{name}")


def _is_folder(fs: FileSystem, path: str) -> bool:
    """Say whether something without entries is a folder: only a directory store has such."""
    return isinstance(fs, DirectoryFileSystem) and (fs.root / path).is_dir()
