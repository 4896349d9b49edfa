"""A store in a directory, laid out so that a real RocketMQ broker can open it, and the reverse.

Answers: how segments and small files reach a disk. Segments are written by ``pwrite`` and read
through a read-only mapping (the design: a full disk then is an error, not a signal that ends the
process). Must not know: what the bytes mean. POSIX only. Read on: ``fs.py`` for the
seam, ``directory_lock.py`` for the lock.
"""

from __future__ import annotations

import errno
import mmap
import os
import posixpath
from pathlib import Path

from embedded_broker.errors import StoreError
from embedded_broker.store.directory_lock import DirectoryLocks

__all__ = ["DirectoryFileSystem", "DirectorySegment"]

_IS_POSIX = os.name == "posix"


class DirectorySegment:
    """A sparse file of a fixed size; see ``fs.Segment``."""

    __slots__ = ("_fd", "_pages", "_view", "path", "size")

    def __init__(self, path: str, size: int, fd: int) -> None:
        self.path = path
        self.size = size
        self._fd = fd
        self._pages: mmap.mmap | None = None
        self._view: memoryview | None = None

    def write(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Put the bytes there before returning."""
        try:
            done = os.pwrite(self._fd, data, at)
            while done < len(data):  # a signal or a nearly full disk cut it short
                done += os.pwrite(self._fd, memoryview(data)[done:], at + done)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot write at {at}: {error}") from error

    def view(self, at: int, length: int) -> memoryview:
        """Show bytes without copying; the file is mapped on the first call."""
        view = self._view
        if view is None:
            view = self._map()
        return view[at : at + length]

    def data_end(self) -> int:
        """Give the end of the last extent; the size where the file system knows no holes."""
        end = 0
        try:
            while end < self.size:
                start = os.lseek(self._fd, end, os.SEEK_DATA)
                end = os.lseek(self._fd, start, os.SEEK_HOLE)
        except OSError as error:
            return end if error.errno == errno.ENXIO else self.size
        return end

    def sync(self) -> None:
        """Return when the bytes are on the disk."""
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot sync: {error}") from error

    def close(self) -> None:
        """Close the file; the mapping goes when the last view of it goes."""
        self._view = self._pages = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _map(self) -> memoryview:
        if self._fd < 0:
            raise StoreError(f"{self.path}: the segment is closed")
        try:
            self._pages = mmap.mmap(self._fd, self.size, prot=mmap.PROT_READ)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot map {self.size} bytes: {error}") from error
        self._view = memoryview(self._pages)
        return self._view


class DirectoryFileSystem:
    """A directory; see ``fs.FileSystem``. Creating the object opens and creates nothing."""

    persistent = True

    def __init__(self, root: str | os.PathLike[str]) -> None:
        if not _IS_POSIX:
            raise StoreError(
                "a store in a directory needs a POSIX system: leave store=None for memory"
            )
        self.root = Path(root).absolute()
        self._locks = DirectoryLocks(self.root)
        self._new_folders: set[str] = set()

    def __repr__(self) -> str:
        return f"DirectoryFileSystem({str(self.root)!r})"

    def open_segment(self, path: str, size: int, *, create: bool = True) -> DirectorySegment:
        """Open or create a segment."""
        flags = os.O_RDWR | os.O_CLOEXEC
        if create:
            self._make_folder(posixpath.dirname(path))
            flags |= os.O_CREAT
        try:
            fd = os.open(self._full(path), flags, 0o644)
        except OSError as error:
            raise StoreError(f"{path}: cannot open: {error}") from error
        try:
            length = os.fstat(fd).st_size
            if length == 0:
                os.ftruncate(fd, size)
        except OSError as error:
            os.close(fd)
            raise StoreError(f"{path}: cannot give it {size} bytes: {error}") from error
        if length not in {0, size}:
            os.close(fd)
            raise StoreError(f"{path}: length {length} instead of {size} bytes")
        return DirectorySegment(path, size, fd)

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or a folder."""
        return self._full(path).exists()

    def size(self, path: str) -> int:
        """Give a file's length."""
        try:
            return self._full(path).stat().st_size
        except OSError as error:
            raise StoreError(f"{path}: {error}") from error

    def list(self, path: str) -> list[str]:
        """Give the sorted names inside a folder."""
        try:
            return sorted(os.listdir(self._full(path)))  # noqa: PTH208 - names, not paths
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(f"{path}: cannot list: {error}") from error

    def remove(self, path: str) -> None:
        """Remove a file."""
        try:
            self._full(path).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: cannot remove: {error}") from error

    def rename(self, source: str, target: str) -> None:
        """Move a file over another one."""
        try:
            self._full(source).replace(self._full(target))
        except OSError as error:
            raise StoreError(f"{source}: cannot rename to {target}: {error}") from error

    def read_file(self, path: str) -> bytes:
        """Give the whole file."""
        try:
            return self._full(path).read_bytes()
        except OSError as error:
            raise StoreError(f"{path}: cannot read: {error}") from error

    def write_file(self, path: str, data: bytes) -> None:
        """Write a whole small file."""
        self._make_folder(posixpath.dirname(path))
        try:
            self._full(path).write_bytes(data)
        except OSError as error:
            raise StoreError(f"{path}: cannot write: {error}") from error

    def sync_file(self, path: str) -> None:
        """Make a small file's bytes durable."""
        self._sync(self._full(path), path)

    def sync_dir(self, path: str) -> None:
        """Make a folder's entries durable, and those of its parents that we created it in."""
        self._sync(self._full(path), path)
        while path in self._new_folders:
            self._new_folders.discard(path)
            path = posixpath.dirname(path)
            self._sync(self._full(path), path)

    def lock(self, path: str, owner: str) -> None:
        """Take the original's ``lock`` file, as ``BrokerStartup``'s store does."""
        self._make_folder(posixpath.dirname(path))
        self._locks.take(path, owner)

    def unlock(self, path: str) -> None:
        """Give the lock back."""
        self._locks.give_back(path)

    def _full(self, path: str) -> Path:
        # Topic names become folders: a name that climbs out of the root must not reach the disk.
        if path and any(part in {"", ".", ".."} for part in path.split("/")):
            raise StoreError(f"{path!r}: not a path inside the store")
        return self.root / path if path else self.root

    def _make_folder(self, path: str) -> None:
        if self._full(path).is_dir():
            return
        if path:
            self._make_folder(posixpath.dirname(path))
        try:
            self._full(path).mkdir(parents=not path, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{path or self.root}: cannot create the folder: {error}") from error
        if path:
            self._new_folders.add(path)

    @staticmethod
    def _sync(full: Path, path: str) -> None:
        try:
            fd = os.open(full, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise StoreError(f"{path or full}: cannot sync: {error}") from error
