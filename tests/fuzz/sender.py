"""`python -m tests.fuzz.sender ADDRESS SEED COUNT`: send mutants to a broker, as fast as it reads.

Those that are frames go over connections that live on, in handfuls. One that is not goes over a
connection of its own, which the broker must end: at once if nothing can follow, else when no more
comes. Prints how many were sent, and how many connections the broker did not end.
"""

from __future__ import annotations

import itertools
import socket
import struct
import sys
from typing import Final

from tests.fuzz.frames import Kind, Mutants, kind_of

TOGETHER: Final = 32
CONNECTIONS: Final = 4
END_S: Final = 20.0
"""So long a connection may stay open that must end, and the run goes on."""
READ: Final = 1 << 16
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: no port is held for a minute by each of some 100,000 connections."""


class Line:
    """A connection for frames; what comes back is read and forgotten."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._socket = self._open()
        self._waiting: list[bytes] = []

    def _open(self) -> socket.socket:
        made = socket.create_connection(self._address, timeout=END_S)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        return made

    def add(self, data: bytes) -> None:
        """Send a frame, with others."""
        self._waiting.append(data)
        if len(self._waiting) >= TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Send what waits, and read what is there."""
        data, self._waiting = b"".join(self._waiting), []
        try:
            self._socket.sendall(data)
            self._socket.setblocking(False)
            while self._socket.recv(READ):
                pass
            raise ConnectionResetError("the broker ended it")
        except BlockingIOError:
            self._socket.settimeout(END_S)
        except OSError:  # a frame that made the broker end the connection
            self._socket.close()
            self._socket = self._open()

    def close(self) -> None:
        """End it."""
        self.flush()
        self._socket.close()


def is_ended(address: tuple[str, int], data: bytes, kind: Kind) -> bool:
    """Send what is no frame, or no whole one; whether the broker ends the connection then."""
    with socket.create_connection(address, timeout=END_S) as alone:
        alone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        try:
            alone.sendall(data)
            if kind is Kind.PART:
                alone.shutdown(socket.SHUT_WR)
            while alone.recv(READ):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
    return True


def main(host_and_port: str, seed: str, count: str) -> None:
    host, _, port = host_and_port.rpartition(":")
    address, mutants = (host, int(port)), Mutants(int(seed))
    lines = [Line(address) for _ in range(CONNECTIONS)]
    turns = itertools.cycle(lines)
    open_still = 0
    for _ in range(int(count)):
        data = mutants.next()
        kind = kind_of(data)
        if kind is Kind.FRAME:
            next(turns).add(data)
        else:
            open_still += not is_ended(address, data, kind)
    for line in lines:
        line.close()
    print(count, open_still)


if __name__ == "__main__":
    main(*sys.argv[1:])
