"""Wiring of gRPC: which brokers its clients reach, and when its endpoint begins and ends.

Answers: which parts of a broker their calls use, and in which order the endpoint begins and ends.
The room that needs the extra ``grpc`` is loaded here, when somebody asks for it. Must not know:
protobuf. Read on: ``embedded_broker/grpc/endpoint.py``, ``runtime.py`` for who starts it.
"""

from functools import partial
from typing import TYPE_CHECKING

from attrs import define, field

from embedded_broker.door import Door
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.namesrv.name_server import NameServer
from embedded_broker.remoting.journal import Journal
from embedded_broker.settings.grpc import Certificates, GrpcOptions

if TYPE_CHECKING:
    from embedded_broker.grpc.broker_services import BrokerServices
    from embedded_broker.grpc.calls.members import ClientWire, MemberCalls
    from embedded_broker.grpc.endpoint import GrpcEndpoint
    from embedded_broker.grpc.server import GrpcServer


@define(eq=False, kw_only=True)
class GrpcFace:
    """The gRPC endpoint of brokers that run together; one in each life of theirs."""

    _options: GrpcOptions
    _door: Door
    _journal: Journal
    _namesrv: NameServer
    _host: str
    _certificates: Certificates | None = None
    _endpoint: "GrpcEndpoint" = field(init=False)
    _members: "MemberCalls" = field(init=False)
    _server: "GrpcServer | None" = field(default=None, init=False)
    _wires: "dict[str, ClientWire]" = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        from embedded_broker.grpc.calls.members import MemberCalls
        from embedded_broker.grpc.calls.receiving import ReceiveCalls
        from embedded_broker.grpc.calls.routes import RouteCalls
        from embedded_broker.grpc.calls.sending import SendCalls
        from embedded_broker.grpc.endpoint import GrpcEndpoint
        from embedded_broker.grpc.incoming import Names
        from embedded_broker.grpc.status import Codes

        options, names = self._options, Names(self._options.namespace)
        codes = Codes(is_strict=options.strict is not None)
        self._endpoint = endpoint = GrpcEndpoint(
            door=self._door, journal=self._journal, codes=codes
        )
        self._members = MemberCalls(
            endpoint=endpoint, names=names, long_polling_ms=options.long_polling_ms
        )
        self._members.register()
        RouteCalls(
            endpoint=endpoint,
            names=names,
            routes=self._namesrv.routes.route,
            own=self._own_address,
            auto_create=options.auto_create,
        ).register()
        SendCalls(endpoint=endpoint, names=names, auto_create=options.auto_create).register()
        ReceiveCalls(
            endpoint=endpoint, names=names, long_polling_ms=options.long_polling_ms
        ).register()

    @property
    def endpoint(self) -> "GrpcEndpoint":
        """Where calls are answered."""
        return self._endpoint

    def _own_address(self) -> tuple[str, int]:
        return self._host, self.ports[0]

    @property
    def ports(self) -> tuple[int, int]:
        """The ports, plain and with TLS, once they are bound."""
        return (0, 0) if self._server is None else self._server.ports

    def enter(self, parts: BrokerParts) -> None:
        """Let clients reach a broker, or its new state after a reset. Under the door."""
        services = services_of(parts)
        self._endpoint.brokers[parts.broker_name] = services
        wire = self._wires[parts.broker_name] = self._members.wire_of(services)
        parts.calls.wires.append(wire)
        parts.tables.groups.listeners.append(self._members.group_changed)
        parts.on_leave.append(partial(self._leave, parts, services))

    def _leave(self, parts: BrokerParts, services: "BrokerServices") -> None:
        """Let no client reach a broker that stops. Under the door."""
        if self._endpoint.brokers.get(parts.broker_name) is services:
            del self._endpoint.brokers[parts.broker_name]

    def start(self, had: tuple[int, int]) -> None:
        """Listen at ports that were had before, or those of the options.

        ``ConfigError`` when one cannot be had.
        """
        from embedded_broker.grpc.server import GrpcServer

        is_again = any(had)
        self._server = GrpcServer(
            endpoint=self._endpoint,
            members=self._members,
            host=self._host,
            ports=had if is_again else (self._options.port, self._options.tls_port),
            again=is_again,
            certificates=self._certificates,
        )
        self._server.start()

    def hand_over(self) -> None:
        """Wait until answers are on their way."""
        if self._server is not None:
            self._server.hand_over()

    def close(self, *, reset: bool = False) -> None:
        """Listen no longer; idempotent."""
        server, self._server = self._server, None
        if server is not None:
            server.close(reset=reset)


def services_of(parts: BrokerParts) -> "BrokerServices":
    """Give what calls of gRPC clients use of a broker."""
    from embedded_broker.grpc.broker_services import BrokerServices

    return BrokerServices(
        env=parts,
        tables=parts.tables,
        guards=parts.guards,
        filters=parts.consume.filters,
        retry_owners=parts.retry_owners,
        send=parts.send,
        pop=parts.pop,
        transactions=parts.transactions,
        administration=parts.administration,
        durability=parts.durability,
        calls=parts.calls,
        do_later=parts.endpoint.long_requests.do,
    )
