"""Bloom filter that marks in a stored message which groups' filters it matched.

A real broker with ``enableCalcFilterBitMap`` marks stored messages with them, and keeps no filters
of a file that has none. RocketMQ's BloomFilter with the broker's defaults (20 percent errors, 32
groups), after Guava's MurmurHash3 of 128 bits. Must not know: who asks what for.
"""

from typing import Final

BIT_COUNT: Final = 112
"""32 groups * log2(1 / 0.2) * log2(e), up to the next whole byte."""
_HASHES: Final = 3
_64 = (1 << 64) - 1
_32 = (1 << 32) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


def bit_positions(text: str) -> list[int]:
    """Give the bits of a text (``BloomFilter.calcBitPositions``)."""
    hashed = _murmur3(text.encode())
    low, high = hashed & _32, hashed >> 32
    positions = []
    for number in range(1, _HASHES + 1):
        combined = (low + number * high) & _32
        if combined >> 31:
            combined ^= _32  # a negative number, all bits turned
        positions.append(combined % BIT_COUNT)
    return positions


def _murmur3(data: bytes) -> int:
    """Give the first half of MurmurHash3 (x64, 128 bits) with seed 0."""
    first = second = 0
    whole = len(data) & ~15
    for at in range(0, whole, 16):
        first ^= _mixed(int.from_bytes(data[at : at + 8], "little"), _C1, 31, _C2)
        first = (_turned(first, 27) + second) * 5 + 0x52DCE729 & _64
        second ^= _mixed(int.from_bytes(data[at + 8 : at + 16], "little"), _C2, 33, _C1)
        second = (_turned(second, 31) + first) * 5 + 0x38495AB5 & _64
    second ^= _mixed(int.from_bytes(data[whole + 8 :], "little"), _C2, 33, _C1)
    first ^= _mixed(int.from_bytes(data[whole : whole + 8], "little"), _C1, 31, _C2)
    first ^= len(data)
    second ^= len(data)
    first = first + second & _64
    second = second + first & _64
    return _final(first) + _final(second) & _64


def _mixed(block: int, factor: int, turn: int, other: int) -> int:
    return _turned(block * factor & _64, turn) * other & _64


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _64


def _final(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _64
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _64
    return value ^ value >> 33
