"""Which timers of the wheel lie in another slot than the one in which they are due.

Answers: given a slot, which rolled timers (and marks) will come to it, and which moved copies are
due in it although they lie in the next one. Without it a listing in due order would have to read
every hop slot first. Must not know: who lists, how a slot is released.

An entry is two numbers in arrays, 16 bytes: the slot in which the timer is due, and where its
message lies. What entered the wheel before this life is found by one pass over the timer log, made
only when somebody lists: the magic of each record tells whether it concerns us, so the pass costs
about a tenth of a microsecond for each record that does not.

Read on: `listing.py` for who asks, `state.py` and `enqueue.py` for who tells it of changes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Final

from embedded_broker.timer.request import TimerRequest
from rocketmq_py.protocol.delay import timer_out_ms
from rocketmq_py.protocol.properties import Prop

_CHUNK: Final = 512
_DIGITS_MAX: Final = 18


class SortedPairs:
    """A sorted set of pairs of 64-bit numbers, in small arrays."""

    def __init__(self) -> None:
        self._chunks: list[tuple[array[int], array[int]]] = []
        self._lasts: list[tuple[int, int]] = []
        self._length = 0
        self.changes = 0
        """Goes up with every change."""

    def __len__(self) -> int:
        return self._length

    def add(self, key: int, value: int) -> bool:
        """Insert a pair; False when it is there already."""
        if not self._chunks:
            self._chunks.append((array("q", [key]), array("q", [value])))
            self._lasts.append((key, value))
            self._length = 1
            self.changes += 1
            return True
        if (key, value) > self._lasts[-1]:  # what hops together comes in order
            number = len(self._chunks) - 1
            keys, values = self._chunks[number]
            at = len(keys)
        else:
            number = bisect_left(self._lasts, (key, value))
            keys, values = self._chunks[number]
            at = _find(keys, values, key, value)
        if at < len(keys) and keys[at] == key and values[at] == value:
            return False
        keys.insert(at, key)
        values.insert(at, value)
        self._length += 1
        self.changes += 1
        if len(keys) > 2 * _CHUNK:
            self._chunks[number : number + 1] = [
                (keys[:_CHUNK], values[:_CHUNK]),
                (keys[_CHUNK:], values[_CHUNK:]),
            ]
            self._lasts.insert(number, (keys[_CHUNK - 1], values[_CHUNK - 1]))
            self._lasts[number + 1] = (keys[-1], values[-1])
        elif at == len(keys) - 1:
            self._lasts[number] = (key, value)
        return True

    def remove(self, key: int, value: int) -> bool:
        """Take a pair out; False when it is not there."""
        if self._chunks and self._chunks[0][0][0] == key and self._chunks[0][1][0] == value:
            number = at = 0
            keys, values = self._chunks[0]
        else:
            number = bisect_left(self._lasts, (key, value))
            if number == len(self._chunks):
                return False
            keys, values = self._chunks[number]
            at = _find(keys, values, key, value)
        if at == len(keys) or keys[at] != key or values[at] != value:
            return False
        del keys[at]
        del values[at]
        self._length -= 1
        self.changes += 1
        if not keys:
            del self._chunks[number]
            del self._lasts[number]
            return True
        self._lasts[number] = (keys[-1], values[-1])
        if len(keys) < _CHUNK // 4:
            self._merge(number if number + 1 < len(self._chunks) else number - 1)
        return True

    def _merge(self, number: int) -> None:
        """Join a chunk with the one behind it if both are short."""
        if number < 0 or number + 1 >= len(self._chunks):
            return
        keys, values = self._chunks[number]
        more_keys, more_values = self._chunks[number + 1]
        if len(keys) + len(more_keys) <= _CHUNK:
            keys.extend(more_keys)
            values.extend(more_values)
            del self._chunks[number + 1]
            del self._lasts[number]

    def at(self, key: int) -> list[int]:
        """Give the values of a key, ascending."""
        found: list[int] = []
        number = bisect_left(self._lasts, (key, -(2**63)))
        while number < len(self._chunks):
            keys, values = self._chunks[number]
            low = bisect_left(keys, key)
            high = bisect_right(keys, key, low)
            found.extend(values[low:high])
            if high < len(keys):
                break
            number += 1
        return found

    def first_key(self, at_least: int) -> int | None:
        """Give the smallest key that is not below `at_least`."""
        number = bisect_left(self._lasts, (at_least, -(2**63)))
        if number == len(self._chunks):
            return None
        keys, _ = self._chunks[number]
        return keys[bisect_left(keys, at_least)]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for keys, values in self._chunks:
            yield from zip(keys, values, strict=True)


def _find(keys: array[int], values: array[int], key: int, value: int) -> int:
    low = bisect_left(keys, key)
    if low == len(keys) or keys[low] != key:
        return low
    return bisect_left(values, value, low, bisect_right(keys, key, low))


class HopIndex(SortedPairs):
    """The pairs (slot in which it is due, commit-log offset) of timers in slots not loaded yet.

    `cold_until` is the position of the timer log up to which `listing.py` has still to look
    for entries of a former life, from `scanned_to` on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scanned_to = 0
        self.cold_until = 0


def home_slot(properties: Mapping[str, str], request: TimerRequest, precision_ms: int) -> int:
    """Give the slot in which a message of the timer topic is due.

    That is TIMER_OUT_MS, or the slot before it: a moved copy stays out of slots that hold a mark
    of its id.
    """
    noted = properties.get(Prop.TIMER_DUE_MS)
    if noted is None or len(noted) > _DIGITS_MAX or not (noted.isdecimal() and noted.isascii()):
        return request.out_ms
    if int(noted) <= request.out_ms and request.deletes is None:
        return max(timer_out_ms(int(noted), precision_ms), request.out_ms - precision_ms)
    return request.out_ms
