"""``EmbeddedCluster``: several brokers behind one name server, on one clock.

Answers: how brokers share a runtime, leave it, come back and join it. Must not know: anything
about one broker beyond its name.
Read on: ``embedded_broker/api/broker.py``.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.api.extra_servers import control_face, control_url
from embedded_broker.api.views import GrpcClientInfo
from embedded_broker.clocks.clock import BrokerClock
from embedded_broker.lifecycle.arguments import Acl, Topics, checked_store, topic_specs
from embedded_broker.lifecycle.running_brokers import RunningBrokers
from embedded_broker.remoting.request_faults import Fault
from embedded_broker.settings.config import Defaults
from embedded_broker.settings.grpc import GrpcOptions
from embedded_broker.settings.profiles import LimitsName, ProfileName
from embedded_broker.settings.tls import Tls
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import PERM_READ, PERM_WRITE

if TYPE_CHECKING:
    from rocketmq_py.clock import Clock

BROKERS_MAX = 16


class EmbeddedCluster:
    """``brokers`` brokers named ``broker-a``, ``broker-b``, ... behind one name server.

    The other arguments are those of ``EmbeddedBroker`` and hold for every broker. With ``store``
    each of several brokers has a directory of its own below it. A single broker uses ``store``
    itself. Ports of brokers count up from ``broker_port``. All brokers write one journal.
    ``cluster["broker-b"]`` is one broker with its topics, messages and timers. Brokers start and
    end together with their cluster. ``stop``, ``start`` and ``add`` end or start one of them while
    the others go on. ``close``, ``crash`` and ``restart`` of any broker act on all of them.

    >>> with EmbeddedCluster(brokers=2, tcp=False, topics=["T"]) as cluster:
    ...     cluster.stop("broker-b")
    ...     [broker.broker_name for broker in cluster.brokers if broker.is_running]
    ['broker-a']
    """

    def __init__(
        self,
        *,
        brokers: int = 3,
        store: str | os.PathLike[str] | None = None,
        clock: "Clock | None" = None,
        session_clock: "Clock | None" = None,
        profile: ProfileName = "rocketmq-5.x",
        limits: LimitsName = "broker",
        engine: Literal["wheel", "sliced"] | None = None,
        levels: Literal["on", "off"] = "on",
        defaults: Defaults = "embedded",
        config: Mapping[str, object] | None = None,
        cluster_name: str = "DefaultCluster",
        broker_name: str = "broker-a",
        host: str = "127.0.0.1",
        namesrv_port: int = 0,
        broker_port: int = 0,
        tcp: bool = True,
        inproc: bool = True,
        topics: Topics = (),
        seed: int | None = None,
        allow_remote: bool = False,
        acl: Acl | None = None,
        tls: Tls | str | os.PathLike[str] | None = None,
        grpc: bool | GrpcOptions = False,
        grpc_tls: Tls | str | os.PathLike[str] | None = None,
        control: bool = False,
        control_port: int = 0,
        control_token: str | None = None,
    ) -> None:
        if not 1 <= brokers <= BROKERS_MAX:
            raise ConfigError("brokers", brokers, f"an integer from 1 to {BROKERS_MAX}")
        specs = topic_specs(topics)
        self._store = None if (path := checked_store(store)) is None else Path(path)
        self._shares_store, self._first_name = brokers > 1, broker_name

        def make(index: int, name: str) -> EmbeddedBroker:
            path = self._store
            return EmbeddedBroker(
                store=path / name if path is not None and self._shares_store else path,
                clock=clock,
                session_clock=session_clock,
                profile=profile,
                limits=limits,
                engine=engine,
                levels=levels,
                defaults=defaults,
                config=config,
                cluster_name=cluster_name,
                broker_name=name,
                host=host,
                namesrv_port=namesrv_port,
                broker_port=broker_port + index if broker_port else 0,
                tcp=tcp,
                inproc=inproc,
                topics=specs,
                seed=None if seed is None else seed + index,
                allow_remote=allow_remote,
                acl=acl,
                tls=tls,
                grpc=grpc,
                grpc_tls=grpc_tls,
            )

        self._make = make
        running = self._running_brokers = self._joined(brokers)
        self._control = control_face(
            running, self._all, control=control, port=control_port, token=control_token
        )

    def _joined(self, brokers: int) -> RunningBrokers:
        names = [_name(self._first_name, index) for index in range(brokers)]
        self._brokers = [self._make(index, name) for index, name in enumerate(names)]
        running = RunningBrokers([broker.slot for broker in self._brokers])
        for broker in self._brokers:
            broker.join(running)
        return running

    def _all(self) -> list[EmbeddedBroker]:
        return self._brokers

    def __repr__(self) -> str:
        state = "running" if self._running_brokers.is_running else "not running"
        return f"<EmbeddedCluster {', '.join(one.broker_name for one in self.brokers)} {state}>"

    def __getitem__(self, name: str) -> EmbeddedBroker:
        for broker in self.brokers:
            if broker.broker_name == name:
                return broker
        known = ", ".join(one.broker_name for one in self.brokers)
        raise KeyError(f"no broker {name!r}; there are {known}")

    @property
    def brokers(self) -> list[EmbeddedBroker]:
        """All brokers, also those that are stopped."""
        return self._brokers

    @property
    def namesrv_addr(self) -> str:
        """``host:port`` of the name server: what a client is configured with."""
        return self.brokers[0].namesrv_addr

    @property
    def endpoints(self) -> str:
        """``host:port`` where RocketMQ's gRPC clients reach all brokers; needs ``grpc=True``."""
        return self.brokers[0].endpoints

    def grpc_clients(self) -> tuple[GrpcClientInfo, ...]:
        """Give who is connected by gRPC, in the order of arrival; needs ``grpc=True``."""
        return self.brokers[0].grpc_clients()

    @property
    def tls_endpoints(self) -> str:
        """``host:port`` for those that insist on TLS; needs ``grpc_tls``."""
        return self.brokers[0].tls_endpoints

    @property
    def has_control(self) -> bool:
        """Whether it has an HTTP face."""
        return self._control is not None

    @property
    def control_url(self) -> str:
        """Where the HTTP face of all brokers is; its page is at ``/docs``."""
        return control_url(self, self._control)

    @property
    def clock(self) -> BrokerClock:
        """Message time of every broker."""
        return self.brokers[0].clock

    def start(self, name: str | None = None) -> Self:
        """Start every broker, and return when all routes are visible.

        With ``name``: start only this broker, after ``stop`` or for the first time. It has the same
        port and data as before. What became due meanwhile fires at once.
        """
        if name is None:
            self._running_brokers.start()
        else:
            self._running_brokers.open_one(self[name].slot)
        return self

    def stop(self, name: str) -> None:
        """End one broker cleanly while the others and the name server go on; idempotent.

        Its connections end and it leaves the routes. Topics that only this broker has are then
        without a route.
        """
        self._running_brokers.close_one(self[name].slot)

    def add(self, name: str | None = None) -> EmbeddedBroker:
        """Add a broker to the cluster and return it. A running cluster starts it at once.

        It has the cluster's settings and the topics that ``topics=`` named, and comes into the
        routes with these. Raises ``ConfigError`` for a name that is taken, for more than 16
        brokers, and when the only broker keeps its files in the cluster's own directory.
        """
        if len(self.brokers) >= BROKERS_MAX:
            raise ConfigError("brokers", len(self.brokers) + 1, f"{BROKERS_MAX} or fewer")
        if self._store is not None and not self._shares_store:
            raise ConfigError(
                "store", str(self._store), "one broker uses it: create the cluster with brokers=2"
            )
        name = name or _name(self._first_name, len(self.brokers))
        if any(one.broker_name == name for one in self.brokers):
            raise ConfigError("name", name, "a name that no other broker of the cluster has")
        broker = self._make(len(self.brokers), name)
        broker.join(self._running_brokers)
        self._running_brokers.add(broker.slot)
        self.brokers.append(broker)
        return broker

    def read_only(self, name: str, *, on: bool = True) -> None:
        """Let one broker refuse sends and say so in its routes (``brokerPermission``), or undo."""
        permission = PERM_READ if on else PERM_READ | PERM_WRITE
        self[name].config.update(brokerPermission=permission)

    def slow(self, name: str, delay: float) -> Fault:
        """Let one broker handle every request ``delay`` seconds later, by the session clock.

        The name server is not slowed down. Call ``end()`` of the returned fault to undo it, or use
        it in a ``with`` statement.
        """
        return self[name].faults.on(None).always().delay(delay)

    def close(self) -> None:
        """Close every broker, then the name server; idempotent."""
        self._running_brokers.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.close()


def _name(first: str, index: int) -> str:
    """Return ``broker-a``, ``broker-b``, ...; another first name counts on as ``name-2``."""
    if first == "broker-a":
        return f"broker-{chr(ord('a') + index)}"
    return first if index == 0 else f"{first}-{index + 1}"
