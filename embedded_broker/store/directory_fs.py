"""A store in a directory, laid out so that a real RocketMQ broker can open it, and the reverse.

Answers: how files and folders are made, found and removed. Must not know: what the bytes mean.
POSIX only. Read on: ``fs.py`` for the seam, ``directory_segment.py`` for how bytes reach a file,
``directory_lock.py`` for the lock.
"""

import os
import posixpath
import shutil
from pathlib import Path
from random import Random

from embedded_broker.errors import StoreError
from embedded_broker.store.damaged_folder import DAMAGED_FOLDER
from embedded_broker.store.directory_lock import DirectoryLocks
from embedded_broker.store.directory_segment import DirectorySegment, WrittenFile
from embedded_broker.store.fault_points import FaultPoints
from embedded_broker.store.open_files import (
    PRIVATE_MODE,
    OpenFiles,
    disk_refusal,
    is_private,
    raise_descriptor_limit,
)

_FOLDERS_OF_SECRETS = ("config", DAMAGED_FOLDER)
_IS_POSIX = os.name == "posix"


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
        self._files = OpenFiles(self.root, os.O_RDWR)
        self._new_folders: set[str] = set()
        self._records: dict[str, WrittenFile] = {}
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

    def open_segment(
        self, path: str, size: int, *, create: bool = True, may_rest: bool = False
    ) -> DirectorySegment:
        """Open or create a segment."""
        if create:
            self._check_place()
            self._make_folder(posixpath.dirname(path))
        fd = self._open(path, os.O_RDWR | os.O_CREAT if create else os.O_RDWR)
        try:
            length = os.fstat(fd).st_size
            if length == 0:
                os.ftruncate(fd, size)
        except OSError as error:
            os.close(fd)
            raise disk_refusal(self.root, path, f"give it {size} bytes", error) from error
        if length not in {0, size}:
            os.close(fd)
            raise StoreError(f"{path}: length {length} instead of {size} bytes")
        record = self._records.get(path)
        if length == 0 or record is None:
            record = None if length else WrittenFile(0)
        segment = DirectorySegment(path, size, fd, self._files, record, may_rest=may_rest)
        self._records[path] = segment.record
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
            raise disk_refusal(self.root, path, "list", error) from error

    def remove(self, path: str) -> None:
        """Remove a file, or an empty folder."""
        self._check_place()
        full = self._full(path)
        self._records.pop(path, None)
        try:
            if full.is_dir():
                full.rmdir()
            else:
                full.unlink(missing_ok=True)
        except OSError as error:
            raise disk_refusal(self.root, path, "remove", error) from error

    def remove_tree(self, path: str) -> None:
        """Remove a file, or a folder with everything in it."""
        self._check_place()
        full = self._full(path)
        for known in [one for one in self._records if one == path or one.startswith(f"{path}/")]:
            del self._records[known]
        try:
            if full.is_dir() and not full.is_symlink():
                shutil.rmtree(full)
            else:
                full.unlink(missing_ok=True)
        except OSError as error:
            raise disk_refusal(self.root, path, "remove", error) from error

    def rename(self, source: str, target: str) -> None:
        """Move a file over another one, into a folder that is made if need be."""
        self._check_place()
        self._make_folder(posixpath.dirname(target))
        try:
            self._full(source).replace(self._full(target))
        except OSError as error:
            raise disk_refusal(self.root, source, f"rename to {target}", error) from error

    def read_file(self, path: str) -> bytes:
        """Give the whole file."""
        fd = self._open(path, os.O_RDONLY)
        try:
            with open(fd, "rb") as file:  # noqa: PTH123 - no path
                return file.read()
        except OSError as error:
            raise disk_refusal(self.root, path, "read", error) from error

    def write_file(self, path: str, data: bytes) -> None:
        """Write a whole small file."""
        self._check_place()
        self._make_folder(posixpath.dirname(path))
        data, refusal = self.faults.check_write(path, data)
        fd = self._open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            with open(fd, "wb", buffering=0) as file:  # noqa: PTH123 - no path
                done = file.write(data)
                while done < len(data):
                    done += file.write(memoryview(data)[done:])
        except OSError as error:
            raise disk_refusal(self.root, path, f"write {len(data)} bytes", error) from error
        if refusal is not None:
            raise refusal

    def sync_file(self, path: str) -> None:
        """Make a small file's bytes durable."""
        if self.faults.armed:
            self.faults.check_sync(path)
        self._sync(path)

    def sync_dir(self, path: str) -> None:
        """Make a folder's entries durable, and those of its parents that we created it in."""
        if self.faults.armed:
            self.faults.check_sync(path)
        self._sync(path)
        while path in self._new_folders:
            self._new_folders.discard(path)
            path = posixpath.dirname(path)
            self._sync(path)

    def lock(self, path: str, owner: str) -> None:
        """Take the original's ``lock`` file, as ``BrokerStartup``'s store does."""
        self._make_folder(posixpath.dirname(path))
        self._locks.take(path, owner)
        raise_descriptor_limit()
        self._files.begin()
        self._close_to_others()

    def unlock(self, path: str) -> None:
        """Give the lock back."""
        self._locks.give_back(path)
        self._files.close()

    def look(self) -> str | None:
        """Say what happened to the folder; from then on nothing is opened or made in it."""
        if self._files.lost is None:
            self._files.lost = self._locks.problem()
            self._files.keep_spare()
        return self._files.lost

    def _close_to_others(self) -> None:
        """Let nobody else read files of secrets that were written by an earlier version."""
        for folder in _FOLDERS_OF_SECRETS:
            for name in self.list(folder):
                full = self._full(f"{folder}/{name}")
                if is_private(name) and full.stat().st_mode & ~PRIVATE_MODE & 0o777:
                    try:
                        full.chmod(PRIVATE_MODE)
                    except OSError as error:
                        path = f"{folder}/{name}"
                        raise disk_refusal(self.root, path, "close to others", error) from error

    def _check_place(self) -> None:
        """Refuse to make or remove anything in a folder that is not the one that was locked."""
        lost = self.look()
        if lost is not None:
            raise StoreError(lost)

    def _open(self, path: str, flags: int) -> int:
        self._full(path)
        return self._files.open(path, flags)

    def _full(self, path: str) -> Path:
        # Topic names become folders: a name that climbs out of the root must not reach the disk.
        if path and any(part in {"", ".", ".."} for part in path.split("/")):
            raise StoreError(f"{path!r}: not a path inside the store")
        if self._files.lost is not None:
            raise StoreError(self._files.lost)
        return self.root / path if path else self.root

    def _make_folder(self, path: str) -> None:
        if self._full(path).is_dir():
            return
        if path:
            self._make_folder(posixpath.dirname(path))
        try:
            self._full(path).mkdir(parents=not path, exist_ok=True)
        except OSError as error:
            raise disk_refusal(self.root, path, "create the folder", error) from error
        if path:
            self._new_folders.add(path)

    def _sync(self, path: str) -> None:
        fd = self._open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        except OSError as error:
            raise disk_refusal(self.root, path, "sync", error) from error
        finally:
            os.close(fd)
