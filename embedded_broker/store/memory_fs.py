"""File system in memory: the default of the embedded broker.

Answers: how segments look without a disk. A segment is a private anonymous mapping, so the kernel
gives pages only where something was written: a 64 MiB segment with ten messages costs one page.
Must not know: what the bytes mean. It outlives a broker that crashed or was closed, so the same
object opens again with the same bytes. Read on: ``fs.py`` for the seam, ``directory_fs.py`` for
the other implementation.
"""

import mmap
import posixpath
import sys
from random import Random

from attrs import define, field

from embedded_broker.errors import StoreError, StoreLockedError
from embedded_broker.store.fault_points import NO_FAULTS, FaultPoints, Unsynced
from embedded_broker.store.memory_budget import MemoryBudget

_PAGE = 4096
_BY_PAGES_TO = 1 << 20
_MANY_PAGES = 16
"""Large files take so many pages at once from the budget."""


def private_pages(size: int) -> mmap.mmap:
    """Give zeros whose untouched pages cost neither time nor memory, unlike a bytearray's."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    # Private: a forked child gets its own copy instead of writing into the parent's store.
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


@define(eq=False, repr=False)
class MemorySegment:
    """Zeros of a fixed size that can be written; see ``fs.Segment``.

    A subclass may count writes and refuse syncs to play a failing disk:
    ``MemoryFileSystem.new_segment`` decides the class.
    """

    path: str
    size: int
    budget: MemoryBudget | None = field(default=None, init=False)
    taken: int = field(default=0, init=False)
    """Bytes that it takes from the budget."""
    _taken_to: int = field(default=0, init=False)
    _pages: mmap.mmap = field(init=False)
    _view: memoryview = field(init=False)
    _end: int = field(default=0, init=False)
    faults: FaultPoints = field(default=NO_FAULTS, init=False)
    unsynced: Unsynced = field(factory=Unsynced, init=False)

    def __attrs_post_init__(self) -> None:
        self._pages = private_pages(self.size)
        self._view = memoryview(self._pages).toreadonly()

    def write(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Put the bytes there."""
        end = at + len(data)
        if at < self._end or end > self._taken_to or self.faults.armed:
            self._write_with_care(at, data)
            return
        self._pages[at:end] = data
        self._end = end

    def _write_with_care(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Write where something may lie, on pages not counted yet, or while faults are armed."""
        reason = None
        if at + len(data) > self._taken_to:
            self._take_pages(at, at + len(data))
        if self.faults.armed:
            kept, reason = self.faults.admit(self.path, len(data))
            data = data[:kept]
        end = at + len(data)
        if at < self.unsynced.synced_end:
            self.unsynced.note(at, bytes(self._pages[at:end]))
        self._pages[at:end] = data
        self._end = max(self._end, end)
        if reason is not None:
            raise StoreError(f"{self.path}: {reason}")

    def _take_pages(self, at: int, end: int) -> None:
        """Count the pages of a write behind all others; a gap before it costs nothing."""
        unit = _PAGE if self.size <= _BY_PAGES_TO else _PAGE * _MANY_PAGES
        end = min(-(-end // unit) * unit, self.size)
        size = end - max(self._taken_to, at // _PAGE * _PAGE)
        if self.budget is not None:
            self.budget.take(size, self.path)
        self.taken += size
        self._taken_to = end

    def view(self, at: int, length: int) -> memoryview:
        """Show bytes without copying."""
        return self._view[at : at + length]

    def read(self, at: int, length: int) -> bytes:
        """Copy bytes."""
        return bytes(self._view[at : at + length])

    def data_end(self) -> int:
        """Give the end of the last write."""
        return self._end

    def sync(self) -> None:
        """Note that a lost power cannot take these bytes any more."""
        if self.faults.armed:
            self.faults.check_sync(self.path)
        self.unsynced.synced(self._end)

    def lose_unsynced(self, random: Random | None) -> bool:
        """Take back what was written since the last sync; says whether there was anything."""
        writes = self.unsynced.lose(self._end, random)
        for at, data in writes:
            self._pages[at : at + len(data)] = data
        self._end = max(self.unsynced.synced_end, 0)
        return bool(writes)

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
        self.faults = FaultPoints()
        self.budget = MemoryBudget()
        self._segments: dict[str, MemorySegment] = {}
        self._files: dict[str, bytes] = {}
        self._locks: dict[str, str] = {}

    @property
    def used_percent(self) -> float:
        """How much of the budget is in use; 0 without one."""
        return 100 * self.budget.used / self.budget.bytes_max if self.budget.bytes_max else 0.0

    def new_segment(self, path: str, size: int) -> MemorySegment:
        """Make the object behind a new path; a subclass returns its own kind."""
        return MemorySegment(path, size)

    def open_segment(
        self,
        path: str,
        size: int,
        *,
        create: bool = True,
        may_rest: bool = False,  # noqa: ARG002 - nothing is open here
    ) -> MemorySegment:
        """Open or create a segment."""
        found = self._segments.get(path)
        if found is None:
            data = self._files.get(path)
            if data is None and not create:
                raise StoreError(f"{path}: no such file")
            if data and len(data) != size:
                raise StoreError(f"{path}: length {len(data)} instead of {size} bytes")
            found = self.new_segment(path, size)
            found.faults = self.faults
            found.budget = self.budget
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
        self._drop_segment(path)

    def _drop_segment(self, path: str) -> None:
        segment = self._segments.pop(path, None)
        if segment is not None:
            self.budget.give_back(segment.taken)

    def remove_tree(self, path: str) -> None:
        """Remove a file, or a folder with everything in it."""
        folder = path + "/"
        for name in self.files():
            if name == path or name.startswith(folder):
                self.remove(name)

    def rename(self, source: str, target: str) -> None:
        """Move a file over another one, or a folder to a new name."""
        inside = [name for name in self.files() if name.startswith(f"{source}/")]
        for name in inside:
            self.rename(name, target + name.removeprefix(source))
        if inside:
            return
        data = self.read_file(source)
        for path in (source, target):
            self.remove(path)
        self._files[target] = data

    def read_file(self, path: str) -> bytes:
        """Give the whole file."""
        segment = self._segments.get(path)
        return bytes(segment.view(0, segment.size)) if segment is not None else self._file(path)

    def write_file(self, path: str, data: bytes) -> None:
        """Write a whole small file."""
        data, error = self.faults.check_write(path, data)
        self._drop_segment(path)
        self._files[path] = bytes(data)
        if error is not None:
            raise error

    def sync_file(self, path: str) -> None:
        """Check only that the file exists, and whether this is to fail."""
        if path not in self._segments:
            self._file(path)
        if self.faults.armed:
            self.faults.check_sync(path)

    def sync_dir(self, path: str) -> None:
        """Check only whether this is to fail."""
        if self.faults.armed:
            self.faults.check_sync(path)

    def lose_unsynced(self, random: Random | None = None) -> int:
        """Lose what no sync has made durable; see ``fs.FileSystem``."""
        return sum(one.lose_unsynced(random) for _, one in sorted(self._segments.items()))

    def look(self) -> str | None:
        """Find nothing wrong: memory does not move."""
        return None

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

    def copy(self) -> "MemoryFileSystem":
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
