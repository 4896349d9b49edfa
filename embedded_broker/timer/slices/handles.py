"""The open files of all slices: a bounded number of them.

Answers: which file of which slice is open. A slice is a folder of files, and forty days have
nearly two thousand slices, so only the files used last are open; those of the slices in memory
are given up last. Must not know: what the bytes mean, which slice is which.

A flush syncs files outside the door. A handle that it was given is not closed under its hands: it
is put aside and closed when the next flush begins.

Read on: `dcommit_log.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from embedded_broker.store.fs import FileSystem, Segment

__all__ = ["OPEN_FILES_MAX", "SliceHandles"]

OPEN_FILES_MAX = 32


class SliceHandles:
    """Segments by path, the one used last at the end; at most `most` are open."""

    def __init__(self, fs: FileSystem, file_size: int, *, most: int = OPEN_FILES_MAX) -> None:
        self._fs = fs
        self._most = most
        self.file_size = file_size
        self._open: OrderedDict[str, Segment] = OrderedDict()
        self._in_flush: set[str] = set()
        self._aside: list[Segment] = []
        self.keep: Collection[str] = ()
        """Folders of the slices in memory: their files are closed last."""
        self.opened = 0
        """How often a file was opened."""

    def __len__(self) -> int:
        return len(self._open) + len(self._aside)

    def get(self, path: str, *, create: bool = False) -> Segment:
        """Open a file, or give the open one. Raises StoreError."""
        found = self._open.get(path)
        if found is not None:
            self._open.move_to_end(path)
            return found
        found = self._fs.open_segment(path, self.file_size, create=create)
        self.opened += 1
        self._open[path] = found
        if len(self._open) > self._most:
            self._give_up_one()
        return found

    def lend(self, paths: Collection[str]) -> dict[str, Segment]:
        """Give those of these files that are open to a flush; the one before has ended."""
        for segment in self._aside:
            segment.close()
        self._aside.clear()
        lent = {path: self._open[path] for path in paths if path in self._open}
        self._in_flush = set(lent)
        return lent

    def forget(self, folder: str) -> None:
        """Close the files of a folder."""
        for path in [one for one in self._open if one.startswith(f"{folder}/")]:
            self._close(path)

    def close(self) -> None:
        """Close everything."""
        for segment in (*self._open.values(), *self._aside):
            segment.close()
        self._open.clear()
        self._aside.clear()
        self._in_flush = set()

    def _give_up_one(self) -> None:
        candidates = list(self._open)[:-1]
        others = (one for one in candidates if one.rpartition("/")[0] not in self.keep)
        self._close(next(others, candidates[0]))

    def _close(self, path: str) -> None:
        segment = self._open.pop(path)
        if path in self._in_flush:
            self._in_flush.discard(path)
            self._aside.append(segment)
        else:
            segment.close()
