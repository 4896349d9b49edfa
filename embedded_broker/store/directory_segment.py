"""One file of a fixed size in a directory.

Answers: how its bytes are written, shown and made durable. Bytes are written by ``pwrite``: so a
full disk is an error, and not a signal that ends the process. What was written is shown through a
read-only map. What was never written is a hole of the file, and is read by ``pread``: on a tmpfs
a look at a hole through a map takes a block, and when there is none the process dies of SIGBUS.
Must not know: what the bytes mean, where other files lie. Read on: ``open_files.py`` for files that
rest, ``directory_fs.py`` for who opens them.
"""

import errno
import mmap
import os
import sys
from typing import Final

from embedded_broker.errors import StoreError
from embedded_broker.store.fault_points import NO_FAULTS, Unsynced
from embedded_broker.store.open_files import OpenFiles, disk_refusal

_RESTING: Final = -1
_CLOSED: Final = -2
_COPIED_MAX: Final = 8 * 1024 * 1024
"""Longest range with a hole in it that is always copied; of a longer one the holes are filled."""
_MAP_OPTIONS: Final[dict[str, bool]] = {} if sys.version_info < (3, 13) else {"trackfd": False}


class WrittenFile:
    """What was written to a file and what of it is durable; it outlives the open file."""

    __slots__ = ("end", "unsynced")

    def __init__(self, end: int) -> None:
        self.end = end
        self.unsynced = Unsynced(end)


