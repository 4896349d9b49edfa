"""The gRPC clients of an endpoint: a peer for each, with its settings and its stream.

Answers: what is known of a client id, and how the broker reaches that client. A client is known
from its first settings until it says that it leaves, or is silent for too long; who has sent none
is a peer of its own in each call. Must not know: protobuf, brokers. Read on: ``calls/members.py``
for what settings do.
"""

from collections.abc import Callable
from typing import Final, Protocol

from attrs import define, field, frozen

from embedded_broker.grpc.status import Aborted
from embedded_broker.tables.peer import Peer
from rocketmq_py.protocol.bodies.heartbeat import CONSUME_PASSIVELY, HeartbeatData

CLIENTS_MAX: Final = 10_000
"""Most clients that are known at a time."""
REQUEST_TIMEOUT_MS: Final = 3_000
"""Of a client that has not said how long its requests may take."""


@frozen(kw_only=True)
class ClientSettings:
    """What a client said of itself: the groups it is in, as a heartbeat tells them."""

    heartbeat: HeartbeatData
    topics: tuple[str, ...] = ()
    """Of a producer."""
    group: str = ""
    """Of a consumer."""
    said: bytes = b""
    """The settings as they came."""


class Stream(Protocol):
    """The way to a client, while it has one open."""

    def deliver(self, frames: list[bytes]) -> None:
        """Send commands. On any thread, outside the door; never blocks."""

    def end(self) -> None:
        """Let the stream end well. On any thread."""

    def stop(self, last: Aborted | None) -> None:
        """Let the stream end, well or not. On any thread."""


class GrpcClient(Peer):
    """One client, known by its id, whichever connections its calls come over."""

    __slots__ = (
        "_forget",
        "entered",
        "language",
        "request_timeout_ms",
        "settings",
        "stream",
        "version",
    )

    def __init__(
        self,
        client_id: str,
        remote: tuple[str, int],
        local: tuple[str, int],
        forget: "Callable[[GrpcClient], None]",
    ) -> None:
        super().__init__(remote, local)
        self.client_id = client_id
        self.language = ""
        self.version = ""
        self.request_timeout_ms = REQUEST_TIMEOUT_MS
        self.settings: ClientSettings | None = None
        self.entered = HeartbeatData()
        """As what the brokers know it."""
        self.stream: Stream | None = None
        self._forget = forget

    @property
    def asks_always(self) -> bool:  # type: ignore[override] # of one client, not of all
        """Whether it asks for messages all the time: a simple consumer does not."""
        settings = self.settings
        consumers = [] if settings is None else settings.heartbeat.consumer_data_set
        return all(one.consume_type == CONSUME_PASSIVELY for one in consumers)

    def close(self) -> None:
        """Let the client be gone, from either side; idempotent."""
        if not self.closed:
            self.closed = True
            self._forget(self)


@define(eq=False)
class GrpcClients:
    """The clients of an endpoint, by id. Used under the door."""

    on_gone: Callable[[GrpcClient], None]
    """Called once for each that is gone; not always under the door."""
    local: tuple[str, int] = ("127.0.0.1", 0)
    _known: dict[str, GrpcClient] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._known)

    def peer(self, client_id: str, remote: tuple[str, int]) -> GrpcClient:
        """Give the client that calls: the known one, or a new one that is not known yet."""
        known = self._known.get(client_id)
        if known is None:
            return GrpcClient(client_id, remote, self.local, self._gone)
        if known.remote != remote:
            known.remote = remote
        return known

    def find(self, client_id: str) -> GrpcClient | None:
        """Give a known client."""
        return self._known.get(client_id)

    def keep(self, client: GrpcClient) -> bool:
        """Know a client from now on; false when there are too many."""
        if client.client_id not in self._known and len(self._known) >= CLIENTS_MAX:
            return False
        self._known[client.client_id] = client
        return True

    def all(self) -> list[GrpcClient]:
        """Give every known client."""
        return list(self._known.values())

    def _gone(self, client: GrpcClient) -> None:
        if self._known.get(client.client_id) is client:
            del self._known[client.client_id]
        self.on_gone(client)
