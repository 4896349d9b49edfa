"""Consume queue: the messages of one queue of a topic, in order.

Entries of 20 bytes: commit-log offset, record size, tags code (or the delivery time, in the
queues of the delay levels). An entry's position is the message's queue offset. Must not know:
the messages themselves. Layout as ``ConsumeQueue`` (``CQ_STORE_UNIT_SIZE``, ``fillPreBlank``).
Read on: ``batch_queue.py`` for queues whose entries stand for several messages, ``pull.py`` for how
a pull walks a queue, ``recovery.py`` for how it is repaired.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import ClassVar, Final, TypeAlias
from zlib import crc32

from embedded_broker.store.fs import FileSystem, Segment
from embedded_broker.store.mapped_file import MappedFileQueue

CONSUME_QUEUE_FOLDER: Final = "consumequeue"
ENTRY_SIZE: Final = 20
Entry: TypeAlias = tuple[int, int, int]
"""Commit-log offset, record size, tags code."""
Batch: TypeAlias = tuple[int, int, Entry]
"""Queue offset of the first message, how many there are, and where their record lies."""

_ENTRY: Final = Struct(">qiq")
_SIZE_AT: Final = 8
BLANK_SIZE: Final = 0x7FFF_FFFF
_BLANK_ENTRY: Final = _ENTRY.pack(0, BLANK_SIZE, 0)
_FILES_READ_ON_LOAD: Final = 3  # the original looks at its last three files too


class ConsumeQueue:
    """The entries of one queue.

    ``min_offset`` is the first entry whose message still exists, ``max_offset`` the next to be
    written; both are queue offsets. What lies before ``floor`` belonged to a topic of this name
    that was deleted: it is there, and nobody finds it.
    """

    __slots__ = ("files", "floor", "max_offset", "min_offset", "queue_id", "topic")

    folder: ClassVar[str] = CONSUME_QUEUE_FOLDER
    entry_size: ClassVar[int] = ENTRY_SIZE
    is_batch: ClassVar[bool] = False
    """Whether an entry may stand for several messages: a ``BatchConsumeQueue``."""

    def __init__(self, fs: FileSystem, topic: str, queue_id: int, file_size: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = MappedFileQueue(fs, f"{self.folder}/{topic}/{queue_id}", file_size)
        self.min_offset = 0
        self.max_offset = 0
        self.floor = 0

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic}/{self.queue_id} {self.min_offset}..{self.max_offset}>"

    def append(self, entries: Sequence[Entry], stored_ms: int = 0, count: int = 1) -> int:  # noqa: ARG002 - see there
        """Add entries, one write for those that fit in the file; gives the first queue offset.

        ``stored_ms`` and ``count``, how many messages an entry stands for, are what a batch queue
        writes, too. Raises ``StoreError``; then some may have been added, and ``take_back`` removes
        them.
        """
        first, pack, added = self.max_offset, _ENTRY.pack, 0
        if len(entries) == 1:
            self.files.append(pack(*entries[0]))
            self.max_offset = first + 1
            return first
        while added < len(entries):
            part = entries[added : added + self.files.room // ENTRY_SIZE]
            self.files.append(b"".join([pack(*entry) for entry in part]))
            added += len(part)
            self.max_offset += len(part)
        return first

    def take_back(self, queue_offset: int) -> None:
        """Undo the appends since ``max_offset`` was this."""
        self.max_offset = queue_offset
        self.files.take_back(queue_offset * ENTRY_SIZE)

    def entry(self, queue_offset: int) -> Entry | None:
        """Give one entry; None outside of what exists, or where nothing was ever written."""
        view = self.files.read(queue_offset * ENTRY_SIZE, ENTRY_SIZE)
        if view is None:
            return None
        offset, size, tags_code = _ENTRY.unpack(view)
        return None if size <= 0 or size == BLANK_SIZE else (offset, size, tags_code)

    def file_entries(self, queue_offset: int) -> Iterator[Entry]:
        """Give the entries from an offset to the end of its file: the fast way for pulls.

        Entries that were never written show a size of 2147483647 and offset 0.
        """
        rest = self.files.read_file_from(queue_offset * ENTRY_SIZE, with_zeros=True)
        return _ENTRY.iter_unpack(rest)

    def file_batches(self, queue_offset: int) -> Iterator[Batch]:
        """Give the same as batches of one message."""
        for number, entry in enumerate(self.file_entries(queue_offset), queue_offset):
            yield number, 1, entry

    def places_from(self, queue_offset: int, most: int) -> Sequence[int]:
        """Give up to ``most`` entries of one file: commit-log offset and size by turns."""
        part = self.files.read_up_to(queue_offset * ENTRY_SIZE, most * ENTRY_SIZE)
        return _places_and_sizes(len(part) // ENTRY_SIZE).unpack(part)

    def iterate(self, start: int, end: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Give queue offset and entry from ``start`` up to ``end``, over all files."""
        index = max(start, self.min_offset)
        stop = self.max_offset if end is None else min(end, self.max_offset)
        places = self.files.chunks(index * ENTRY_SIZE, stop * ENTRY_SIZE, with_zeros=True)
        for at, part in places:
            for number, entry in enumerate(_ENTRY.iter_unpack(part), at // ENTRY_SIZE):
                if entry[1] != BLANK_SIZE:
                    yield number, entry

    def load(self, mended: list[str] | None = None) -> bool:
        """Open the files and find the end: the first entry that has no size.

        What lies behind it is zeroed. The minimum is set by ``follow``. Returns False if a
        file between others is missing; then the queue ends before it. Raises
        ``StoreDamagedError`` for a foreign file; with ``mended`` it is set aside, and a line added.
        """
        whole = self.files.load(cut_at_gap=True, mended=mended) and self._is_filled()
        self.files.truncate_to(self._end())
        self.max_offset = self._next_offset()
        self.min_offset = self.first_offset
        return whole

    def look(self, commit_log_min: int) -> None:
        """Open the files and find both ends as ``load`` and ``follow``, but change nothing.

        For the queue of a store that somebody else may have open. Raises ``StoreError`` when a
        file between others is missing.
        """
        self.files.load()
        self.files.max_offset = self._end()
        self.max_offset = self._next_offset()
        self.min_offset = max(self.first_from(commit_log_min), self.floor)

    def hide(self, before: int) -> None:
        """Let nobody find the entries before an offset any more."""
        self.floor = min(before, self.max_offset)
        self.min_offset = max(self.min_offset, self.floor)

    def _is_filled(self) -> bool:
        """Whether every file but the last has a first and a last entry: a cheap look."""
        return all(
            int.from_bytes(segment.view(at + _SIZE_AT, 4), "big", signed=True) > 0
            for _, segment in self.files.files[:-1]
            for at in (0, segment.size - self.entry_size)
        )

    def _end(self) -> int:
        """Give the position of the first entry without a size, in the last files."""
        end = self.files.min_offset
        for start, segment in self.files.files[-_FILES_READ_ON_LOAD:]:
            end = start + self._used_entries(segment) * self.entry_size
            if end < start + segment.size:
                break
        return end

    @staticmethod
    def _used_entries(segment: Segment) -> int:
        """Count the entries of a file up to the first one without a size."""
        written = min(segment.size, -(-segment.data_end() // ENTRY_SIZE) * ENTRY_SIZE)
        for count, (offset, size, _) in enumerate(_ENTRY.iter_unpack(segment.read(0, written))):
            if size <= 0 or offset < 0:
                return count
        return written // ENTRY_SIZE

    def _next_offset(self) -> int:
        """Give the queue offset behind the last entry of the files."""
        return self.files.max_offset // ENTRY_SIZE

    def _position(self, queue_offset: int) -> int:
        """Give where the entry of a queue offset lies in the files."""
        return queue_offset * ENTRY_SIZE

    @property
    def first_offset(self) -> int:
        """Queue offset of the first entry of the oldest file."""
        return self.files.min_offset // ENTRY_SIZE

    def begin_of(self, queue_offset: int) -> int:
        """Give the first offset of the entry that holds this one: of a batch, its first message."""
        return queue_offset

    def end_of(self, queue_offset: int) -> int:
        """Give the offset behind the entry that begins here."""
        return queue_offset + 1

    def fits(self, queue_offset: int, count: int) -> bool:  # noqa: ARG002
        """Say whether an entry of so many messages has its place among those that are there."""
        return True

    def agrees(self, queue_offset: int, stored_ms: int, count: int) -> bool:  # noqa: ARG002
        """Say whether the entry of an offset begins there and tells of so many messages."""
        return True

    def clear(self) -> None:
        """Remove every entry and file: to be filled again from the log."""
        self.files.close()
        for name in self.files.fs.list(self.files.directory):
            self.files.fs.remove(f"{self.files.directory}/{name}")
        self.files = MappedFileQueue(self.files.fs, self.files.directory, self.files.file_size)
        self.min_offset = self.max_offset = 0

    def place(
        self,
        queue_offset: int,
        commit_log_offset: int,
        size: int,
        tags_code: int,
        *,
        trusted: bool = False,
        stored_ms: int = 0,  # noqa: ARG002 - these two are what a batch queue's entry tells, too
        count: int = 1,  # noqa: ARG002
    ) -> bool:
        """Make sure that an entry is there; returns whether it had to be written.

        One that names the message keeps its tags code when the queue is ``trusted``: that of a
        delay level says when its message was to go when it came.
        The offset must not lie before ``first_offset``, unless the queue is empty.
        Behind a gap the entries between are marked as never written, as the original does in
        front of a first entry that is not number 0.
        """
        if queue_offset < self.max_offset:
            found = self.entry(queue_offset)
            if (
                found is not None
                and found[:2] == (commit_log_offset, size)
                and (trusted or found[2] == tags_code)
            ):
                return False
            self.files.write(
                queue_offset * ENTRY_SIZE, _ENTRY.pack(commit_log_offset, size, tags_code)
            )
            self.files.forget_synced(queue_offset * ENTRY_SIZE)
            return True
        if not self.files.files:
            per_file = self.files.file_size // ENTRY_SIZE
            self.max_offset = queue_offset - queue_offset % per_file
            self.files.start_at(self.max_offset * ENTRY_SIZE)
        while self.max_offset < queue_offset:
            self.files.append(_BLANK_ENTRY)
            self.max_offset += 1
        self.append([(commit_log_offset, size, tags_code)])
        return True

    def drop_from(self, queue_offset: int) -> int:
        """Remove all entries from an offset on; returns how many there were."""
        dropped = self.max_offset - queue_offset
        if dropped > 0:
            self.files.truncate_to(queue_offset * ENTRY_SIZE)
            self.max_offset = queue_offset
        return max(dropped, 0)

    def follow(self, commit_log_min: int) -> Callable[[], None] | None:
        """Move the minimum to the first entry whose message still exists.

        As ``ConsumeQueue.correctMinOffset``: when none does, the minimum is the maximum. Gives
        the work that removes the files without any such entry, but not the newest; None without.
        """
        self.min_offset = max(self.first_from(commit_log_min), self.floor)
        return self.files.let_go_before(self._position(self.min_offset))

    @property
    def is_blank(self) -> bool:
        """Whether it has no entry of any message."""
        return all(self.entry(at) is None for at in range(self.first_offset, self.max_offset))

    def first_from(self, commit_log_offset: int) -> int:
        """Find the first entry of a message at or behind an offset of the log."""
        low = self.first_offset
        high = self.max_offset
        while low < high:  # offsets grow, so the first living entry is found by halving
            middle = at = (low + high) // 2
            # One that was never written or is left out counts as the next one that was.
            while (entry := self.entry(at)) is None and at < high - 1:
                at += 1
            if entry is None or entry[0] >= commit_log_offset:
                high = middle
            else:
                low = at + 1
        while low < self.max_offset and self.entry(low) is None:
            low += 1
        return low

    def blank_out(self, begin: int, end: int) -> list[int]:
        """Mark the entries of messages in this part of the log as never written.

        Pulls step over such entries. Gives their queue offsets.
        """
        blanked = []
        for at in range(self.first_from(begin), self.max_offset):
            entry = self.entry(at)
            if entry is None:
                continue
            if not begin <= entry[0] < end:
                break
            self.blank(at)
            blanked.append(at)
        return blanked

    def blank(self, queue_offset: int) -> None:
        """Mark one entry as never written."""
        self.files.write(queue_offset * ENTRY_SIZE, _BLANK_ENTRY)
        self.files.forget_synced(queue_offset * ENTRY_SIZE)

    def behind(self, commit_log_end: int) -> int:
        """Count the entries at the end that name messages at or behind an offset of the log."""
        count = 0
        for at in range(self.max_offset - 1, self.first_offset - 1, -1):
            entry = self.entry(at)
            if entry is not None and entry[0] < commit_log_end:
                break
            count += entry is not None
        return count

    def trim(self, is_alive: Callable[[Entry], bool], keep_to: int = 0) -> int:
        """Drop entries from the end until one is alive; returns how many were dropped.

        Those before ``keep_to`` stay.
        """
        end = self.max_offset
        while end > max(self.first_offset, keep_to):
            entry = self.entry(end - 1)
            if entry is not None and is_alive(entry):
                break
            end -= 1
        return self.drop_from(end)


def mark_of(queues: Iterable[ConsumeQueue]) -> int:
    """Give a sum over which queues have files, and from which entry to which these reach."""
    held = [
        f"{one.topic}/{one.queue_id} {one.first_offset} {one.max_offset}"
        for one in queues
        if one.files.files
    ]
    return crc32("\n".join(sorted(held)).encode())


@lru_cache(maxsize=128)
def _places_and_sizes(count: int) -> Struct:
    """Read many entries at once, without their tags codes: the same counts come again."""
    return Struct(">" + "qi8x" * count)
