"""A memory file system that dies in the middle of a write, as a killed process does."""

from __future__ import annotations

from random import Random
from typing import NoReturn

from embedded_broker.store.memory_fs import MemoryFileSystem, MemorySegment


class Killed(BaseException):
    """The process is gone: nothing that follows the write happens."""


class DyingSegment(MemorySegment):
    """A segment whose writes may be the last thing that happens."""

    __slots__ = ("fs",)

    fs: DyingFileSystem

    def write(self, at: int, data: bytes | bytearray | memoryview) -> None:
        written = self.fs.survives(len(data))
        if written is None:
            super().write(at, data)
        else:
            super().write(at, bytes(data)[:written])
            self.fs.die()


class DyingFileSystem(MemoryFileSystem):
    """After `die_in(n)` the n-th write is cut at a random byte and raises `Killed`.

    `remains` is the disk as it was then, whatever is written while the exception travels.
    """

    def __init__(self, random: Random, death: type[BaseException] = Killed) -> None:
        super().__init__()
        self._random = random
        self._death = death
        self._left = 0
        self.remains: MemoryFileSystem | None = None

    def take_over(self, other: MemoryFileSystem) -> None:
        """Hold the same files as another one."""
        self._files = dict(other._files)
        for path, segment in other._segments.items():
            self.open_segment(path, segment.size).write(0, segment.view(0, segment.data_end()))

    def die(self) -> NoReturn:
        self.remains = self.copy()
        raise self._death

    def new_segment(self, path: str, size: int) -> DyingSegment:
        segment = DyingSegment(path, size)
        segment.fs = self
        return segment

    def die_in(self, writes: int) -> None:
        self._left = writes

    def live_on(self) -> None:
        self._left = 0

    def survives(self, length: int) -> int | None:
        """Give how many bytes of the last write arrive; None for any other write."""
        if self._left == 0:
            return None
        self._left -= 1
        return self._random.randrange(length + 1) if self._left == 0 else None

    def write_file(self, path: str, data: bytes) -> None:
        written = self.survives(len(data))
        super().write_file(path, data if written is None else data[:written])
        if written is not None:
            self.die()

    def rename(self, source: str, target: str) -> None:
        if self.survives(1) is not None:
            self.die()  # a rename happens whole or not at all
        left, self._left = self._left, 0
        super().rename(source, target)
        self._left = left
