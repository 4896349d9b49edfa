"""The timer log: one 52-byte record for every timer that entered the wheel.

Answers: how a record lies in bytes, and how records of one slot are found again: each names its
predecessor, so a slot is a chain that is read from its end. Must not know: messages, slots,
clocks. Format as in `org.apache.rocketmq.store.timer.TimerLog`: files of `mappedFileSizeTimerLog`
bytes, a 16-byte blank where no further record fits, zeros behind the end.

Read on: `wheel.py` for the slots that hold the chains' ends, `recovery.py` for how the end of the
log is found after a crash.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from embedded_broker.store.fs import FileSystem
from embedded_broker.store.mapped_file import MappedFileQueue, SyncPlan

__all__ = [
    "BLANK_MAGIC",
    "BLANK_SIZE",
    "MAGIC_DEFAULT",
    "MAGIC_DELETE",
    "MAGIC_ROLL",
    "RECORD_SIZE",
    "TimerLog",
    "TimerLogRecord",
    "decode_record",
    "encode_record",
    "is_valid_magic",
]

RECORD_SIZE: Final = 52
BLANK_SIZE: Final = 16
MAGIC_DEFAULT: Final = 1
MAGIC_ROLL: Final = 2
"""The slot is a hop: the message goes back into the timer topic at its end."""
MAGIC_DELETE: Final = 4
"""The message is a mark that removes another one."""
BLANK_MAGIC: Final = -875_286_124
"""`CBD43194`, as the commit log's blank."""

_RECORD: Final = struct.Struct(">iqiqiqiiq")
_BLANK: Final = struct.Struct(">iqi")
_VALID_MAGIC: Final = 0xF


class TimerLogRecord(NamedTuple):
    """One record: where its slot's previous one lies, when, and which commit-log message."""

    prev_pos: int
    magic: int
    write_time_ms: int
    delay_ms: int
    offset_py: int
    size_py: int
    topic_hash: int

    @property
    def slot_ms(self) -> int:
        """The slot that the record was linked into."""
        return self.write_time_ms + self.delay_ms


def is_valid_magic(magic: int) -> bool:
    """Say whether only the low four bits are used, all that recovery of the original asks."""
    return magic & ~_VALID_MAGIC == 0


def encode_record(record: TimerLogRecord) -> bytes:
    """Give the 52 bytes of a record."""
    return _RECORD.pack(RECORD_SIZE, *record, 0)


def decode_record(data: bytes | memoryview, at: int = 0) -> TimerLogRecord | None:
    """Read a record; None when the bytes are no record: wrong size field or magic."""
    if len(data) - at < RECORD_SIZE:
        return None
    size, prev, magic, write_time, delay, offset, length, topic_hash, _ = _RECORD.unpack_from(
        data, at
    )
    if size != RECORD_SIZE or not is_valid_magic(magic):
        return None
    return TimerLogRecord(prev, magic, write_time, delay, offset, length, topic_hash)


