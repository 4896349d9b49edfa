"""File system interface: the one seam between the store's files and a disk, or memory.

A store is a tree of *segments* (files of a fixed size, created sparse and full of zeros) and
*small files* (written whole). Paths are relative, with forward slashes. The seam must not know
what the bytes mean. Two implementations: ``MemoryFileSystem`` (``memory_fs.py``) and
``DirectoryFileSystem`` (``directory_fs.py``). Read on: ``mapped_file.py``, which makes one
endless log out of segments.
"""

from random import Random
from typing import Protocol, TypeAlias

from embedded_broker.store.fault_points import FaultPoints

Buffer: TypeAlias = bytes | bytearray | memoryview


class Segment(Protocol):
    """A file of a fixed size: bytes that were never written are zero.

    The caller keeps ``at`` and ``at + length`` inside ``size``. One thread writes at a time.
    """

    @property
    def path(self) -> str:
        """Where it lies, relative to the file system's root."""

    @property
    def size(self) -> int:
        """Its length in bytes; never changes."""

    def write(self, at: int, data: Buffer) -> None:
        """Put the bytes there; every view sees them at once. Raises ``StoreError`` (disk full)."""

    def view(self, at: int, length: int) -> memoryview:
        """Show bytes without copying: read-only, and live where they were written before.

        Where nothing was ever written it may be a copy.
        """

    def read(self, at: int, length: int) -> bytes:
        """Copy bytes; for files that are read at random places, where some were never written."""

    def data_end(self) -> int:
        """Give a position from which on everything is zero (not always the smallest one)."""

    def sync(self) -> None:
        """Return when every write that returned before is durable. Raises ``StoreError``."""

    def close(self) -> None:
        """Give the handle back; the bytes stay. Views that were handed out stay valid."""


class FileSystem(Protocol):
    """A tree of segments and small files. Every method raises ``StoreError`` when it fails."""

    faults: FaultPoints
    """Where a test lets writes and syncs fail."""

    @property
    def persistent(self) -> bool:
        """Whether the bytes survive the process."""

    def lose_unsynced(self, random: Random | None = None) -> int:
        """Lose what no sync has made durable, as a power loss does; gives how many files lost.

        With ``random`` each file keeps a random first part of it. Only segments lose anything:
        small files are synced right after they are written, and names count as durable. To be
        called while no broker uses the store.
        """

    @property
    def used_percent(self) -> float:
        """How full the disk is, as ``UtilAll.getDiskPartitionSpaceUsedPercent``; 0 for memory."""

    def open_segment(
        self, path: str, size: int, *, create: bool = True, may_rest: bool = False
    ) -> Segment:
        """Open a segment, or create it and its folders.

        With ``may_rest`` it is one of many that are only written under the owner's lock: its
        descriptor may be closed and opened again in between.

        Raises ``StoreError`` if the file exists with another length (both are named), or if it
        is missing and ``create`` is false. An existing file of length 0 counts as just created:
        a crash between creating and sizing leaves one.
        """

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or a folder."""

    def size(self, path: str) -> int:
        """Give a file's length in bytes."""

    def list(self, path: str) -> list[str]:
        """Give the sorted names inside a folder; none when there is no such folder."""

    def remove(self, path: str) -> None:
        """Remove a file; a missing one is no error."""

    def remove_tree(self, path: str) -> None:
        """Remove a file, or a folder with everything in it; a missing one is no error."""

    def rename(self, source: str, target: str) -> None:
        """Move a file over another one, at once or not at all; its folder is made if need be."""

    def read_file(self, path: str) -> bytes:
        """Give the whole file."""

    def write_file(self, path: str, data: bytes) -> None:
        """Write a whole small file, creating its folder. Not durable before ``sync_file``."""

    def sync_file(self, path: str) -> None:
        """Make a small file's bytes durable."""

    def sync_dir(self, path: str) -> None:
        """Make creations, removals and renames inside a folder durable."""

    def look(self) -> str | None:
        """Say why nothing can be stored any more: the place is not the one that was locked.

        None while all is well. To be called outside the door at each flush.
        """

    def lock(self, path: str, owner: str) -> None:
        """Take the store for one owner; raises ``StoreLockedError`` that names the holder."""

    def unlock(self, path: str) -> None:
        """Give the store back; without a lock nothing happens."""
