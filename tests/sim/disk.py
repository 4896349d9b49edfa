"""A disk that can die: the memory file system with the faults that a simulation asks for.

Answers: what survives a process that is killed in the middle of a write, and a machine that loses
what was never synced. A write can be torn at any byte, a sync can be refused, the disk can be
full. What a power loss takes: of every file a random tail of its unsynced writes, the first of
them torn; of every folder a random tail of its creations, removals and renames since its last
sync. A file whose name survives without its length is empty. Must not know: what the bytes mean.

Read on: `story.py` for when it dies, `embedded_broker/store/memory_fs.py` for the rest.
"""

from __future__ import annotations

import posixpath
from random import Random
from typing import NamedTuple

from embedded_broker.errors import StoreError
from embedded_broker.store.memory_fs import MemoryFileSystem, MemorySegment

Buffer = bytes | bytearray | memoryview


class SimulatedCrash(BaseException):
    """The process is dead; nothing may catch it but the simulation."""


class Loss(NamedTuple):
    """What a power loss took: files that lost bytes, and names that came or went back."""

    files: int
    names: int


class _Text(bytes):
    """A small file's content; `durable` is what a power loss cannot take."""

    durable: bytes = b""


_Entry = MemorySegment | bytes | None


class Segment(MemorySegment):
    """A segment that remembers what its unsynced writes replaced."""

    __slots__ = ("_disk", "_undo", "was_synced")

    def __init__(self, disk: Disk, path: str, size: int) -> None:
        super().__init__(path, size)
        self._disk = disk
        self._undo: list[tuple[int, bytes]] = []
        self.was_synced = False

    def write(self, at: int, data: Buffer) -> None:
        kept = self._disk.admit_write(len(data))
        if kept:
            self._undo.append((at, bytes(self._pages[at : at + kept])))
            super().write(at, data[:kept] if kept < len(data) else data)
        self._disk.after_write(kept == len(data))

    def sync(self) -> None:
        self._disk.admit_sync(self.path)
        self._undo.clear()
        self.was_synced = True

    def lose(self, random: Random) -> bool:
        """Take a random tail of the unsynced writes back; says whether there was any."""
        undo = self._undo
        kept = _random_prefix(random, len(undo))
        lost = undo[kept:]
        while undo:
            at, before = undo.pop()
            if len(undo) < kept:
                break
            torn = random.randint(0, len(before)) if len(undo) == kept else 0
            self._pages[at + torn : at + len(before)] = before[torn:]
        undo.clear()
        self.was_synced = True
        return bool(lost)


