"""A slave of a few lines: reports and reads, and knows nothing of records."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from rocketmq_py.protocol.transfer import Piece, PieceDecoder, encode_report

HANG_GUARD_S = 20.0


class RawSlave:
    """One connection to a master's HA address."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=HANG_GUARD_S)
        self._decoder = PieceDecoder()
        self._arrived: list[Piece] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def report(self, offset: int) -> None:
        """Say how far its log reaches."""
        self._socket.sendall(encode_report(offset))

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def piece(self) -> Piece:
        """Wait for the next piece; `ConnectionError` when the master ends the connection."""
        while not self._arrived:
            data = self._socket.recv(65_536)
            if not data:
                raise ConnectionResetError("the master closed the connection")
            self._arrived += self._decoder.feed(data)
        return self._arrived.pop(0)

    def read_to(self, end: int) -> bytes:
        """Read pieces, which must follow each other, until one ends at an offset."""
        first = self.piece()
        data, at = first.data, first.offset + len(first.data)
        while at < end:
            piece = self.piece()
            assert piece.offset == at
            data += piece.data
            at += len(piece.data)
        assert at == end
        return data

    def is_ended(self) -> bool:
        """Whether the master ends the connection; what still comes is passed over."""
        while True:
            try:
                self.piece()
            except ConnectionError:
                return True
