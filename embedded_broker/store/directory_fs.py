"""A store in a directory, laid out so that a real RocketMQ broker can open it, and the reverse.

Answers: how segments and small files reach a disk. Segments are written by ``pwrite`` and read
through a read-only mapping: so a full disk is an error, and not a signal that ends the process.
Must not know: what the bytes mean. POSIX only. Read on: ``fs.py`` for the seam,
``directory_lock.py`` for the lock.
"""

from __future__ import annotations

import errno
import mmap
import os
import posixpath
import shutil
from pathlib import Path
from random import Random

from embedded_broker.errors import StoreError
from embedded_broker.store.directory_lock import DirectoryLocks
from embedded_broker.store.fault_points import NO_FAULTS, FaultPoints, Unsynced

__all__ = ["DirectoryFileSystem", "DirectorySegment"]

_IS_POSIX = os.name == "posix"


class _Record:
    """What was written to a file and what of it is durable; it outlives the open file."""

    __slots__ = ("end", "unsynced")

    def __init__(self, end: int) -> None:
        self.end = end
        self.unsynced = Unsynced(end)


class DirectorySegment:
    """A sparse file of a fixed size; see ``fs.Segment``."""

    __slots__ = ("_fd", "_pages", "_record", "_view", "faults", "path", "size")

    def __init__(self, path: str, size: int, fd: int, record: _Record | None = None) -> None:
        self.path = path
        self.size = size
        self.faults = NO_FAULTS
        self._fd = fd
        self._record = _Record(self.data_end()) if record is None else record
        self._pages: mmap.mmap | None = None
        self._view: memoryview | None = None

    def write(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Put the bytes there before returning."""
        record, reason = self._record, None
        if self.faults.armed:
            kept, reason = self.faults.admit(self.path, len(data))
            data = data[:kept]
        if at < record.unsynced.synced_end:
            record.unsynced.note(at, os.pread(self._fd, len(data), at))
        record.end = max(record.end, at + len(data))
        self._put(at, data)
        if reason is not None:
            raise StoreError(f"{self.path}: {reason}")

    def _put(self, at: int, data: bytes | bytearray | memoryview) -> None:
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

    @property
    def record(self) -> _Record:
        """What is known of the file's durability."""
        return self._record

    def sync(self) -> None:
        """Return when the bytes are on the disk."""
        if self.faults.armed:
            self.faults.check_sync(self.path)
        end = self._record.end
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot sync: {error}") from error
        self._record.unsynced.synced(end)

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
        self._records: dict[str, _Record] = {}
        self.faults = FaultPoints()

    def __repr__(self) -> str:
        return f"DirectoryFileSystem({str(self.root)!r})"

    @property
    def used_percent(self) -> float:
        """How much of the disk is used, of what can be used at all."""
        try:
            disk = os.statvfs(self.root)
        except OSError:
            return 0.0
        used = disk.f_blocks - disk.f_bfree
        return 100.0 * used / max(1, used + disk.f_bavail)

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
        if length == 0:
            self._records[path] = _Record(0)
        segment = DirectorySegment(path, size, fd, self._records.get(path))
        self._records.setdefault(path, segment.record)
        segment.faults = self.faults
        return segment

    def lose_unsynced(self, random: Random | None = None) -> int:
        """Lose what no sync has made durable; see ``fs.FileSystem``."""
        lost = 0
        for path, record in sorted(self._records.items()):
            writes = record.unsynced.lose(record.end, random)
            record.end = record.unsynced.synced_end
            lost += bool(writes)
            if writes and self._full(path).exists():
                with self._full(path).open("r+b") as file:
                    for at, data in writes:
                        file.seek(at)
                        file.write(data)
        return lost

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
        """Remove a file, or an empty folder."""
        full = self._full(path)
        self._records.pop(path, None)
        try:
            if full.is_dir():
                full.rmdir()
            else:
                full.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: cannot remove: {error}") from error

    def remove_tree(self, path: str) -> None:
        """Remove a file, or a folder with everything in it."""
        full = self._full(path)
        for known in [one for one in self._records if one == path or one.startswith(f"{path}/")]:
            del self._records[known]
        try:
            if full.is_dir() and not full.is_symlink():
                shutil.rmtree(full)
            else:
                full.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: cannot remove: {error}") from error

    def rename(self, source: str, target: str) -> None:
        """Move a file over another one, into a folder that is made if need be."""
        self._make_folder(posixpath.dirname(target))
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
        data, refusal = self.faults.check_write(path, data)
        try:
            self._full(path).write_bytes(data)
        except OSError as error:
            raise StoreError(f"{path}: cannot write: {error}") from error
        if refusal is not None:
            raise refusal

    def sync_file(self, path: str) -> None:
        """Make a small file's bytes durable."""
        if self.faults.armed:
            self.faults.check_sync(path)
        self._sync(self._full(path), path)

    def sync_dir(self, path: str) -> None:
        """Make a folder's entries durable, and those of its parents that we created it in."""
        if self.faults.armed:
            self.faults.check_sync(path)
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
