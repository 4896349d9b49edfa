"""A peer that is reached by frames, over TCP or in the same process.

Answers: how frames go back to it. Must not know: what they say. Read on:
``embedded_broker/remoting/server.py`` (TCP) and ``embedded_broker/remoting/inproc.py``.
"""

from abc import abstractmethod

from embedded_broker.tables.peer import Peer

__all__ = ["Connection"]


class Connection(Peer):
    """A peer of the remoting protocol."""

    __slots__ = ()

    @abstractmethod
    def deliver(self, frames: list[bytes]) -> None:
        """Send whole frames in order. Called outside the door, on any thread; never blocks."""
