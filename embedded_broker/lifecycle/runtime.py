"""Runtime of a cluster: the door, clocks, name server and threads that its brokers share.

Answers: which threads and listeners there are, and in which order they start and end. Must not
know: any broker's state. Read on: ``embedded_broker/lifecycle/node.py`` for one broker,
``embedded_broker/api/broker.py`` and ``api/cluster.py`` for what a user holds.
"""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from embedded_broker.clocks.driver import ClockDriver
from embedded_broker.core.guards import Guards, RemoteAdministration
from embedded_broker.door import Door
from embedded_broker.ha.service import HAService
from embedded_broker.lifecycle.arguments import Arguments
from embedded_broker.lifecycle.grpc_serving import GrpcFace
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.namesrv.name_server import NameServer
from embedded_broker.remoting.connection_limits import ConnectionLimits
from embedded_broker.remoting.endpoint import Endpoint
from embedded_broker.remoting.idle_connections import most_idle_ms
from embedded_broker.remoting.inproc import InprocAdapter, LocalClients
from embedded_broker.remoting.journal import Journal
from embedded_broker.settings.grpc import GrpcOptions
from embedded_broker.store.memory_budget import MemoryShares
from rocketmq_py.errors import ConfigError
from rocketmq_py.logs import get_logger

if TYPE_CHECKING:
    from embedded_broker.remoting.server import TcpServer

logger = get_logger(__name__)

VIP_DISTANCE: Final = 2
"""So far below a broker's port lies another one for its fast clients: those of the VIP channel."""
NAMESRV_PORT = 9876
BROKER_PORT = 10911


