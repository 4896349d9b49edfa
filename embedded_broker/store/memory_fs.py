"""A store that lives in memory: the default of the embedded broker.

Answers: how segments look without a disk. A segment is a private anonymous mapping, so the kernel
gives pages only where something was written: a 64 MiB segment with ten messages costs one page.
Must not know: what the bytes mean. It outlives a broker that crashed or was closed, so the same
object opens again with the same bytes. Read on: ``fs.py`` for the seam, ``directory_fs.py`` for
the other implementation.
"""

from __future__ import annotations

import mmap
import posixpath
import sys

from embedded_broker.errors import StoreError, StoreLockedError

__all__ = ["MemoryFileSystem", "MemorySegment"]


def _private_pages(size: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    # Private: a forked child gets its own copy instead of writing into the parent's store.
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class MemorySegment:
    """Zeros of a fixed size that can be written; see ``fs.Segment``.

    A subclass may count writes and refuse syncs to play a failing disk:
    ``MemoryFileSystem.new_segment`` decides the class.
    """

    __slots__ = ("_end", "_pages", "_view", "path", "size")

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self.size = size
        self._pages = _private_pages(size)
        self._view = memoryview(self._pages).toreadonly()
        self._end = 0

    def write(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Put the bytes there."""
        end = at + len(data)
        self._pages[at:end] = data
        if end > self._end:  # noqa: PLR1730 - max() costs more than the write's other half
            self._end = end

    def view(self, at: int, length: int) -> memoryview:
        """Show bytes without copying."""
        return self._view[at : at + length]

    def data_end(self) -> int:
        """Give the end of the last write."""
        return self._end

    def sync(self) -> None:
        """Do nothing: memory is as durable as it gets."""

    def close(self) -> None:
        """Do nothing: the file system keeps the bytes for the next opening."""


class MemoryFileSystem:
    r"""A tree of files in memory; see ``fs.FileSystem``.

    >>> fs = MemoryFileSystem()
    >>> segment = fs.open_segment("commitlog/00000000000000000000", 4096)
    >>> segment.write(10, b"abc")
    >>> bytes(fs.open_segment("commitlog/00000000000000000000", 4096).view(9, 5))
    b'\x00abc\x00'
    """

    persistent = False

    def __init__(self) -> None:
        self._segments: dict[str, MemorySegment] = {}
        self._files: dict[str, bytes] = {}
        self._locks: dict[str, str] = {}

    def new_segment(self, path: str, size: int) -> MemorySegment:
        """Make the object behind a new path; a subclass returns its own kind."""
        return MemorySegment(path, size)

    def open_segment(self, path: str, size: int, *, create: bool = True) -> MemorySegment:
        """Open or create a segment."""
        found = self._segments.get(path)
        if found is None:
            data = self._files.get(path)
            if data is None and not create:
                raise StoreError(f"{path}: no such file")
            if data and len(data) != size:
                raise StoreError(f"{path}: length {len(data)} instead of {size} bytes")
            found = self.new_segment(path, size)
            if data:
                found.write(0, data)
            self._files.pop(path, None)
            self._segments[path] = found
        elif found.size != size:
            raise StoreError(f"{path}: length {found.size} instead of {size} bytes")
        return found

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or a folder."""
        if path in self._files or path in self._segments:
            return True
        folder = path + "/"
        return any(name.startswith(folder) for name in (*self._files, *self._segments))

    def size(self, path: str) -> int:
        """Give a file's length."""
        segment = self._segments.get(path)
        return segment.size if segment is not None else len(self._file(path))

    def files(self) -> list[str]:
        """Give the paths of all files, sorted."""
        return sorted((*self._files, *self._segments))

    def list(self, path: str) -> list[str]:
        """Give the sorted names inside a folder."""
        folder = path + "/" if path else ""
        names = (*self._files, *self._segments)
        inside = {name[len(folder) :].split("/", 1)[0] for name in names if name.startswith(folder)}
        return sorted(inside)

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._files.pop(path, None)
        self._segments.pop(path, None)

    def rename(self, source: str, target: str) -> None:
        """Move a small file over another one."""
        data = self.read_file(source)
        self.remove(source)
        self.write_file(target, data)

    def read_file(self, path: str) -> bytes:
        """Give the whole file."""
        segment = self._segments.get(path)
        return bytes(segment.view(0, segment.size)) if segment is not None else self._file(path)

    def write_file(self, path: str, data: bytes) -> None:
        """Write a whole small file."""
        self._segments.pop(path, None)
        self._files[path] = bytes(data)

    def sync_file(self, path: str) -> None:
        """Check only that the file exists."""
        if path not in self._segments:
            self._file(path)

    def sync_dir(self, path: str) -> None:
        """Do nothing."""

    def lock(self, path: str, owner: str) -> None:
        """Take the store: one broker at a time uses one file system object."""
        holder = self._locks.get(path)
        if holder is not None:
            raise StoreLockedError(
                f"the memory store is in use by {holder}: close it first, "
                "or give each broker its own MemoryFileSystem"
            )
        self._locks[path] = owner

    def unlock(self, path: str) -> None:
        """Give the store back."""
        self._locks.pop(path, None)

    def copy(self) -> MemoryFileSystem:
        """Give an independent file system with the same bytes and no locks.

        What a second machine would see that got the disk of this one at this instant; costs time
        in the bytes that were written, not in the sizes of the segments.
        """
        twin = MemoryFileSystem()
        twin._files = dict(self._files)
        for path, segment in self._segments.items():
            twin.open_segment(path, segment.size).write(0, segment.view(0, segment.data_end()))
        return twin

    def _file(self, path: str) -> bytes:
        try:
            return self._files[path]
        except KeyError:
            near = posixpath.dirname(path) or "the root"
            raise StoreError(f"{path}: no such file in {near}") from None
