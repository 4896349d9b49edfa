"""Consume queue of a BatchCQ topic: an entry stands for a batch of any size.

Entries of 46 bytes: commit-log offset, record size, tags code, store time, queue offset of the
first message, how many messages, place in a compacted log (none: -1), four bytes of nothing. So an
entry's position says nothing about its offset: it is found by halving. To whoever asks by offset
it is a ``ConsumeQueue`` whose neighbours may share an entry. Layout as ``BatchConsumeQueue``; a
message that was sent alone is a batch of one. Must not know: what a record says. Read on:
``consume_queue.py``; ``queue_recovery.py`` for how many messages a record counts.
"""

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import ClassVar, Final, NoReturn, TypeAlias

from typing_extensions import override

from embedded_broker.errors import StoreError
from embedded_broker.store.consume_queue import BLANK_SIZE, Batch, ConsumeQueue, Entry
from embedded_broker.store.fs import Segment

BATCH_QUEUE_FOLDER: Final = "batchconsumequeue"
BATCH_ENTRY_SIZE: Final = 46

_ENTRY: Final = Struct(">qiqqqhii")
_NOT_COMPACTED: Final = -1
_FIRST_AT: Final = 28
_FIRST_SIZE: Final = 8
_Unit: TypeAlias = tuple[int, int, int, int, int, int, int, int]


