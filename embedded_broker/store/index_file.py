"""Index file: from the hash of a key to the messages that carry it.

A header of 40 bytes, hash slots of 4 bytes that hold the number of the newest entry, entries of
20 bytes chained to the previous entry of their slot; entry 0 is unused. Must not know: messages,
topics, queries over several files. Layout as ``IndexFile`` and ``IndexHeader``. Read on:
``key_index.py``.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from embedded_broker.store.fs import Segment

HEADER_SIZE: Final = 40
_HEADER: Final = Struct(">4q2i")
_SLOT: Final = Struct(">i")
_INDEX_ENTRY: Final = Struct(">iqii")
_ENTRY_SIZE: Final = _INDEX_ENTRY.size
_INT32_MAX: Final = 0x7FFF_FFFF


def index_hash(java_hash: int) -> int:
    """Make a key's ``hashCode`` usable as a slot number, as ``indexKeyHashMethod``.

    >>> index_hash(-5), index_hash(-2147483648)
    (5, 0)
    """
    return abs(java_hash) if java_hash != -0x8000_0000 else 0


class IndexShape:
    """How many slots and entries a file has, and where they lie."""

    __slots__ = ("entries", "file_size", "slots")

    def __init__(self, slots: int, entries: int) -> None:
        self.slots = slots
        self.entries = entries
        self.file_size = HEADER_SIZE + slots * _SLOT.size + entries * _INDEX_ENTRY.size

    def __repr__(self) -> str:
        return f"IndexShape(slots={self.slots}, entries={self.entries})"

    def slot_at(self, key_hash: int) -> int:
        """Byte position of the slot for a hash."""
        return HEADER_SIZE + key_hash % self.slots * _SLOT.size

    def entry_at(self, number: int) -> int:
        """Byte position of an entry."""
        return HEADER_SIZE + self.slots * _SLOT.size + number * _INDEX_ENTRY.size

    def agrees_with(self, segment: Segment) -> bool:
        """Tell whether a file can have this shape: its first entries are found by their hash."""
        if segment.size != self.file_size:
            return False
        next_number = _HEADER.unpack(segment.read(0, HEADER_SIZE))[5]
        for number in range(1, min(next_number, 9, self.entries)):
            (key_hash, _, _, _) = _INDEX_ENTRY.unpack(
                segment.read(self.entry_at(number), _INDEX_ENTRY.size)
            )
            (newest,) = _SLOT.unpack(segment.read(self.slot_at(key_hash), _SLOT.size))
            if key_hash < 0 or not number <= newest < next_number:
                return False
        return True


class IndexFile:
    """An index file that is read and appended to.

    The header is kept in memory and written by ``write_header``, after the entries that it
    counts: a crash between the two hides entries, which are then made again.
    """

    def __init__(self, segment: Segment, shape: IndexShape) -> None:
        self.segment = segment
        self.shape = shape
        self._entries_at = shape.entry_at(0)
        self.begin_timestamp: int
        self.end_timestamp: int
        self.begin_offset: int
        self.end_offset: int
        self.used_slots: int
        self.next_number: int
        (
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_offset,
            self.end_offset,
            self.used_slots,
            next_number,
        ) = _HEADER.unpack(segment.read(0, HEADER_SIZE))
        self.next_number = max(int(next_number), 1)

    @property
    def is_full(self) -> bool:
        """Whether the next key needs another file."""
        return self.next_number >= self.shape.entries

    def put(self, key_hash: int, offset: int, store_timestamp: int) -> None:
        """Add an entry; the caller looked at ``is_full``. Raises ``StoreError``."""
        segment, number = self.segment, self.next_number
        slot_at = self.shape.slot_at(key_hash)
        (previous,) = _SLOT.unpack(segment.read(slot_at, _SLOT.size))
        if not 0 < previous < number:
            previous = 0
        if number == 1:
            self.begin_timestamp, self.begin_offset = store_timestamp, offset
        seconds = (store_timestamp - self.begin_timestamp) // 1000
        if not 0 <= seconds <= _INT32_MAX:
            seconds = min(max(seconds, 0), _INT32_MAX)
        entry = _INDEX_ENTRY.pack(key_hash, offset, seconds, previous)
        segment.write(self._entries_at + number * _ENTRY_SIZE, entry)
        segment.write(slot_at, _SLOT.pack(number))
        self.used_slots += not previous
        self.next_number = number + 1
        self.end_timestamp, self.end_offset = store_timestamp, offset

    def write_header(self) -> None:
        """Write what the file holds; entries behind the header's count do not exist."""
        self.segment.write(
            0,
            _HEADER.pack(
                self.begin_timestamp,
                self.end_timestamp,
                self.begin_offset,
                self.end_offset,
                self.used_slots,
                self.next_number,
            ),
        )

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """Tell whether the file may hold messages of a time range (whole seconds)."""
        first, last = self.begin_timestamp, self.end_timestamp
        return first <= end_ms and begin_ms <= max(first, last) + 999

    def find(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Give the commit-log offsets of entries with this hash and time, newest first.

        Times are those of the entries: whole seconds since the file's first message, so the
        range is widened to the seconds that it touches.
        """
        segment, shape = self.segment, self.shape
        (number,) = _SLOT.unpack(segment.read(shape.slot_at(key_hash), _SLOT.size))
        while 0 < number < self.next_number:
            found, offset, seconds, previous = _INDEX_ENTRY.unpack(
                segment.read(shape.entry_at(number), _INDEX_ENTRY.size)
            )
            stored = self.begin_timestamp + seconds * 1000
            if found == key_hash and stored <= end_ms and stored + 999 >= begin_ms:
                yield offset
            if previous >= number:  # a damaged chain must not run in circles
                return
            number = previous
