"""Which server of this process listens under an address, and the words both sides speak.

A server that runs inside this process (the embedded broker) registers itself under the address it
advertises; a client with ``transport="auto"`` asks here before it opens a socket. Only frame bytes
cross this seam, so both sides keep their own codec. Must not know commands, topics or clients.
Read on in ``inproc_channel.py`` for the client's end.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class SubscribedRoute(NamedTuple):
    """A subscription, and the names of the brokers that its topic has as far as the client knows.

    ``brokers`` is None where the client knows no route of the topic.
    """

    group: str
    topic: str
    brokers: frozenset[str] | None


class LocalClient(Protocol):
    """A client of this process, for a server that waits until the client is idle.

    Every call is safe from any thread and does not block.
    """

    def told(self) -> str | None:
        """Say what the client still works on, None when it is idle.

        What has been delivered to a mailbox counts from the moment `Mailbox.deliver` returns.
        """

    def hasten(self) -> None:
        """Do at once what only waits for its time: offsets to write, failed pulls to repeat."""

    def subscribed_routes(self) -> Sequence[SubscribedRoute]:
        """Give all subscriptions of its consumers, but retry topics that have no route."""

    def look_at_routes(self) -> None:
        """Ask for all routes now, in background."""


class Mailbox(Protocol):
    """The client's end of a connection: where the server puts whole frames."""

    @property
    def client(self) -> LocalClient:
        """Whose connection it is."""

    def deliver(self, frames: list[bytes]) -> None:
        """Take whole frames (length prefix included), in order.

        May be called from any thread, also from inside the client's own ``send``. Never blocks and
        never runs user code on the calling stack.
        """

    def closed(self) -> None:
        """Learn that the server ended the connection: calls in flight fail now. Idempotent."""


class InprocConnection(Protocol):
    """The server's end of a connection."""

    def send(self, data: bytes) -> None:
        """Hand over frame bytes (any cut is allowed).

        Answers may reach the mailbox before this returns. Raises ``ConnectionError`` when the
        connection is closed.
        """

    def close(self) -> None:
        """End the connection; the mailbox gets nothing more. Idempotent."""


class InprocServer(Protocol):
    """A name server or broker of this process."""

    def connect(self, mailbox: Mailbox, *, name: str) -> InprocConnection:
        """Open a connection whose answers go to ``mailbox``; ``name`` shows up in diagnostics.

        Raises ``ConnectionError`` when the server does not accept connections.
        """

    def expect(self, client: LocalClient, *, name: str) -> None:
        """Note a client that will connect when it has something to ask. Never blocks."""


# The process id guards a forked child: a server of the parent cannot be reached from there.
_servers: dict[str, tuple[int, InprocServer]] = {}


def register(address: str, server: InprocServer) -> None:
    """Make ``server`` reachable under ``address`` (``host:port``, exactly as advertised).

    Raises ``ValueError`` when another server of this process already holds the address.
    """
    if _servers.setdefault(address, (os.getpid(), server))[1] is server:
        return
    if lookup(address) is not None:
        raise ValueError(f"{address} is already registered by another server of this process")
    _servers[address] = (os.getpid(), server)


def unregister(address: str, server: InprocServer) -> None:
    """Remove ``server`` from ``address``; nothing happens when somebody else holds it."""
    entry = _servers.get(address)
    if entry is not None and entry[1] is server:
        del _servers[address]


def lookup(address: str) -> InprocServer | None:
    """Return the server of this process behind ``address``, or None."""
    entry = _servers.get(address)
    if entry is None or entry[0] != os.getpid():
        return None
    return entry[1]
