"""A host that does not answer, without any right of an administrator.

A listening socket whose queue of connections is full: the kernel drops whoever knocks, as a
network does that swallows packets. `end` lets a server come up behind the same address.
"""

from __future__ import annotations

import contextlib
import select
import socket
from typing import Self

FILLERS_MAX = 64
HANGS_S = 0.2
"""A connect over loopback that takes so long is not answered."""


class BlackHole:
    """Swallows connects to `address` until `end`."""

    def __init__(self) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._fillers: list[socket.socket] = []
        while self._fill():
            assert len(self._fillers) < FILLERS_MAX, "the queue of connections is never full"

    def _fill(self) -> bool:
        """Take one more place in the queue; False when there was none."""
        sock = socket.socket()
        self._fillers.append(sock)
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", self.port))
        return bool(select.select([], [sock], [], HANGS_S)[1])

    def end(self) -> None:
        """Free the address; idempotent."""
        self._listener.close()
        for sock in self._fillers:
            with contextlib.suppress(OSError):  # an address is free when no connection is left
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sock.close()
        self._fillers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()
