"""Closes the broker's sockets in a forked child.

Answers: why peers see the end of a broker though a child of its process lives on: until the last
copy of a socket is closed nobody is told of its end, and its port stays taken. The child closes its
copies as soon as it begins. Must not know: what a socket is for.
"""

import os
from socket import socket
from typing import Final
from weakref import WeakSet

_OURS: Final[WeakSet[socket]] = WeakSet()


def keep_from_children(one: socket) -> None:
    """Let forked children close their copies of a socket."""
    _OURS.add(one)


def _close_copies() -> None:
    for one in list(_OURS):
        number = one.detach()  # ``close`` would wait for the loop, which does not run here
        if number >= 0:
            os.close(number)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_copies)
