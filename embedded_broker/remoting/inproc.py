"""In-process connections: clients of the same process exchange frames without sockets.

Answers: how an SDK client of this process reaches the broker, found by the advertised
``host:port``. Must not know: requests. Read on: ``rocketmq_py/transport/inproc.py`` for the
registry and the words both sides speak, ``embedded_broker/remoting/server.py`` for the TCP twin.
"""

import os
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from threading import Event, Lock
from typing import TypeAlias
from weakref import WeakKeyDictionary

from attrs import define, field

from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.requests import Connection
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.transport import inproc as registry

Existing: TypeAlias = Mapping[str, Collection[str]]
"""The topics that there are, each with the names of the brokers that have it."""
LOOPBACK = "127.0.0.1"
BACK_S = 30.0
"""How long a client waits at most for a server that is to come back."""
_ports = count(20_000)
_absent: "dict[str, _Absent]" = {}


@contextmanager
def back_soon(addresses: Iterable[str]) -> Iterator[None]:
    """Let clients of this process wait that connect while these addresses are restarted.

    A refused client would give up after a few attempts, within milliseconds: whether it does would
    depend on the machine. They go on when the block ends, whatever is there then.
    """
    absent = {address: _Absent(address) for address in addresses}
    _absent.update(absent)
    try:
        yield
    finally:
        for address, one in absent.items():
            _absent.pop(address, None)
            registry.unregister(address, one)
            one.is_over.set()


@define(eq=False)
class _Absent:
    """A server that is to come back, as an in-process server."""

    _address: str
    is_over: Event = field(factory=Event, init=False)

    def connect(self, mailbox: registry.Mailbox, *, name: str) -> registry.InprocConnection:
        """Wait, and connect to what is there then."""
        self.is_over.wait(BACK_S)
        server = registry.lookup(self._address)
        if server is None or server is self:
            raise ConnectionRefusedError(f"{self._address} did not come back ({name})")
        return server.connect(mailbox, name=name)

    def expect(self, client: registry.LocalClient, *, name: str) -> None:
        """Do nothing: the server that comes back hears of a client when it connects."""


class LocalClients:
    """The clients of this process that know a server here and still exist, also after a crash.

    One is noted when it starts: its first message may wait for its first connection. They can say
    by themselves whether they are idle.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._names: WeakKeyDictionary[registry.LocalClient, str] = WeakKeyDictionary()

    def enter(self, client: registry.LocalClient, name: str) -> None:
        """Note a client that starts or connects."""
        with self._lock:
            self._names[client] = name

    def busy(self, without: Container[str]) -> list[str]:
        """Ask every client but those by name; give name and reason of those that are busy."""
        asked = ((name, client.told()) for client, name in self._now() if name not in without)
        return [f"client {name}: {reason}" for name, reason in asked if reason is not None]

    def lacks(self, existing: Existing) -> list[tuple[str, str, str]]:
        """Give client, group and topic of subscriptions without a route, or with an old one."""
        return [
            (name, one.group, one.topic)
            for client, name in self._now()
            for one in client.subscribed_routes()
            if _is_lacking(one, existing)
        ]

    def hasten(self, existing: Existing) -> None:
        """Let clients do at once what only waits for its time.

        So those ask for routes that lack the present one of a topic that exists.
        """
        for client, _ in self._now():
            client.hasten()
            routes = client.subscribed_routes()
            if any(one.topic in existing and _is_lacking(one, existing) for one in routes):
                client.look_at_routes()

    def _now(self) -> list[tuple[registry.LocalClient, str]]:
        with self._lock:
            return list(self._names.items())


def _is_lacking(route: registry.SubscribedRoute, existing: Existing) -> bool:
    now = existing.get(route.topic)
    return route.brokers is None or (now is not None and route.brokers != frozenset(now))


@define(eq=False)
class InprocAdapter:
    """One endpoint as an in-process server. ``close`` ends every connection."""

    _endpoint: Endpoint
    _address: str
    _clients: LocalClients | None = None
    _process: int = field(factory=os.getpid, init=False)
    _connections: "set[_MailboxConnection]" = field(factory=set, init=False)
    _open: bool = field(default=False, init=False)

    def start(self) -> None:
        """Become reachable under the address."""
        absent = _absent.get(self._address)
        if absent is not None:
            registry.unregister(self._address, absent)
        registry.register(self._address, self)
        self._open = True

    def connect(self, mailbox: registry.Mailbox, *, name: str) -> registry.InprocConnection:
        """Open a connection whose answers go to ``mailbox``."""
        if not self._open or os.getpid() != self._process:
            raise ConnectionRefusedError(f"{self._address} accepts no connections ({name})")
        port = int(self._address.rpartition(":")[2])
        connection = _MailboxConnection(self, self._endpoint, mailbox, (LOOPBACK, port))
        self._connections.add(connection)
        if self._clients is not None:
            self._clients.enter(mailbox.client, name)
        self._endpoint.connected(connection)
        return connection

    def expect(self, client: registry.LocalClient, *, name: str) -> None:
        """Note a client whose start names this address."""
        if self._clients is not None and self._open and os.getpid() == self._process:
            self._clients.enter(client, name)

    def close(self) -> None:
        """Be reachable no longer, and end every connection; idempotent."""
        if os.getpid() != self._process:
            return
        self._open = False
        registry.unregister(self._address, self)
        absent = _absent.get(self._address)
        if absent is not None:  # before connections end: their clients come back at once
            registry.register(self._address, absent)
        for connection in list(self._connections):
            connection.close()

    def forget(self, connection: "_MailboxConnection") -> None:
        """Note that a connection has ended."""
        self._connections.discard(connection)
        self._endpoint.disconnected(connection)


class _MailboxConnection(Connection):
    """Both ends in one process: the client calls ``send``, answers go to its mailbox."""

    __slots__ = ("_adapter", "_decoder", "_endpoint", "mailbox")
    mailbox: registry.Mailbox

    def __init__(
        self,
        adapter: InprocAdapter,
        endpoint: Endpoint,
        mailbox: registry.Mailbox,
        local: tuple[str, int],
    ) -> None:
        super().__init__((LOOPBACK, next(_ports) % 65_536), local)
        self._adapter = adapter
        self._endpoint = endpoint
        self.mailbox = mailbox
        self._decoder = FrameDecoder()

    def send(self, data: bytes) -> None:
        """Take frame bytes from the client; answers may reach its mailbox before this returns."""
        if self.closed:
            raise ConnectionResetError(f"the connection to {self.local[0]}:{self.local[1]} ended")
        self._endpoint.read(self, self._decoder, data)

    def deliver(self, frames: list[bytes]) -> None:
        """Hand frames to the client's mailbox."""
        if not self.closed:
            self.mailbox.deliver(frames)

    def close(self) -> None:
        """End the connection, from either side."""
        if self.closed:
            return
        self.closed = True
        if self._endpoint.door.held:
            self._endpoint.door.after(self._ended)
        else:
            self._ended()

    def _ended(self) -> None:
        self._adapter.forget(self)
        self.mailbox.closed()