class Runtime:
    """One door, one clock driver, one name server, one TCP thread; used once.

    ``open_address`` binds, ``serve`` ties an endpoint to what was bound, ``start`` lets clients
    in, ``close`` undoes everything that was done so far, also after a failed start. While it runs
    ``let_in`` and ``shut_out`` do so for one address.
    """

    def __init__(
        self, arguments: Arguments, journal: Journal, number: int, clients: LocalClients
    ) -> None:
        self.clients = clients
        self.arguments = arguments
        self.number = number
        self.door = Door()
        self.journal = journal
        self.driver = ClockDriver(self.door)
        self.namesrv = NameServer()
        self.random = Random(arguments.seed)
        self.namesrv_endpoint: Endpoint | None = None
        """Where the name server answers, once it is served."""
        self.memory = MemoryShares()
        self.connection_limits = ConnectionLimits()
        """What the connections of all brokers hold up together; the first broker's options."""
        self.connection_limits.read_settings(arguments.config)
        self._tcp: TcpServer | None = None
        self._adapters: dict[str, InprocAdapter] = {}
        self._vip: dict[str, str] = {}
        """Addresses of brokers to those of their VIP channels; "" is none yet."""
        self._ha: dict[str, str] = {}
        """Addresses of brokers to those where slaves follow them."""
        self._grpc = None if arguments.grpc is None else self._make_grpc(arguments.grpc)

    def open_namesrv(self, port: int, *, again: bool = False) -> str:
        """Bind the name server's address and return it; see ``open_address``."""
        return self.open_address(port, NAMESRV_PORT, self.number, again=again)

    def serve_namesrv(self, address: str, parts: BrokerParts) -> Endpoint:
        """Answer at the name server's address, on behalf of the cluster's first broker."""
        silent = not parts.profile.namesrv_answers_unknown
        endpoint = Endpoint(
            name="namesrv",
            door=self.door,
            clock=parts.clock,
            session=parts.session,
            journal=parts.journal,
            profile=parts.profile,
            guards=Guards(one for one in parts.guards if isinstance(one, RemoteAdministration)),
            is_namesrv=True,
            silent_unknown=silent,
            most_idle_ms=most_idle_ms(parts.config),
        )
        for code, handler in self.namesrv.handlers.items():
            endpoint.register(code, handler)
        self.namesrv.registrations.serve_at(endpoint)
        self.namesrv_endpoint = endpoint
        self.serve(address, endpoint)
        return endpoint

    def choose_speaker(self, all_parts: Sequence[BrokerParts]) -> None:
        """Let the name server use the clock of a broker that runs: the first one may have left.

        While nobody runs it stays with the last one.
        """
        endpoint = self.namesrv_endpoint
        if endpoint is not None and all_parts:
            with self.door:
                if not any(endpoint.speaks_for(parts.endpoint) for parts in all_parts):
                    endpoint.speak_for(all_parts[0].endpoint)

    def replace(self, old: BrokerParts, new: BrokerParts) -> None:
        """Let the new state of a broker answer where the old one did. Under the door."""
        namesrv = self.namesrv_endpoint
        if namesrv is not None and namesrv.speaks_for(old.endpoint):
            namesrv.speak_for(new.endpoint)
        old.endpoint.become(new.endpoint)
        new.endpoint = old.endpoint
        if self._grpc is not None:
            self._grpc.enter(new)

    def open_address(
        self, port: int, placeholder_port: int, number: int, *, again: bool = False
    ) -> str:
        """Bind a listener, and return the advertised address.

        With ``again`` the port was had before: who took it meanwhile may give it back in a moment.
        Without TCP it is a name that exists in this process only (RFC 2606: ``.invalid``).
        """
        arguments = self.arguments
        if not arguments.tcp:
            return f"inproc-{number}.invalid:{port or placeholder_port}"
        from embedded_broker.remoting.server import TcpServer, listen, listen_again

        if self._tcp is None:
            self._tcp = TcpServer(self.connection_limits, arguments.tls)
            arguments.config.on_change(
                lambda _: self.connection_limits.read_settings(arguments.config)
            )
            self.driver.barriers.append(self._tcp.hand_over)
        bind = arguments.listener_factory or (listen_again if again else listen)
        listener = bind(arguments.host, port)
        name = listener.getsockname()
        bound_port = int(name[1]) if isinstance(name, tuple) else port
        host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        address = f"{host}:{bound_port}"
        self._tcp.add(address, listener)
        return address

    def open_for_slaves(self, address: str, port: int, *, again: bool = False) -> str:
        """Bind where slaves follow the broker at an address, and return it; "" without TCP."""
        if self._tcp is None:
            return ""
        self._ha[address] = ha_address = self.open_address(port, 0, self.number, again=again)
        return ha_address

    def serve_slaves(self, parts: BrokerParts) -> HAService | None:
        """Let slaves follow a broker at the address that was opened for them; None without one."""
        tcp, address = self._tcp, self._ha.get(parts.address)
        if tcp is None or address is None:
            return None
        from embedded_broker.ha.connection import HAConnection

        service = HAService(
            door=self.door,
            address=address,
            config=parts.config,
            store=parts.store,
            session=parts.session,
        )
        allow = partial(parts.config.flag, "allowRemoteAdmin")
        tcp.serve_by(address, partial(HAConnection, tcp, service, allow, tcp.refused.warn))
        return service

    def serve(self, address: str, endpoint: Endpoint) -> None:
        """Let an endpoint answer at an address that was opened."""
        if self._tcp is not None:
            self._tcp.serve(address, endpoint)
            if not endpoint.is_namesrv:
                self._vip[address] = ""
        if self.arguments.inproc:
            self._adapters[address] = InprocAdapter(endpoint, address, self.clients)

    # --- gRPC clients ----------------------------------------------------------------------

    def _make_grpc(self, options: GrpcOptions) -> GrpcFace:
        return GrpcFace(
            options=options,
            door=self.door,
            journal=self.journal,
            namesrv=self.namesrv,
            host=self.arguments.host,
            certificates=self.arguments.grpc_tls,
        )

    @property
    def grpc(self) -> GrpcFace | None:
        """Where gRPC clients ask all brokers; None when nobody wants that."""
        return self._grpc

    def let_grpc_clients_reach(self, parts: BrokerParts) -> None:
        """Let gRPC clients reach a broker, if there may be any."""
        if self._grpc is not None:
            with self.door:
                self._grpc.enter(parts)

    def open_grpc(self, had: tuple[int, int]) -> tuple[int, int]:
        """Listen for gRPC clients, where it was done before; give the ports, plain and with TLS."""
        if self._grpc is None:
            return had
        self._grpc.start(had)
        self.driver.barriers.append(self._grpc.hand_over)
        return self._grpc.ports

    # --- the VIP channel -------------------------------------------------------------------

    def _open_vip(self, address: str) -> str:
        """Answer at a broker's second port, too, if it is free; "" if not.

        Clients of early 4.x and of Aliyun send there. Last of all: the ports that were asked for
        come first.
        """
        host, _, port = address.rpartition(":")
        beside = f"{host}:{int(port) - VIP_DISTANCE}"
        if self._tcp is None or self.arguments.listener_factory is not None:
            return ""
        from embedded_broker.remoting.server import listen

        try:
            listener = listen(self.arguments.host, int(port) - VIP_DISTANCE)
        except (ConfigError, OverflowError) as error:
            # Which port lies below a free one is chance; in a cluster it is another broker's.
            is_chance = not self.arguments.broker_port or beside in self._vip
            level = logging.DEBUG if is_chance else logging.WARNING
            logger.log(level, "broker %s has no VIP channel: %s", address, error)
            return ""
        self._tcp.add(beside, listener)
        self._tcp.serve(beside, self._tcp.endpoint(address))
        self._vip[address] = beside
        return beside

    # --- letting clients in ----------------------------------------------------------------

    def start(self) -> None:
        """Start the threads and let clients in."""
        for address in self._vip:
            self._open_vip(address)
        self.driver.start()
        if self._tcp is not None:
            self._tcp.start()
        for adapter in self._adapters.values():
            adapter.start()

    def let_in(self, address: str) -> None:
        """Let clients in at an address that was opened after ``start``."""
        if self._tcp is not None:
            self._tcp.open(address)
            for beside in (self._ha.get(address, ""), self._open_vip(address)):
                if beside:
                    self._tcp.open(beside)
        if address in self._adapters:
            self._adapters[address].start()

    def shut_out(self, address: str) -> None:
        """End every connection of one address and listen there no longer; idempotent."""
        adapter = self._adapters.pop(address, None)
        if adapter is not None:
            adapter.close()
        if self._tcp is not None:
            for one in (self._vip.pop(address, ""), self._ha.pop(address, ""), address):
                self._tcp.close_address(one)

    def close(self, *, reset: bool = False) -> None:
        """End every connection, listen no longer and join every thread; idempotent.

        With ``reset`` TCP connections end as when a process dies that has unread requests.
        """
        with ExitStack() as last:  # each is ended, whatever another one raises
            last.callback(self.driver.close)
            if self._grpc is not None:
                last.callback(self._grpc.close, reset=reset)
            if self._tcp is not None:
                last.callback(self._tcp.close, reset=reset)
            while self._adapters:
                last.callback(self._adapters.popitem()[1].close)
