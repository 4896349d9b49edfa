"""Messages column by column, and how those of one size are read and written many at a time.

In nearly every batch all bodies are equally long, and all properties. One call of a `Struct` then
reads or writes dozens of messages, at half of the cost of one by one. Must not know what a field
means: layouts and checks are in `message_codec`, which also does what has different sizes.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Final, TypeAlias

from attrs import define

from rocketmq_py.protocol.checksum import CRC_MASK, crc32
from rocketmq_py.protocol.properties import PROPERTIES_SIZE_MAX

Item: TypeAlias = tuple[int, int, bytes, bytes, int]
"""One message: flag, born timestamp, body, encoded properties and tags code."""
BatchColumns: TypeAlias = tuple[Sequence[int], Sequence[bytes], Sequence[bytes]]
"""Flags, bodies and encoded properties; all have an element for each message."""

ITEM_HEAD: Final = Struct(">12x2i")
"""Of an item of a batch: its flag and the length of its body."""
_FEW: Final = 3
"""So few messages are not worth a way of their own."""
_MANY: Final = 4_096
"""What reads so many at once is remembered."""
_AT_ONCE: Final = 64
"""So many records are written by one call. What does it is soon made, and small to remember."""
_CELLS: Final = 10
"""A record of many has so many parts."""


@define(slots=True, eq=False)
class EvenProperties(Sequence[bytes]):
    """Encoded properties that differ in nothing but their UNIQ_KEYs, which all have one size.

    Such are those of nearly every batch. A text is made when it is asked for.
    """

    before: bytes
    keys: Sequence[bytes]
    after: bytes

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[bytes]:
        before, after = self.before, self.after
        return (before + key + after for key in self.keys)

    def __getitem__(self, at: int) -> bytes:  # type: ignore[override] # no slices
        return self.before + self.keys[at] + self.after


@define(slots=True, eq=False)
class MessageColumns(Sequence[Item]):
    """The messages of a batch: an object for each lives for a moment only.

    Objects that stay while others are made are what the garbage collector looks at.
    """

    flags: Sequence[int]
    born_timestamp: int
    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    codes: Sequence[int]

    def __len__(self) -> int:
        return len(self.bodies)

    def __iter__(self) -> Iterator[Item]:
        born = repeat(self.born_timestamp, len(self))
        return zip(self.flags, born, self.bodies, self.properties, self.codes, strict=True)

    def __getitem__(self, at: int) -> Item:  # type: ignore[override] # no slices
        body, properties, code = self.bodies[at], self.properties[at], self.codes[at]
        return self.flags[at], self.born_timestamp, body, properties, code

    @property
    def is_even(self) -> bool:
        """Whether there is one flag, one size of bodies and one of properties for a good many."""
        if len(self) <= _FEW or len(set(self.flags)) > 1 or len(set(map(len, self.bodies))) > 1:
            return False
        texts = self.properties
        return isinstance(texts, EvenProperties) or len(set(map(len, texts))) == 1


def read_even_items(body: bytes, most: int) -> BatchColumns | None:
    """Read the body of a batch whose items all have the sizes of the first one.

    None when they have not, when something is wrong with the first, and for a few items or more
    than ``most``.
    """
    if len(body) < ITEM_HEAD.size + 2:
        return None
    _, body_len = ITEM_HEAD.unpack_from(body)
    properties_at = ITEM_HEAD.size + body_len + 2
    if body_len < 0 or properties_at > len(body):
        return None
    properties_len = body[properties_at - 2] << 8 | body[properties_at - 1]
    count, rest = divmod(len(body), properties_at + properties_len)
    if rest or not _FEW < count <= min(most, _MANY) or properties_len > PROPERTIES_SIZE_MAX:
        return None
    cells = _items(count, body_len, properties_len).unpack(body)
    # The first has these sizes, so the second begins where it is read, and so on.
    if cells[1::5].count(body_len) != count or cells[3::5].count(properties_len) != count:
        return None
    return cells[0::5], cells[2::5], cells[4::5]


def write_even_records(
    around: tuple[bytes, bytes, bytes, bytes],
    columns: MessageColumns,
    queue_offset: int,
    places: Sequence[int],
) -> bytes:
    """Build the records of messages that differ in nothing but CRC, offsets, body and properties.

    ``around`` is what all have in front of the CRC, behind it, behind the offsets and behind the
    body; ``places`` are their commit-log offsets. Raises struct.error for an offset beyond its
    field.
    """
    begin, ids, stamps, topic = around
    bodies, texts, count, after = columns.bodies, columns.properties, len(columns), b""
    if isinstance(texts, EvenProperties):
        topic, after, texts = topic + texts.before, texts.after, texts.keys
    cells: list[bytes | int] = [begin, 0, ids, 0, 0, stamps, b"", topic, b"", after] * count
    cells[1::_CELLS] = [crc & CRC_MASK for crc in map(crc32, bodies)]
    cells[3::_CELLS] = range(queue_offset, queue_offset + count)
    cells[4::_CELLS] = places
    cells[6::_CELLS] = bodies
    cells[8::_CELLS] = texts
    sizes = tuple(map(len, (begin, ids, stamps, bodies[0], topic, texts[0], after)))
    rest, step = count % _AT_ONCE, _AT_ONCE * _CELLS
    whole, pack = len(cells) - rest * _CELLS, _records(_AT_ONCE, sizes).pack
    parts = [pack(*cells[at : at + step]) for at in range(0, whole, step)]
    parts.append(_records(rest, sizes).pack(*cells[whole:]))
    return b"".join(parts)


@lru_cache(maxsize=16)
def _items(count: int, body_len: int, properties_len: int) -> Struct:
    """Read so many items at once: the same counts come again."""
    return Struct(">" + f"12x2i{body_len}sH{properties_len}s" * count)


@lru_cache(maxsize=64)
def _records(count: int, sizes: tuple[int, ...]) -> Struct:
    """Write so many records at once, with texts of these sizes between the numbers."""
    return Struct(">" + "{}sI{}sqq{}s{}s{}s{}s{}s".format(*sizes) * count)