class BatchConsumeQueue(ConsumeQueue):
    """The entries of one queue, by the queue offsets of their messages."""

    __slots__ = ()

    folder: ClassVar[str] = BATCH_QUEUE_FOLDER
    entry_size: ClassVar[int] = BATCH_ENTRY_SIZE
    is_batch: ClassVar[bool] = True

    # --- adding -------------------------------------------------------------------------------

    @override
    def append(self, entries: Sequence[Entry], stored_ms: int = 0, count: int = 1) -> int:
        first = self.max_offset
        for entry in entries:
            self._add(self.max_offset, entry, stored_ms, count)
        return first

    def _add(self, queue_offset: int, entry: Entry, stored_ms: int, count: int) -> None:
        self.files.append(_pack(queue_offset, entry, stored_ms, count))
        self.max_offset = queue_offset + count

    @override
    def take_back(self, queue_offset: int) -> None:
        self.files.take_back(self._position(queue_offset))
        self.max_offset = queue_offset

    # --- finding ------------------------------------------------------------------------------

    @override
    def entry(self, queue_offset: int) -> Entry | None:
        """Give the entry of the batch that holds this message; None where there is none."""
        unit = self._unit_of(queue_offset)
        return None if unit is None or unit[1] == BLANK_SIZE else unit[:3]

    @override
    def begin_of(self, queue_offset: int) -> int:
        unit = self._unit_of(queue_offset)
        return queue_offset if unit is None else unit[4]

    @override
    def end_of(self, queue_offset: int) -> int:
        unit = self._unit_of(queue_offset)
        return queue_offset + 1 if unit is None else unit[4] + unit[5]

    @override
    def agrees(self, queue_offset: int, stored_ms: int, count: int) -> bool:
        unit = self._unit_of(queue_offset)
        return unit is not None and unit[3:6] == (stored_ms, queue_offset, count)

    @override
    def fits(self, queue_offset: int, count: int) -> bool:
        unit = self._unit_of(queue_offset)
        return unit is not None and unit[4:6] == (queue_offset, count)

    @override
    def file_batches(self, queue_offset: int) -> Iterator[Batch]:
        """Give the batches from the one that holds an offset to the end of its file.

        Those that were left out have a size of 2147483647 and offset 0.
        """
        index = self._index_of(queue_offset)
        unit = self._unit(index)
        if unit is None or queue_offset >= unit[4] + unit[5]:
            index += 1  # the offset is in a gap
        part = self.files.read_file_from(index * BATCH_ENTRY_SIZE, with_zeros=True)
        for at, size, code, _, first, count, _, _ in _ENTRY.iter_unpack(part):
            yield first, count, (at, size, code)

    @override
    def iterate(self, start: int, end: int | None = None) -> Iterator[tuple[int, Entry]]:
        """Give first offset and entry of each batch that has messages from ``start`` to ``end``."""
        offset = max(start, self.min_offset)
        stop = self.max_offset if end is None else min(end, self.max_offset)
        while offset < stop:
            begin = offset
            for first, count, entry in self.file_batches(offset):
                if first >= stop:
                    return
                offset = first + count
                if entry[1] != BLANK_SIZE:
                    yield first, entry
            if offset == begin:
                return

    @property
    @override
    def first_offset(self) -> int:
        """Queue offset of the first message of the oldest file."""
        unit = self._unit(self.files.min_offset // BATCH_ENTRY_SIZE)
        return self.max_offset if unit is None else unit[4]

    def _unit(self, index: int) -> _Unit | None:
        view = self.files.read(index * BATCH_ENTRY_SIZE, BATCH_ENTRY_SIZE)
        return None if view is None else _ENTRY.unpack(view)

    def _unit_of(self, queue_offset: int) -> _Unit | None:
        unit = self._unit(self._index_of(queue_offset))
        return None if unit is None or queue_offset >= unit[4] + unit[5] else unit

    def _index_of(self, queue_offset: int) -> int:
        """Find the last entry that begins at or before an offset; one less than the first if none.

        Most who ask want the end of the queue, so that is looked at first.
        """
        files = self.files
        low, high = files.min_offset // BATCH_ENTRY_SIZE, files.max_offset // BATCH_ENTRY_SIZE
        middle = high - 1
        while low < high:
            first = files.read(middle * BATCH_ENTRY_SIZE + _FIRST_AT, _FIRST_SIZE)
            if first is None or int.from_bytes(first, "big", signed=True) > queue_offset:
                high = middle
            else:
                low = middle + 1
            middle = (low + high) // 2
        return low - 1

    # --- opening, mending ---------------------------------------------------------------------

    @staticmethod
    @override
    def _used_entries(segment: Segment) -> int:
        """Count the entries of a file up to the first one of no messages."""
        whole = segment.size // BATCH_ENTRY_SIZE
        written = min(whole, -(-segment.data_end() // BATCH_ENTRY_SIZE))
        units = _ENTRY.iter_unpack(segment.read(0, written * BATCH_ENTRY_SIZE))
        for number, (at, size, _, _, first, count, _, _) in enumerate(units):
            if at < 0 or size <= 0 or first < 0 or count <= 0:
                return number
        return written

    @override
    def _next_offset(self) -> int:
        unit = self._unit(self.files.max_offset // BATCH_ENTRY_SIZE - 1)
        return 0 if unit is None else unit[4] + unit[5]

    @override
    def _position(self, queue_offset: int) -> int:
        """Give where the first entry lies that has messages at or behind an offset."""
        index = self._index_of(queue_offset)
        unit = self._unit(index)
        if unit is None or queue_offset >= unit[4] + unit[5]:
            index += 1
        return max(index * BATCH_ENTRY_SIZE, self.files.min_offset)

    @override
    def place(
        self,
        queue_offset: int,
        commit_log_offset: int,
        size: int,
        tags_code: int,
        *,
        trusted: bool = False,
        stored_ms: int = 0,
        count: int = 1,
    ) -> bool:
        """Make sure that a batch's entry is there; returns whether it had to be written.

        Entries cannot be put between others. Where those that are there do not agree with the log,
        all from this offset on are dropped, for the records that follow to be placed again.
        """
        entry = commit_log_offset, size, tags_code
        if queue_offset < self.max_offset:
            index = self._index_of(queue_offset)
            unit = self._unit(index)
            if unit is not None and unit[4:6] == (queue_offset, count):
                if unit[:4] == (*entry, stored_ms):
                    return False
                at = index * BATCH_ENTRY_SIZE
                self.files.write(at, _pack(queue_offset, entry, stored_ms, count))
                self.files.forget_synced(at)
                return True
            self.drop_from(queue_offset)
        self._add(queue_offset, entry, stored_ms, count)
        return True

    @override
    def drop_from(self, queue_offset: int) -> int:
        """Remove all batches that begin at or behind an offset; returns how many messages."""
        before = self.max_offset
        if before > queue_offset:
            index = self._index_of(queue_offset - 1) + 1
            self.files.truncate_to(max(index * BATCH_ENTRY_SIZE, self.files.min_offset))
            self.max_offset = self._next_offset()
        return max(before - self.max_offset, 0)

    @override
    def blank(self, queue_offset: int) -> None:
        """Mark a batch as never written; its offsets stay its own."""
        index = self._index_of(queue_offset)
        unit = self._unit(index)
        if unit is not None:
            at = index * BATCH_ENTRY_SIZE
            self.files.write(at, _pack(unit[4], (0, BLANK_SIZE, 0), unit[3], unit[5]))
            self.files.forget_synced(at)

    @override
    def file_entries(self, queue_offset: int) -> NoReturn:
        raise StoreError(f"{self!r} holds batches: ask for `file_batches`")

    @override
    def places_from(self, queue_offset: int, most: int) -> Sequence[int]:
        """Give nothing: places alone do not say how many messages lie there."""
        return ()


def batch_queue_of(
    queue: ConsumeQueue, file_size: int, store_time: Callable[[int], int]
) -> BatchConsumeQueue:
    """Make a queue of single messages one of batches: its topic turned out to be a BatchCQ topic.

    ``store_time`` gives the store time of a commit-log offset. The files of the other queue go.
    """
    batches = BatchConsumeQueue(queue.files.fs, queue.topic, queue.queue_id, file_size)
    for number, entry in queue.iterate(queue.first_offset):
        batches.place(number, *entry, stored_ms=store_time(entry[0]))
    batches.max_offset = queue.max_offset
    batches.min_offset, batches.floor = queue.min_offset, queue.floor
    queue.clear()
    return batches


def _pack(queue_offset: int, entry: Entry, stored_ms: int, count: int) -> bytes:
    return _ENTRY.pack(*entry, stored_ms, queue_offset, count, _NOT_COMPACTED, 0)
