"""Where one frame ends and the next begins in a stream of bytes, and how long one may be.

A frame is ``int32 length, byte header kind, uint24 header length, header, body``; the length counts
everything behind itself (`NettyDecoder`, `NettyEncoder`). This module must not know what a header
says: that is `command`. It does no I/O: feed what arrived, take what is complete.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from attrs import define, field

from rocketmq_py.errors import FrameError

FRAME_SIZE_MAX: Final = 16_777_216
"""Largest whole frame in bytes; `com.rocketmq.remoting.frameMaxLength` of the original."""

HEADER_SIZE_MAX: Final = 0xFFFFFF
SERIALIZE_TYPE_MAX: Final = 1

Buffer = bytes | bytearray | memoryview
"""What a body may be made of; a memoryview must be one of bytes."""

_LENGTH_SIZE: Final = 4
_HEAD_SIZE: Final = 8
_HEAD: Final = Struct(">iI")
_LONG: Final = 256 * 1024
"""A longer frame is kept in the pieces it came in until it is complete: a buffer that grows is
copied again and again."""
_PIECE_MIN: Final = 64 * 1024
"""Smaller pieces are put together, so that their number is small."""


class Frame(NamedTuple):
    """One frame, cut but not understood."""

    serialize_type: int
    header: bytes
    body: bytes


@define(eq=False, repr=False)
class FrameDecoder:
    """Cuts one connection's bytes into frames.

    The outcome does not depend on how the bytes were split into chunks. After a `FrameError` the
    connection cannot be used: every further `feed` raises the same error. Memory is bounded by one
    frame and one chunk.
    """

    _frame_size_max: int = FRAME_SIZE_MAX
    _buffer: bytearray = field(factory=bytearray, init=False)
    _pieces: list[bytes | bytearray] = field(factory=list, init=False)
    """Of a long frame; they come before the buffer."""
    _pieces_size: int = field(default=0, init=False)
    _wanted: int = field(default=_LENGTH_SIZE, init=False)
    _passed: int = field(default=0, init=False)
    _failure: FrameError | None = field(default=None, init=False)
    salvaged: list[Frame] = field(factory=list, init=False)
    """After a failure: frames of the same chunk that were complete before it."""

    @property
    def buffered(self) -> int:
        """Bytes kept of a frame that is not complete yet."""
        return self._pieces_size + len(self._buffer)

    @property
    def missing(self) -> int:
        """Bytes that the next frame lacks for certain: worth asking the socket for at once."""
        return self._wanted - self.buffered

    def feed(self, data: Buffer) -> list[Frame]:
        """Take bytes in the order of their arrival; give the frames that are complete now.

        Raises `FrameError` (offset counts from the first byte of the connection) for a frame over
        the limit, a header longer than its frame or an unknown kind of header.
        """
        if self._failure is not None:
            raise self._failure
        buffer = self._buffer
        if not buffer and self._wanted == _LENGTH_SIZE and type(data) is bytes:
            one = self._only_frame(data)
            if one is not None:
                self._passed += len(data)
                return [one]
        frames: list[Frame] = []
        if self._wanted > _LONG:
            missing = self._wanted - self._pieces_size - len(buffer)
            if len(data) < missing:
                self._keep(data)
                return frames
            frames.append(self._join(memoryview(data)[:missing]))
            self._passed += self._wanted
            self._wanted = _LENGTH_SIZE
            if len(data) == missing:
                return frames
            source: bytes | memoryview = bytes(memoryview(data)[missing:])
            buffer = self._buffer
        elif buffer:
            buffer += data
            if len(buffer) < self._wanted:
                return frames
            source = memoryview(buffer)  # cut from here: copied only once
            buffer = self._buffer = bytearray()
        else:
            source = data if isinstance(data, bytes) else bytes(data)
        try:
            rest = self._cut(source, frames)
        except FrameError as error:
            self._failure = error
            self.salvaged = frames
            raise
        if rest < len(source):
            if isinstance(source, bytes) and not rest and self._wanted > _LONG:
                self._keep(source)
            else:
                buffer += memoryview(source)[rest:]
        self._passed += rest
        return frames

    def _only_frame(self, data: bytes) -> Frame | None:
        """Give what most chunks are: one frame, and nothing else."""
        size = len(data)
        if not _HEAD_SIZE <= size <= self._frame_size_max:
            return None
        length, kind_and_size = _HEAD.unpack_from(data)
        body_at = _HEAD_SIZE + (kind_and_size & HEADER_SIZE_MAX)
        kind = kind_and_size >> 24
        if length != size - _LENGTH_SIZE or body_at > size or kind > SERIALIZE_TYPE_MAX:
            return None
        return Frame(kind, data[_HEAD_SIZE:body_at], data[body_at:])

    def _keep(self, data: Buffer) -> None:
        """Keep a piece of a long frame: as it is, unless it is small."""
        buffer = self._buffer
        if len(buffer) < _PIECE_MIN and len(data) < _PIECE_MIN:
            buffer += data
            return
        if buffer:
            self._pieces.append(buffer)
            self._pieces_size += len(buffer)
            buffer = self._buffer = bytearray()
        if len(data) < _PIECE_MIN:
            buffer += data
        else:
            self._pieces.append(bytes(data))  # no copy of what is bytes
            self._pieces_size += len(data)

    def _join(self, last: memoryview) -> Frame:
        """Put a long frame together, of which this is the last piece; its body is copied once."""
        pieces: list[Buffer] = [*self._pieces, self._buffer, last]
        self._pieces, self._pieces_size, self._buffer = [], 0, bytearray()
        _, kind_and_size = _HEAD.unpack_from(pieces[0])
        body_at = _HEAD_SIZE + (kind_and_size & HEADER_SIZE_MAX)
        if len(pieces[0]) < body_at:
            pieces = [b"".join(pieces)]
        first = memoryview(pieces[0])
        body = b"".join((first[body_at:], *pieces[1:]))
        return Frame(kind_and_size >> 24, bytes(first[_HEAD_SIZE:body_at]), body)

    def _cut(self, source: bytes | memoryview, frames: list[Frame]) -> int:
        """Append the frames of `source`; return where the incomplete rest begins."""
        at = 0
        left = len(source)
        unpack, copy, make, add = _HEAD.unpack_from, bytes, tuple.__new__, frames.append
        while left >= _HEAD_SIZE:
            length, kind_and_size = unpack(source, at)
            size = length + _LENGTH_SIZE
            header_size = kind_and_size & HEADER_SIZE_MAX
            kind = kind_and_size >> 24
            if not _HEAD_SIZE <= size <= self._frame_size_max:
                raise self._length_error(at, length)
            if kind > SERIALIZE_TYPE_MAX:
                raise FrameError(self._passed + at + 4, "serialize type", kind, "0 or 1")
            if header_size > size - _HEAD_SIZE:
                limit = f"at most {size - _HEAD_SIZE}, which the frame has left"
                raise FrameError(self._passed + at + 5, "header length", header_size, limit)
            if left < size:
                self._wanted = size
                return at
            body_at = at + _HEAD_SIZE + header_size
            end = at + size
            header, body = source[at + _HEAD_SIZE : body_at], source[body_at:end]
            # Frame(...) itself calls a function of Python's to do the same.
            add(make(Frame, (kind, copy(header), copy(body))))
            at = end
            left -= size
        if left >= _LENGTH_SIZE:
            length = int.from_bytes(source[at : at + _LENGTH_SIZE], "big", signed=True)
            if not _HEAD_SIZE <= length + _LENGTH_SIZE <= self._frame_size_max:
                raise self._length_error(at, length)
        self._wanted = _HEAD_SIZE if left >= _LENGTH_SIZE else _LENGTH_SIZE
        return at

    def _length_error(self, at: int, length: int) -> FrameError:
        limit = f"from 4 to {self._frame_size_max - _LENGTH_SIZE}"
        return FrameError(self._passed + at, "length", length, limit)


def encode_head(
    serialize_type: int, header: bytes, body_size: int, *, frame_size_max: int = FRAME_SIZE_MAX
) -> bytes:
    """Build a frame up to its body, which is sent behind it or joined to it.

    Raises `FrameError` as `encode_frame` does.
    """
    header_size = len(header)
    length = _LENGTH_SIZE + header_size + body_size
    if header_size > HEADER_SIZE_MAX:
        raise FrameError(5, "header length", header_size, f"at most {HEADER_SIZE_MAX}")
    if length + _LENGTH_SIZE > frame_size_max:
        raise FrameError(0, "length", length, f"at most {frame_size_max - _LENGTH_SIZE}")
    return _HEAD.pack(length, serialize_type << 24 | header_size) + header


def encode_frame(
    serialize_type: int,
    header: bytes,
    body: Buffer | Sequence[Buffer] = b"",
    *,
    frame_size_max: int = FRAME_SIZE_MAX,
) -> bytes:
    """Build one frame; `body` may be several buffers, which are copied once.

    Raises `FrameError` when a peer with the same limit would refuse the frame.
    """
    parts: Sequence[Buffer]
    parts = (body,) if isinstance(body, (bytes, bytearray, memoryview)) else body
    size = sum(map(len, parts))
    head = encode_head(serialize_type, header, size, frame_size_max=frame_size_max)
    return b"".join((head, *parts))
