"""The timer log: one 52-byte record for every timer that entered the wheel.

Answers: how a record lies in bytes, and how records of one slot are found again: each names its
predecessor, so a slot is a chain that is read from its end. Must not know: messages, slots,
clocks. Format as in `org.apache.rocketmq.store.timer.TimerLog`: files of `mappedFileSizeTimerLog`
bytes, a 16-byte blank where no further record fits, zeros behind the end.

Read on: `slots.py` for the slots that hold the chains' ends, `recovery.py` for how the end of the
log is found after a crash.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

from embedded_broker.store.fs import FileSystem
from embedded_broker.store.mapped_file import MappedFileQueue, SyncPlan

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
_VALID_MAGIC: Final = 0xF  # the four low bits, all that recovery of the original asks
_SINGLY: Final = 4  # most slots hold few records; for more the whole file is worth a view


LogEntry: TypeAlias = tuple[int, int, int, int, int, int, int, int, int]
"""A record as it lies: size, the fields of `TimerLogRecord`, and the reserved number."""
OFFSET_PY_AT: Final = 5
"""Where a `LogEntry` has the commit-log offset of its message."""
BROKEN: Final = -2
"""What `TimerLog.walk` gives where a chain cannot be followed."""


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


def decode_record(data: bytes | memoryview, at: int = 0) -> TimerLogRecord | None:
    """Read a record; None when the bytes are no record: wrong size field or magic."""
    if len(data) - at < RECORD_SIZE:
        return None
    size, prev, magic, write_time, delay, offset, length, topic_hash, _ = _RECORD.unpack_from(
        data, at
    )
    if size != RECORD_SIZE or magic & ~_VALID_MAGIC:
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

    def load(self, file_size: int | None = None, mended: list[str] | None = None) -> None:
        """Open the files that exist; `recovery` then finds the end and calls `truncate`.

        `file_size` replaces the length given at first: a store keeps the one it was made with.
        With `mended` zeros stand for what is missing, as in `MappedFileQueue.load`.
        """
        if file_size is not None:
            self._files.file_size = file_size
        self._files.load(mended=mended)

    def check_sum(self, begin: int, end: int) -> int:
        """Give a check sum of the bytes in between, as far as there are any."""
        found = 0
        for _, part in self._files.chunks(begin, end, with_zeros=True):
            found = crc32(part, found)
        return found

    def first_offset_py(self) -> int | None:
        """Give the commit-log offset of the first record that is kept; None without one."""
        record = self.read(self.begin)
        return None if record is None else record.offset_py

    def is_end(self, position: int, end: int) -> bool:
        """Whether nothing but a blank lies between the end of a record and an end of the log."""
        file_end = position - position % self.file_size + self.file_size
        return position >= end or (
            file_end >= end and file_end - position < RECORD_SIZE + BLANK_SIZE
        )

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
        record = _RECORD.pack(
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
        files = self._files
        if files.room >= RECORD_SIZE + BLANK_SIZE:
            return files.append(record)
        return self.append(record)

    def append_records(self, records: Sequence[tuple[int, int, int, int, int, int, int]]) -> None:
        """Append as many records as `records_fit` allows, given by the fields of each.

        They lie one behind the other from `end` on. Raises StoreError; then there is none of them.
        """
        pack = _RECORD.pack
        self.append(b"".join([pack(RECORD_SIZE, *fields, 0) for fields in records]))

    @property
    def records_fit(self) -> int:
        """How many records the next `append` may hold and still begin at `end`."""
        return (self._files.room - BLANK_SIZE) // RECORD_SIZE

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

    def walk(self, position: int, slot_ms: int, most: int, found: list[LogEntry]) -> int:
        """Add up to `most` records of a slot's chain to `found`; gives the position to go on from.

        From the newest back to the oldest as `chain`, but bare tuples, at a fraction of its cost.
        -1 says that the chain is complete, another negative number that it is broken there.
        """
        files, file_size = self._files, self._files.file_size
        view, begin, end = memoryview(b""), 0, 0
        unpack = _RECORD.unpack_from
        for number in range(most):
            if not begin <= position <= end - RECORD_SIZE:
                if number < _SINGLY:
                    begin, view = position, files.read(position, RECORD_SIZE) or memoryview(b"")
                else:
                    begin = max(position - position % file_size, files.min_offset)
                    view = files.read_file_from(begin)
                end = begin + len(view)
                if not begin <= position <= end - RECORD_SIZE:
                    return BROKEN
            record = unpack(view, position - begin)
            size, previous, magic, write_ms, delay_ms = record[:5]
            if size != RECORD_SIZE or magic & ~_VALID_MAGIC or write_ms + delay_ms != slot_ms:
                return BROKEN
            found.append(record)
            if previous >= position:
                return BROKEN
            if previous < 0:
                return previous if previous == -1 else BROKEN
            position = previous
        return position

    def scan(self, position: int) -> Iterator[tuple[int, TimerLogRecord]]:
        """Go through the records from a position on, over blanks, until something is none."""
        for found_at, entry in self.entries(position):
            yield found_at, TimerLogRecord._make(entry[1:8])

    def entries(self, position: int) -> Iterator[tuple[int, LogEntry]]:
        """Go through the same records as `scan`, but bare tuples, at a third of its cost."""
        while position < self._files.max_offset:
            view = self.read_bytes(position)
            at = 0
            for entry in _RECORD.iter_unpack(view[: len(view) // RECORD_SIZE * RECORD_SIZE]):
                if entry[0] != RECORD_SIZE or entry[2] & ~_VALID_MAGIC:
                    break
                yield position + at, entry
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

    def begin_clean(self, commit_log_min: int) -> Callable[[], None] | None:
        """Let go of the oldest files all of whose messages have left the commit log.

        Gives the work that removes them, None if nothing is to be removed. Stops at the first file
        that stays, and never removes the newest (`TimerMessageStore`'s scheduled cleaning).
        """
        keep_from = self.begin
        for start in self.file_starts[:-1]:
            offset_py = self.last_record_offset_py(start)
            if offset_py is None or offset_py >= commit_log_min:
                break
            keep_from = start + self.file_size
        return self._files.let_go_before(keep_from)

    def truncate(self, end: int, kept: list[str] | None = None) -> int:
        """End the log here: what lies behind becomes zero, durably. Gives the bytes given up.

        With `kept` they are copied before, as in `MappedFileQueue.truncate_to`.
        """
        return self._files.truncate_to(end, kept)

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
