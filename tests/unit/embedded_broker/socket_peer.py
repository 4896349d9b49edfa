"""A peer of a server in a test: one TCP connection, and its next bytes."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

HANG_GUARD_S = 20.0


class SocketPeer:
    """One connection. What bytes mean, those know that extend it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=HANG_GUARD_S)

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
        self.socket.close()

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def read(self) -> bytes:
        """Wait for bytes; `ConnectionError` when the server ends the connection."""
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        return data
