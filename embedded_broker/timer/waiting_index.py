"""Index of the timers that wait, in the order in which they are due.

Answers: which timers come after a given place, where the newest copy of each lies, and to which
topic it goes, without reading one of them. Must not know: engines, files, marks: who fills the
index says what waits (`wheel/listing.py`, `slices/listing.py`).

A timer costs 28 bytes in arrays: due time, offset of its first copy, offset of its newest copy, and
the number of its topic. The arrays are cut into chunks, so that a timer may come or leave anywhere.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import compress
from typing import Final, TypeAlias

from embedded_broker.timer.listing import ListPosition, Wanted

_CHUNK: Final = 512
_PART_LEAST: Final = 16

_Chunk: TypeAlias = "tuple[array[int], array[int], array[int], array[int]]"
"""Due times, first offsets, newest offsets, topics."""
Row: TypeAlias = tuple[int, int, int, str]
"""Due time, offset of the first copy, offset of the newest copy, topic."""


class WaitingIndex:
    """Rows in the order of their places; each place is there once."""

    def __init__(self) -> None:
        self._chunks: list[_Chunk] = []
        self._lasts: list[tuple[int, int]] = []
        """The last place of each chunk."""
        self._topics: list[str] = []
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(len(chunk[0]) for chunk in self._chunks)

    def __contains__(self, place: tuple[int, int]) -> bool:
        number, at = self._find(place)
        if number == len(self._chunks):
            return False
        dues, roots, _, _ = self._chunks[number]
        return (dues[at], roots[at]) == place

    @property
    def first_due_ms(self) -> int | None:
        """When the first timer leaves; None without any."""
        return self._chunks[0][0][0] if self._chunks else None

    def add(self, due_ms: int, root: int, offset: int, topic: str) -> None:
        """Add a timer; of two copies of one the newer stays, which lies at the higher offset."""
        topic_number = self._numbers.get(topic)
        if topic_number is None:
            topic_number = self._numbers[topic] = len(self._topics)
            self._topics.append(topic)
        chunks, lasts, place = self._chunks, self._lasts, (due_ms, root)
        if not chunks:
            chunks.append((array("q"), array("q"), array("q"), array("i")))
            lasts.append(place)
        if place > lasts[-1]:
            number = len(chunks) - 1
            dues, roots, offsets, topics = chunks[number]
            at = len(dues)
        else:
            number, at = self._find(place)
            dues, roots, offsets, topics = chunks[number]
            if at < len(dues) and (dues[at], roots[at]) == place:
                offsets[at] = max(offsets[at], offset)
                return
        dues.insert(at, due_ms)
        roots.insert(at, root)
        offsets.insert(at, offset)
        topics.insert(at, topic_number)
        lasts[number] = dues[-1], roots[-1]
        if len(dues) > 2 * _CHUNK:
            self._split(number)

    def _split(self, number: int) -> None:
        dues, roots, offsets, topics = self._chunks[number]
        self._chunks[number : number + 1] = [
            (dues[:_CHUNK], roots[:_CHUNK], offsets[:_CHUNK], topics[:_CHUNK]),
            (dues[_CHUNK:], roots[_CHUNK:], offsets[_CHUNK:], topics[_CHUNK:]),
        ]
        self._lasts.insert(number, (dues[_CHUNK - 1], roots[_CHUNK - 1]))

    def remove(self, due_ms: int, root: int, offset: int) -> None:
        """Take out a timer, unless it is not there or has a newer copy than the one at `offset`."""
        number, at = self._find((due_ms, root))
        if number == len(self._chunks):
            return
        chunk = self._chunks[number]
        dues, roots, offsets, _ = chunk
        if dues[at] != due_ms or roots[at] != root or offsets[at] != offset:
            return
        for column in chunk:
            del column[at]
        if not dues:
            del self._chunks[number], self._lasts[number]
            return
        self._lasts[number] = dues[-1], roots[-1]
        if number + 1 < len(self._chunks) and len(dues) + len(self._chunks[number + 1][0]) < _CHUNK:
            for column, more in zip(chunk, self._chunks.pop(number + 1), strict=True):
                column.extend(more)
            del self._lasts[number]

    def part(
        self, wanted: Wanted, after: ListPosition, before_ms: int
    ) -> tuple[list[Row], ListPosition]:
        """Give the next timers behind a place that go to the topics asked for, and where they end.

        At most a chunk, and none is read. What is left is behind the second place; nothing is when
        that is due at `before_ms`.
        """
        number, at = self._find((after.due_ms, after.root + 1))
        if number == len(self._chunks):
            return [], max(after, ListPosition(before_ms, -1))
        dues, roots, offsets, topics = self._chunks[number]
        end = bisect_left(dues, before_ms, at, min(len(dues), at + max(wanted.limit, _PART_LEAST)))
        is_over = end < len(dues) and dues[end] >= before_ms
        end_place = (
            ListPosition(before_ms, -1) if is_over else ListPosition(dues[end - 1], roots[end - 1])
        )
        fits = {topic: wanted.goes_to(self._topics[topic]) for topic in {*topics[at:end]}}
        names = map(self._topics.__getitem__, topics[at:end])
        columns = dues[at:end], roots[at:end], offsets[at:end], names
        rows = list(compress(zip(*columns, strict=True), map(fits.__getitem__, topics[at:end])))
        return rows, max(after, end_place)

    def _find(self, place: tuple[int, int]) -> tuple[int, int]:
        """Give the chunk and the place in it of the first row that is not before a place."""
        number = bisect_left(self._lasts, place)
        if number == len(self._chunks):
            return number, 0
        dues, roots, _, _ = self._chunks[number]
        due_ms, root = place
        low = bisect_left(dues, due_ms)
        if low < len(dues) and dues[low] == due_ms:
            low = bisect_left(roots, root, low, bisect_right(dues, due_ms, low))
        return number, low
