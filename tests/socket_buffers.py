"""Bounded buffers for the sockets of a test, so that what a peer does not read fills them soon.

The system's own buffers differ from machine to machine, and grow to many megabytes.
"""

from __future__ import annotations

import socket

BUFFER_BYTES = 128 * 1024
"""More than one segment of the loopback device, so that no transfer waits for the window."""


def bound_buffers(*ends: socket.socket) -> None:
    """Give both buffers of each socket a fixed size (Linux makes it twice as large)."""
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
