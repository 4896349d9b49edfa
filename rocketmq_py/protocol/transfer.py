"""What a master and a slave say to each other while the slave follows the commit log.

A slave reports the end of its log in 8 bytes, again and again. The master answers with pieces:
``int64 offset, int32 size`` and so many bytes of its commit log, cut anywhere; a piece of size 0
says that it is still there (`DefaultHAClient`, `DefaultHAConnection`). Decoders take bytes in any
cut. Must not know: sockets, files, records.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from attrs import define, field

from rocketmq_py.errors import FrameError

REPORT: Final = Struct(">q")
PIECE_HEAD: Final = Struct(">qi")
PIECE_SIZE_MAX: Final = 4 * 1024 * 1024 - PIECE_HEAD.size
"""Most bytes of a piece: a slave of the original reads it, with its head, into 4 MiB."""


class Piece(NamedTuple):
    """Bytes of the commit log, and where they lie."""

    offset: int
    data: bytes


def encode_report(offset: int) -> bytes:
    """Say how far the slave's log reaches."""
    return REPORT.pack(offset)


def encode_piece(offset: int, data: bytes = b"") -> bytes:
    """Send bytes of the log; none says only that the master is there."""
    return PIECE_HEAD.pack(offset, len(data)) + data


@define(eq=False)
class ReportDecoder:
    """Finds the last report in what arrived; earlier ones are out of date."""

    _rest: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> int | None:
        """Take bytes; give the newest report that is complete now, None without one."""
        data = self._rest + data
        end = len(data) - len(data) % REPORT.size
        self._rest = data[end:]
        offset: int | None = None
        if end:
            (offset,) = REPORT.unpack_from(data, end - REPORT.size)
        return offset


@define(eq=False)
class PieceDecoder:
    """Cuts a master's bytes into pieces. Memory is bounded by one piece and one chunk."""

    _buffer: bytearray = field(factory=bytearray, init=False)
    _passed: int = field(default=0, init=False)

    def feed(self, data: bytes) -> Iterator[Piece]:
        """Take bytes; give the pieces that are complete now.

        Raises `FrameError` for a size that no master sends; the connection is of no use then.
        """
        buffer = self._buffer
        buffer += data
        while len(buffer) >= PIECE_HEAD.size:
            offset, size = PIECE_HEAD.unpack_from(buffer)
            if not 0 <= size <= PIECE_SIZE_MAX:
                raise FrameError(self._passed + 8, "size", size, f"0 to {PIECE_SIZE_MAX}")
            end = PIECE_HEAD.size + size
            if len(buffer) < end:
                return
            piece = Piece(offset, bytes(buffer[PIECE_HEAD.size : end]))
            del buffer[:end]
            self._passed += end
            yield piece