class Disk(MemoryFileSystem):
    """The file system object that outlives every broker of one simulated run.

    After `arm` the process dies at the n-th change from now; until `reboot` every further change
    raises `SimulatedCrash` as well, so that no clean-up code of the dead process does anything.
    """

    def __init__(self, random: Random, *, persistent: bool) -> None:
        super().__init__()
        self.persistent = persistent
        self._random = random
        self._names: dict[str, list[dict[str, _Entry]]] = {}
        self._left: int | None = None
        self.is_dead = False
        self.full_for = 0
        """How many writes are refused from now on, as on a full disk."""
        self.full_saves = 0
        """How many writes of small files are refused from now on: there is room for no more."""
        self.refused_saves = 0
        self.refuse_syncs = 0
        self.changes = 0
        self.torn_writes = 0
        self.refused = 0

    # --- faults ------------------------------------------------------------------------------

    def arm(self, changes: int) -> None:
        """Die at this change from now, counted from 1."""
        self._left = changes

    @property
    def is_armed(self) -> bool:
        return self._left is not None

    def disarm(self) -> None:
        self._left = None

    def reboot(self, *, power_lost: bool) -> Loss:
        """Let the next process in; a power loss takes what was not synced."""
        self._locks.clear()
        self._left = None
        self.is_dead = False
        self.full_for = self.full_saves = self.refuse_syncs = 0
        return self._lose_power() if power_lost else Loss(0, 0)

    def admit_write(self, length: int) -> int:
        """Give how many bytes get through; `after_write` says whether that is an error."""
        if self._count():
            kept = self._random.randint(0, length)
            self.torn_writes += 0 < kept < length
            return kept
        if self.full_for and length:
            self.full_for -= 1
            self.refused += 1
            return self._random.randrange(length)
        return length

    def after_write(self, whole: bool) -> None:
        """End a write that was admitted: the process may be dead, or the disk full."""
        if self.is_dead:
            raise SimulatedCrash
        if not whole:
            raise StoreError("no space left on the simulated disk")

    def admit_sync(self, path: str) -> None:
        if self._count():
            raise SimulatedCrash
        if self.refuse_syncs:
            self.refuse_syncs -= 1
            self.refused += 1
            raise StoreError(f"{path}: the simulated disk refused a sync")

    def _count(self) -> bool:
        """Count a change; True when it is the one at which the process dies."""
        if self.is_dead:
            raise SimulatedCrash
        self.changes += 1
        if self._left is None:
            return False
        self._left -= 1
        if self._left > 0:
            return False
        self._left = None
        self.is_dead = True
        return True

    def _change_names(self, *paths: str) -> None:
        if self._count():
            raise SimulatedCrash
        folder = posixpath.dirname(paths[0])
        self._names.setdefault(folder, []).append({path: self._entry(path) for path in paths})

    def _entry(self, path: str) -> _Entry:
        segment = self._segments.get(path)
        return segment if segment is not None else self._files.get(path)

    # --- power loss --------------------------------------------------------------------------

    def _lose_power(self) -> Loss:
        random = self._random
        names = 0
        for folder in sorted(self._names):
            changes = self._names[folder]
            kept = _random_prefix(random, len(changes))
            names += len(changes) - kept
            for before in reversed(changes[kept:]):
                for path, entry in before.items():
                    self._put_back(path, entry)
            if kept and random.random() < 0.2:
                self._lose_length(changes[kept - 1])
        self._names.clear()
        files = 0
        for path in sorted(self._segments):
            segment = self._segments[path]
            files += isinstance(segment, Segment) and segment.lose(random)
        for path in sorted(self._files):
            text = self._files[path]
            if isinstance(text, _Text) and text.durable != text:
                files += 1
                torn = bytes(text)[: random.randint(0, len(text))]
                self._write_durable(path, random.choice((text.durable, torn)))
        return Loss(files, names)

    def _put_back(self, path: str, entry: _Entry) -> None:
        self._segments.pop(path, None)
        self._files.pop(path, None)
        if isinstance(entry, MemorySegment):
            self._segments[path] = entry
        elif entry is not None:
            self._files[path] = entry

    def _lose_length(self, change: dict[str, _Entry]) -> None:
        """Let the newest file of a folder be empty: its name came to the disk, its size did not."""
        for path, before in change.items():
            segment = self._segments.get(path)
            if before is None and isinstance(segment, Segment) and not segment.was_synced:
                del self._segments[path]
                self._write_durable(path, b"")

    def _write_durable(self, path: str, data: bytes) -> None:
        text = _Text(data)
        text.durable = data
        self._files[path] = text

    # --- the seam ----------------------------------------------------------------------------

    def new_segment(self, path: str, size: int) -> MemorySegment:
        return Segment(self, path, size)

    def open_segment(
        self, path: str, size: int, *, create: bool = True, may_rest: bool = False
    ) -> MemorySegment:
        if create and self._entry(path) is None:
            self._change_names(path)
        return super().open_segment(path, size, create=create, may_rest=may_rest)

    def remove(self, path: str) -> None:
        if self._entry(path) is not None:
            self._change_names(path)
            super().remove(path)

    def rename(self, source: str, target: str) -> None:
        data = self._file(source)
        self._change_names(source, target)
        del self._files[source]
        self._segments.pop(target, None)
        self._files[target] = data

    def read_file(self, path: str) -> bytes:
        # Not the remembering kind: some decoders take exact bytes only.
        return bytes(super().read_file(path))

    def write_file(self, path: str, data: bytes) -> None:
        before = self._files.get(path)
        if before is None:
            self._change_names(path)
        kept = self.admit_write(len(data))
        if kept == len(data) and kept and self.full_saves and not self.is_dead:
            self.full_saves -= 1
            self.refused_saves += 1
            self.refused += 1
            kept = self._random.randrange(kept)
        text = _Text(data[:kept])
        text.durable = before.durable if isinstance(before, _Text) else b""
        self._files[path] = text
        self.after_write(kept == len(data))

    def sync_file(self, path: str) -> None:
        self.admit_sync(path)
        text = self._file(path)
        if isinstance(text, _Text):
            text.durable = bytes(text)

    def sync_dir(self, path: str) -> None:
        self.admit_sync(path)
        self._names.pop(path, None)


def _random_prefix(random: Random, length: int) -> int:
    """Give how many of some unsynced changes the disk had written out: often all, or none."""
    kind = random.random()
    if kind < 0.3:
        return length
    return 0 if kind < 0.5 else random.randint(0, length)
