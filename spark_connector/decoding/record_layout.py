"""How stored records are found in a buffer and cut into columns, many at once.

Sizes lead from record to record; numpy gathers their fixed heads; Arrow cuts the variable parts: an
array over the raw buffer whose even elements are the wanted ranges and whose odd ones are the
gaps between them, of which the even ones are taken, so that no Python object per row exists.
Needs numpy. Must not know which columns are wanted. Read on: ``property_table.py``.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812 - the module's own name is too short
from typing import Any

import numpy as np
import pyarrow as pa
from attrs import frozen

from rocketmq_py.raw import RawMessages
from spark_connector.decoding.row_decoding import RECORD_SIZE_MIN

HEAD = np.dtype(
    [
        ("size", ">i4"),
        ("magic", ">u4"),
        ("crc", ">i4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("commit_log_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_timestamp", ">i8"),
        ("born_host", "V8"),
        ("store_timestamp", ">i8"),
        ("store_host", "V8"),
        ("reconsume_times", ">i4"),
        ("prepared", ">i8"),
        ("body_len", ">i4"),
    ]
)
"""Everything before the body of a record with IPv4 hosts: 88 bytes."""

WORD = 8
RUN = 16
"""After so many records of one size the following ones are looked at together,"""
RUN_MAX = 1024
"""at most so many, so that little is lost when they differ."""
_SIZE = Struct(">i")
COMPRESSED_BIT = 0x1
"""A compressed body: a row for the per-row codec, if bodies are wanted."""
SPECIAL_BITS = 0x10 | 0x20 | 0x40 | 0x80
"""IPv6 hosts, batches that cannot be taken apart: rows for the per-row codec."""

Array = Any  # numpy arrays: numpy's types are not read by the type checker


@frozen(eq=False)
class Layout:
    """Where the parts of regular records lie: all arrays have one element per record."""

    heads: Array
    body_at: Array
    body_len: Array
    props_at: Array
    props_len: Array


def record_starts(raw: bytes | memoryview) -> Array:
    """Return the offset of every record: from one to the next, runs of one size at once.

    Raises ValueError when a size leads out of the buffer.
    """
    end = len(raw)
    parts: list[Array] = []
    singles: list[int] = []
    size_at, before, same, offset = _SIZE.unpack_from, 0, 0, 0
    try:
        while offset < end:
            (size,) = size_at(raw, offset)
            if size < RECORD_SIZE_MIN:
                raise ValueError(f"record at {offset} says size {size}")
            same = same + 1 if size == before else 0
            before = size
            if same < RUN:
                singles.append(offset)
                offset += size
                continue
            sizes = np.ndarray(end - offset - 3, ">i4", raw, offset, (1,))[::size][:RUN_MAX]
            others = np.flatnonzero(sizes != size)
            past = offset + size * int(others[0] if len(others) else len(sizes))
            parts += [np.array(singles, np.int64), np.arange(offset, past, size)]
            singles, same, offset = [], 0, past
    except StructError:
        offset += _SIZE.size
    if offset != end:
        raise ValueError(f"records end at {offset}, the bytes at {end}")
    return np.concatenate([*parts, np.array(singles, np.int64)])


def layout_of(
    raw: bytes | memoryview, starts: Array, *, with_bodies: bool = True
) -> tuple[Layout, Array]:
    """Return where the parts of every record lie, and which records are regular (a mask).

    The parts of an irregular record mean nothing. A compressed body makes a record irregular, but
    not without ``with_bodies``.
    """
    data = np.frombuffer(raw, np.uint8)
    if not len(starts):
        nothing = np.zeros(0, np.int64)
        heads = np.zeros(0, HEAD)
        return Layout(heads, nothing, nothing, nothing, nothing), np.zeros(0, bool)
    # A head may begin at any byte: the view has one for each, as 11 words of 8 bytes.
    shape = len(data) - HEAD.itemsize + 1, HEAD.itemsize // WORD
    heads = np.ndarray(shape, np.uint64, data, 0, (1, WORD))[starts].view(HEAD).reshape(-1)
    body_len = heads["body_len"].astype(np.int64)
    ends = starts + heads["size"].astype(np.int64)
    body_at = starts + HEAD.itemsize
    special = SPECIAL_BITS | COMPRESSED_BIT if with_bodies else SPECIAL_BITS
    regular = (heads["magic"] == RawMessages.RECORD_MAGIC) & (heads["sys_flag"] & special == 0)
    topic_at = body_at + body_len
    regular &= (body_len >= 0) & (topic_at + 3 <= ends)
    topic_at = np.where(regular, topic_at, 0)
    length_at = topic_at + 1 + data[topic_at]
    regular &= length_at + 2 <= ends
    length_at = np.where(regular, length_at, 0)
    props_len = data[length_at].astype(np.int64) << 8 | data[length_at + 1]
    props_at = length_at + 2
    regular &= props_at + props_len == ends
    return Layout(heads, body_at, body_len, props_at, props_len), regular


def has_batches(layout: Layout) -> bool:
    """Say whether a record holds several messages."""
    flags = layout.heads["sys_flag"]
    return bool((flags & RawMessages.WRAPPED == RawMessages.WRAPPED).any())


def cut(raw: bytes | memoryview, at: Array, lengths: Array) -> pa.BinaryArray:
    """Copy ascending, non-overlapping ranges of a buffer into one binary array."""
    return _cut(pa.binary(), raw, at, at + lengths)


def cut_text(raw: pa.Buffer, begins: Array, ends: Array) -> pa.StringArray:
    """Do the same for text that is known to be UTF-8, by begins and ends."""
    return _cut(pa.string(), raw, begins, ends)


def _cut(kind: pa.DataType, raw: pa.Buffer | bytes | memoryview, begins: Array, ends: Array) -> Any:
    count = len(begins)
    if not count:
        return pa.array([], kind)
    if len(raw) >= 1 << 31:
        raise ValueError(f"{len(raw)} bytes at once: 2 GiB is the limit of a binary array")
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = begins
    offsets[1::2] = ends
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(raw)]
    parts = pa.Array.from_buffers(kind, 2 * count - 1, buffers)
    return parts.take(pa.array(np.arange(0, 2 * count - 1, 2)))