class DirectorySegment:
    """A sparse file of a fixed size; see ``fs.Segment``.

    With ``may_rest`` it may give its descriptor back while it is not used.
    """

    __slots__ = (
        "_fd",
        "_files",
        "_found_end",
        "_may_rest",
        "_pages",
        "_record",
        "_solid",
        "_view",
        "faults",
        "path",
        "size",
    )

    def __init__(
        self,
        path: str,
        size: int,
        fd: int,
        files: OpenFiles,
        record: WrittenFile | None = None,
        *,
        may_rest: bool = False,
    ) -> None:
        self.path = path
        self.size = size
        self.faults = NO_FAULTS
        self._fd = fd
        self._files = files
        self._found_end = _data_end(fd, size)
        self._record = WrittenFile(self._found_end) if record is None else record
        self._pages: mmap.mmap | None = None
        self._view: memoryview | None = None
        self._solid = -1  # up to here there is no hole; -1 while nothing is mapped
        self._may_rest = may_rest
        if may_rest:
            files.admit(self)

    def write(self, at: int, data: bytes | bytearray | memoryview) -> None:
        """Put the bytes there before returning."""
        record, reason = self._record, None
        if self.faults.armed:
            kept, reason = self.faults.admit(self.path, len(data))
            data = data[:kept]
        end = at + len(data)
        if at < record.unsynced.synced_end:
            record.unsynced.note(at, self.read(at, len(data)))
        record.end = max(record.end, end)
        self._put(at, data)
        if at <= self._solid < end:
            self._solid = end
        if reason is not None:
            raise StoreError(f"{self.path}: {reason}")

    def _put(self, at: int, data: bytes | bytearray | memoryview) -> None:
        try:
            done = os.pwrite(self._fd, data, at)
            while done < len(data):  # a signal or a nearly full disk cut it short
                done += os.pwrite(self._fd, memoryview(data)[done:], at + done)
        except OSError as error:
            if error.errno == errno.EBADF and self._fd == _RESTING:
                self._fd = self._files.open(self.path)
                self._files.admit(self)
                self._put(at, data)
                return
            doing = f"write {len(data)} bytes at {at}"
            raise disk_refusal(self._files.root, self.path, doing, error) from error

    def view(self, at: int, length: int) -> memoryview:
        """Show bytes without copying; the file is mapped on the first call."""
        end = at + length
        if end <= self._solid:
            view = self._view
            if view is not None:  # another thread may just have let it go
                return view[at:end]
        return self._view_behind(at, end)

    def _view_behind(self, at: int, end: int) -> memoryview:
        """Show bytes of a file that is not mapped yet, or that has a hole before their end."""
        view = self._view
        if view is None or self._solid < 0:
            view = self._map()
        if end <= self._solid:
            return view[at:end]
        if end - at <= _COPIED_MAX:
            return memoryview(self.read(at, end - at))
        try:
            with self._files.lent(self) as fd:
                for hole, length in _holes(fd, at, end):
                    os.posix_fallocate(fd, hole, length)
        except OSError:  # a full disk, or one that is only looked at
            return memoryview(self.read(at, end - at))
        return view[at:end]

    def read(self, at: int, length: int) -> bytes:
        """Copy bytes, also where nothing was ever written."""
        if self._fd == _CLOSED:
            raise StoreError(f"{self.path}: the segment is closed")
        try:
            if self._may_rest:
                with self._files.lent(self) as fd:
                    found = os.pread(fd, length, at)
            else:
                found = os.pread(self._fd, length, at)
        except OSError as error:
            doing = f"read {length} bytes at {at}"
            raise disk_refusal(self._files.root, self.path, doing, error) from error
        if len(found) != length:
            raise StoreError(
                f"{self.path}: it was cut to {at + len(found)} bytes while it was open"
            )
        return found

    @property
    def descriptor(self) -> int:
        """The open descriptor; negative while the file rests. For ``OpenFiles``."""
        return self._fd

    def data_end(self) -> int:
        """Give the end of the last write, or of the last extent that was found."""
        return max(self._record.end, self._found_end)

    @property
    def record(self) -> WrittenFile:
        """What is known of the file's durability."""
        return self._record

    def sync(self) -> None:
        """Return when the bytes are on the disk."""
        if self.faults.armed:
            self.faults.check_sync(self.path)
        end = self._record.end
        if self._fd == _CLOSED:
            raise StoreError(f"{self.path}: cannot sync: the segment is closed")
        with self._files.lent(self) as fd:
            try:
                os.fdatasync(fd)
                is_gone = not os.fstat(fd).st_nlink
            except OSError as error:
                raise disk_refusal(self._files.root, self.path, "sync", error) from error
        if is_gone:
            raise StoreError(f"{self._files.root / self.path} was removed while the broker used it")
        self._record.unsynced.synced(end)

    def rest(self) -> None:
        """Close the descriptor until the next write. For ``OpenFiles``."""
        fd, self._fd = self._fd, _RESTING
        if fd >= 0:
            os.close(fd)

    def unmap(self) -> None:
        """Forget the map; it goes when the last view of it goes. For ``OpenFiles``."""
        self._solid = -1
        self._view = self._pages = None

    def close(self) -> None:
        """Close the file; the mapping goes when the last view of it goes."""
        self._files.forget(self)
        self._fd = _CLOSED

    def _map(self) -> memoryview:
        if self._fd == _CLOSED:
            raise StoreError(f"{self.path}: the segment is closed")
        with self._files.lent(self) as fd:
            try:
                pages = mmap.mmap(fd, self.size, prot=mmap.PROT_READ, **_MAP_OPTIONS)
            except OSError as error:
                doing = f"map {self.size} bytes"
                raise disk_refusal(self._files.root, self.path, doing, error) from error
            solid = next((at for at, _ in _holes(fd, 0, self.size)), self.size)
        self._pages = pages
        self._view = view = memoryview(pages)
        self._solid = solid
        self._files.mapped(self)
        return view


def _data_end(fd: int, size: int) -> int:
    """Give the end of the last extent; the size where the file system knows no holes."""
    end = 0
    try:
        while end < size:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
    except OSError as error:
        return end if error.errno == errno.ENXIO else size
    return end


def _holes(fd: int, at: int, end: int) -> list[tuple[int, int]]:
    """Give begin and length of every hole in a range; none where the file system knows none."""
    found: list[tuple[int, int]] = []
    while at < end:
        try:
            hole = os.lseek(fd, at, os.SEEK_HOLE)
        except OSError:
            break
        if hole >= end:
            break
        try:
            at = min(os.lseek(fd, hole, os.SEEK_DATA), end)
        except OSError:
            at = end
        found.append((hole, at - hole))
    return found