class TimerLog:
    """The log over the file-system seam; appended by one owner, read anywhere."""

    def __init__(self, fs: FileSystem, directory: str, file_size: int) -> None:
        self._fs = fs
        self._files = MappedFileQueue(fs, directory, file_size)

    @property
    def file_size(self) -> int:
        """Length of every file."""
        return self._files.file_size

    @property
    def end(self) -> int:
        """Position of the next record, a blank before it not counted."""
        return self._files.max_offset

    @property
    def begin(self) -> int:
        """Position of the oldest byte that is kept."""
        return self._files.min_offset

    def found_file_size(self) -> int | None:
        """Give the length of the first file that exists; None without one."""
        folder = self._files.directory
        for name in self._fs.list(folder):
            size = self._fs.size(f"{folder}/{name}")
            if size:
                return size
        return None

    def load(self, file_size: int | None = None) -> None:
        """Open the files that exist; `recovery` then finds the end and calls `truncate`.

        `file_size` replaces the length given at first: a store keeps the one it was made with.
        """
        if file_size is not None:
            self._files.file_size = file_size
        self._files.load()

    def append_record(
        self,
        prev_pos: int,
        magic: int,
        write_time_ms: int,
        delay_ms: int,
        offset_py: int,
        size_py: int,
        topic_hash: int,
    ) -> int:
        """Append one record and give its position. Raises StoreError when the disk refuses."""
        return self.append(
            _RECORD.pack(
                RECORD_SIZE,
                prev_pos,
                magic,
                write_time_ms,
                delay_ms,
                offset_py,
                size_py,
                topic_hash,
                0,
            )
        )

    def append(self, data: bytes) -> int:
        """Append bytes that stay in one file, behind a blank when the current one is too full."""
        files = self._files
        room = files.room
        if len(data) + BLANK_SIZE > room:
            if room >= BLANK_SIZE:
                files.append(_BLANK.pack(room, 0, BLANK_MAGIC))
            files.skip_to_next_file()
        return files.append(data)

    def read(self, position: int) -> TimerLogRecord | None:
        """Give the record at a position; None when there is none."""
        view = self._files.read(position, RECORD_SIZE)
        return None if view is None else decode_record(view)

    def read_bytes(self, position: int) -> memoryview:
        """Show everything from a position to the end of its file, or of the log."""
        return self._files.read_file_from(position)

    def chain(self, last_pos: int, slot_ms: int) -> Iterator[tuple[int, TimerLogRecord]]:
        """Walk a slot's records from the newest back to the oldest, with their positions.

        Stops early, without an error, where the chain leaves the slot or does not go back: a
        record of another slot time, a predecessor at or behind the record, or no record at all.
        """
        position = last_pos
        while position >= 0:
            record = self.read(position)
            if record is None or record.write_time_ms + record.delay_ms != slot_ms:
                return
            yield position, record
            if record.prev_pos >= position:
                return
            position = record.prev_pos

    def scan(self, position: int) -> Iterator[tuple[int, TimerLogRecord]]:
        """Go through the records from a position on, over blanks, until something is none."""
        while position < self._files.max_offset:
            view = self.read_bytes(position)
            at = 0
            while (record := decode_record(view, at)) is not None:
                yield position + at, record
                at += RECORD_SIZE
            if not _is_blank(view, at):
                return
            position += self.file_size - position % self.file_size

    def last_record_offset_py(self, file_start: int) -> int | None:
        """Give the commit-log offset of the last record of a full file; None when it is none."""
        size = self.file_size
        last = size - (size - BLANK_SIZE) % RECORD_SIZE - BLANK_SIZE - RECORD_SIZE
        record = self.read(file_start + last)
        return None if record is None else record.offset_py

    @property
    def file_starts(self) -> list[int]:
        """Start position of every file, oldest first."""
        return [start for start, _ in self._files.files]

    def clean(self, commit_log_min: int) -> int:
        """Remove the oldest files all of whose messages have left the commit log.

        Stops at the first file that stays, and never removes the newest
        (`TimerMessageStore`'s scheduled cleaning). Gives the number of files removed.
        """
        removed = 0
        for start in self.file_starts[:-1]:
            offset_py = self.last_record_offset_py(start)
            if offset_py is None or offset_py >= commit_log_min:
                break
            removed += self._files.delete_before(start + self.file_size)
        return removed

    def truncate(self, end: int) -> int:
        """End the log here: what lies behind becomes zero, durably. Gives the bytes given up."""
        return self._files.truncate_to(end)

    def begin_flush(self) -> SyncPlan | None:
        """Say what must be synced for everything appended so far; None when nothing."""
        return self._files.plan_sync()

    def close(self) -> None:
        """Give the files back; nothing is synced."""
        self._files.close()


def _is_blank(view: memoryview, at: int) -> bool:
    if len(view) - at < BLANK_SIZE:
        return False
    _, _, magic = _BLANK.unpack_from(view, at)
    return bool(magic == BLANK_MAGIC)
