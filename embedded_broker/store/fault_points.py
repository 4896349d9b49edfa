"""Fault points: where a file system can be made to fail, and what a power loss would take.

Answers: whether a write or a sync that is about to happen goes wrong, and which bytes of a file
were not synced yet. Both file systems ask here; nothing goes wrong unless a test has asked for it.
Must not know: what the bytes mean, who asks for faults. Read on: ``embedded_broker/api/faults.py``
for the test's side, ``memory_fs.py`` and ``directory_fs.py`` for who asks.
"""

from random import Random
from threading import Lock
from typing import Final

from attrs import define

from embedded_broker.errors import StoreError

UNDO_MAX: Final = 4096
"""Overwrites of one file that are remembered between two syncs; older ones count as durable."""


@define(slots=True, eq=False)
class DiskFault:
    """One fault of the disk. ``hits`` counts how often it has happened.

    ``path`` is the file or folder that it concerns; "" means all. ``left`` says how often it may
    still happen; None means always. ``room`` is how many bytes get through before a write fails: of
    each write, or with ``of_all`` of all writes together.
    """

    what: str
    path: str = ""
    left: int | None = 1
    room: int = 0
    of_all: bool = False
    hits: int = 0

    def concerns(self, path: str) -> bool:
        """Whether it is about this file and not used up."""
        if self.left is not None and self.left <= 0:
            return False
        return not self.path or path == self.path or path.startswith(f"{self.path}/")

    def hit(self) -> None:
        """Count that it happened."""
        self.hits += 1
        if self.left is not None:
            self.left -= 1


class FaultPoints:
    """The faults of one file system; ``armed`` while there are any."""

    def __init__(self) -> None:
        self.armed = False
        self._lock = Lock()
        self._writes: list[DiskFault] = []
        self._syncs: list[DiskFault] = []

    def add_write(self, fault: DiskFault) -> None:
        """Let writes fail as the fault says."""
        with self._lock:
            self._writes.append(fault)
            self.armed = True

    def add_sync(self, fault: DiskFault) -> None:
        """Let syncs fail as the fault says."""
        with self._lock:
            self._syncs.append(fault)
            self.armed = True

    def remove(self, fault: DiskFault) -> None:
        """Let one fault happen no more."""
        with self._lock:
            self._writes = [one for one in self._writes if one is not fault]
            self._syncs = [one for one in self._syncs if one is not fault]
            self.armed = bool(self._writes or self._syncs)

    def clear(self) -> None:
        """Let nothing go wrong any more."""
        with self._lock:
            self._writes.clear()
            self._syncs.clear()
            self.armed = False

    def admit(self, path: str, length: int) -> tuple[int, str | None]:
        """Say how many bytes of a write get through, and why not all of them."""
        with self._lock:
            for fault in self._writes:
                if not fault.concerns(path):
                    continue
                if fault.of_all:
                    kept = min(length, fault.room)
                    fault.room -= kept
                    if kept < length:
                        fault.hit()
                        return kept, fault.what
                elif length > fault.room:
                    fault.hit()
                    return fault.room, fault.what
        return length, None

    def check_sync(self, path: str) -> None:
        """Raise ``StoreError`` when the sync of this file is to fail."""
        with self._lock:
            for fault in self._syncs:
                if fault.concerns(path):
                    fault.hit()
                    raise StoreError(f"{path}: {fault.what}")

    def check_write(self, path: str, data: bytes) -> tuple[bytes, StoreError | None]:
        """Give the part of a small file that gets through, and the error to raise after it."""
        if not self.armed:
            return data, None
        kept, reason = self.admit(path, len(data))
        return data[:kept], None if reason is None else StoreError(f"{path}: {reason}")


NO_FAULTS: Final = FaultPoints()
"""For files that no file system has opened; never armed."""


class Unsynced:
    """What a power loss would take of one file: all that was written since the last sync.

    Bytes behind ``synced_end`` were zero then; of those before it the replaced ones are kept.
    """

    __slots__ = ("_undo", "synced_end")

    def __init__(self, synced_end: int = 0) -> None:
        self.synced_end = synced_end
        self._undo: list[tuple[int, bytes]] = []

    def note(self, at: int, before: bytes) -> None:
        """Remember what a write replaces."""
        if len(self._undo) >= UNDO_MAX:
            del self._undo[: UNDO_MAX // 2]
        self._undo.append((at, before))

    def synced(self, end: int) -> None:
        """Note that everything written up to ``end`` is durable."""
        self._undo = []
        self.synced_end = end

    def lose(self, end: int, random: Random | None) -> list[tuple[int, bytes]]:
        """Give the writes that bring the last synced state back; nothing is unsynced after that.

        With ``random`` the disk had written a random first part of what came since.
        """
        undo, self._undo = self._undo, []
        writes: list[tuple[int, bytes]] = []
        kept = 0 if random is None else random.randint(0, len(undo))
        for number in range(len(undo) - 1, kept - 1, -1):
            at, before = undo[number]
            torn = 0 if random is None or number > kept else random.randint(0, len(before))
            writes.append((at + torn, before[torn:]))
        added = max(0, end - self.synced_end)
        left = 0 if random is None else random.randint(0, added)
        if added > left:
            writes.append((self.synced_end + left, bytes(added - left)))
        self.synced_end += left
        return writes
