"""``EmbeddedCluster``: several brokers behind one name server, on one clock.

Answers: how brokers share a runtime. Must not know: anything about one broker beyond its name.
Read on: ``embedded_broker/broker.py``.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from embedded_broker.arguments import TopicSpec
from embedded_broker.broker import EmbeddedBroker
from embedded_broker.clock import BrokerClock
from embedded_broker.ensemble import Ensemble
from rocketmq_py.errors import ConfigError

if TYPE_CHECKING:
    from rocketmq_py.clock import Clock

__all__ = ["EmbeddedCluster"]

BROKERS_MAX = 16


class EmbeddedCluster:
    """``brokers`` brokers named ``broker-a``, ``broker-b``, ... behind one name server.

    The other arguments are those of ``EmbeddedBroker`` and hold for every broker. With ``store``
    each broker has a directory of its own below it, except a single one, which uses it itself.
    Ports of brokers count up from ``broker_port``. All brokers write one journal.
    ``cluster["broker-b"]`` is one broker with its topics, messages and timers; brokers start and
    end together with their cluster.
    """

    def __init__(
        self,
        *,
        brokers: int = 3,
        store: str | os.PathLike[str] | None = None,
        clock: "Clock | None" = None,
        session_clock: "Clock | None" = None,
        profile: str = "rocketmq-5.x",
        limits: str = "broker",
        engine: Literal["wheel", "sliced"] | None = None,
        levels: Literal["on", "off"] = "on",
        defaults: str = "embedded",
        config: Mapping[str, object] | None = None,
        cluster_name: str = "DefaultCluster",
        broker_name: str = "broker-a",
        host: str = "127.0.0.1",
        namesrv_port: int = 0,
        broker_port: int = 0,
        tcp: bool = True,
        inproc: bool = True,
        topics: Iterable[str | TopicSpec] = (),
        seed: int | None = None,
        allow_remote: bool = False,
    ) -> None:
        if not 1 <= brokers <= BROKERS_MAX:
            raise ConfigError("brokers", brokers, f"an integer from 1 to {BROKERS_MAX}")
        specs = list(topics)
        self.brokers: list[EmbeddedBroker] = []
        for index, name in enumerate(_names(broker_name, brokers)):
            path = store if store is None or brokers == 1 else Path(store) / name
            self.brokers.append(
                EmbeddedBroker(
                    store=path,
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
                )
            )
        self._ensemble = Ensemble([broker.slot for broker in self.brokers])
        for broker in self.brokers:
            broker.join(self._ensemble)

    def __repr__(self) -> str:
        state = "running" if self._ensemble.is_running else "not running"
        return f"<EmbeddedCluster {', '.join(one.broker_name for one in self.brokers)} {state}>"

    def __getitem__(self, name: str) -> EmbeddedBroker:
        for broker in self.brokers:
            if broker.broker_name == name:
                return broker
        known = ", ".join(one.broker_name for one in self.brokers)
        raise KeyError(f"no broker {name!r}; there are {known}")

    @property
    def namesrv_addr(self) -> str:
        """``host:port`` of the name server: what a client is configured with."""
        return self.brokers[0].namesrv_addr

    @property
    def clock(self) -> BrokerClock:
        """Message time of every broker."""
        return self.brokers[0].clock

    def start(self) -> Self:
        """Start every broker, and return when all routes are visible."""
        self._ensemble.start()
        return self

    def close(self) -> None:
        """Close every broker, then the name server; idempotent."""
        self._ensemble.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _names(first: str, brokers: int) -> list[str]:
    """Return ``broker-a``, ``broker-b``, ...; another first name counts on as ``name-2``."""
    if first == "broker-a":
        return [f"broker-{chr(ord('a') + index)}" for index in range(brokers)]
    return [first, *(f"{first}-{number}" for number in range(2, brokers + 1))]
