"""A real RocketMQ name server and broker for the interop tests, started as the kit starts them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from embedded_broker.kit.process import Servers, servers
from tests.interop.java_tools import CACHE

RealCluster = Servers


def real_cluster(
    home: Path, *, version: str = "5.3.3", settings: dict[str, str] | None = None
) -> AbstractContextManager[RealCluster]:
    """Start both servers below `home`; stopped by SIGTERM (a clean shutdown) at the end."""
    return servers(home, version, settings=settings, cache=CACHE)
