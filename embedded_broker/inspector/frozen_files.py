"""A store directory that cannot be changed through this object.

Answers: how files are read when somebody else may own them. Segments are opened for reading only
and shown through read-only maps; everything that would write, remove or lock raises `StoreError`.
Empty files are not listed: they were created and never begun. Read on: `reader.py`.
"""

import os
from pathlib import Path
from typing import NoReturn

from embedded_broker.errors import StoreError
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.directory_segment import DirectorySegment
from embedded_broker.store.open_files import OpenFiles


class FrozenFileSystem(DirectoryFileSystem):
    """A directory to look at; see ``store.fs.FileSystem``."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self._files = OpenFiles(self.root, os.O_RDONLY)

    def open_segment(
        self,
        path: str,
        size: int,
        *,
        create: bool = True,  # noqa: ARG002
        may_rest: bool = False,  # noqa: ARG002
    ) -> DirectorySegment:
        """Open a file of exactly this size for reading."""
        self._full(path)
        fd = self._files.open(path)
        length = os.fstat(fd).st_size
        if length != size or size <= 0:
            os.close(fd)
            raise StoreError(f"{path}: length {length} instead of {size} bytes")
        return DirectorySegment(path, size, fd, self._files, may_rest=True)

    def list(self, path: str) -> list[str]:
        """Give the sorted names inside a folder, those of empty files left out."""
        names = super().list(path)
        folder = self._full(path)
        return [name for name in names if not _is_empty_file(folder / name)]

    def _refuse(self, path: str) -> NoReturn:
        raise StoreError(f"{path}: this store is only looked at, nothing of it may change")

    remove = sync_file = sync_dir = unlock = _refuse

    def rename(self, source: str, target: str) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        self._refuse(source)

    def write_file(self, path: str, data: bytes) -> NoReturn:  # noqa: ARG002
        """Refuse."""
        self._refuse(path)

    def lock(self, path: str, owner: str) -> NoReturn:  # noqa: ARG002
        """Refuse: a look needs no lock, and must not keep a broker out."""
        self._refuse(path)


def _is_empty_file(path: Path) -> bool:
    try:
        return path.is_file() and not path.stat().st_size
    except OSError:
        return False
