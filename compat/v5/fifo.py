"""Which queue the messages of a group go to: as a proxy chooses, or as the Java client does.

A proxy takes the jump hash of Java's ``String.hashCode`` (Guava's ``consistentHash``); the Java
client's own choice, which a proxy does not keep to, is SipHash-2-4 (Guava's ``sipHash24``). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from rocketmq_py import Message, MessageQueue

FifoHash = Literal["proxy", "sip"]

_64: Final = (1 << 64) - 1
_JUMP: Final = 2_862_933_555_777_941_757
_SIP_KEY: Final = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
_SIP_START: Final = (
    0x736F6D6570736575,
    0x646F72616E646F6D,
    0x6C7967656E657261,
    0x7465646279746573,
)


def queue_number(group: str, queues: int, fifo_hash: FifoHash = "proxy") -> int:
    """Give the number of a group's queue among so many.

    >>> [queue_number(group, 8) for group in ("g1", "abc", "order-1")]
    [6, 7, 3]
    >>> [queue_number(group, 8, "sip") for group in ("g1", "abc", "order-1")]
    [4, 5, 7]
    """
    if fifo_hash == "proxy":
        return _jump(_java_hash(group), queues)
    signed = _sip_hash(group.encode())
    return (signed - (1 << 64) if signed >> 63 else signed) % queues


def selector(
    fifo_hash: FifoHash,
) -> Callable[[Sequence[MessageQueue], Message, object], MessageQueue]:
    """Make what chooses among the writable queues, in the order of broker and number."""

    def choose(queues: Sequence[MessageQueue], _: Message, group: object) -> MessageQueue:
        return sorted(queues)[queue_number(str(group), len(queues), fifo_hash)]

    return choose


def _java_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 code units, 32 bits, signed."""
    units = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        found = (31 * found + (high << 8 | low)) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found


def _jump(key: int, buckets: int) -> int:
    state = key & _64
    candidate = 0
    while True:
        state = (_JUMP * state + 1) & _64
        drawn = ((state >> 33) + 1) / (1 << 31)
        following = int((candidate + 1) / drawn)
        if not 0 <= following < buckets:
            return candidate
        candidate = following


def _sip_hash(data: bytes) -> int:
    first, second = _SIP_KEY
    state = [
        start ^ key for start, key in zip(_SIP_START, (first, second, first, second), strict=True)
    ]
    whole = len(data) // 8 * 8
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)]
    words.append(int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    for word in words:
        state[3] ^= word
        _rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _rounds(state: list[int], count: int) -> None:
    a, b, c, d = state
    for _ in range(count):
        a = (a + b) & _64
        b = _rotated(b, 13) ^ a
        a = _rotated(a, 32)
        c = (c + d) & _64
        d = _rotated(d, 16) ^ c
        a = (a + d) & _64
        d = _rotated(d, 21) ^ a
        c = (c + b) & _64
        b = _rotated(b, 17) ^ c
        c = _rotated(c, 32)
    state[:] = a, b, c, d


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _64
