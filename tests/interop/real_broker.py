"""A real RocketMQ name server and broker, started from Maven artifacts on loopback."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from rocketmq_py import DefaultMQAdminExt
from rocketmq_py.clock import monotonic
from tests.interop.java_tools import jars, running

OPEN_NIO = "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED"
NAMESRV = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER = "org.apache.rocketmq.broker.BrokerStartup"
BOOT_SECONDS = 60.0


@frozen
class RealCluster:
    """Addresses and store of a running pair of real servers."""

    version: str
    namesrv_addr: str
    broker_addr: str
    broker_pid: int
    store: Path


def free_ports(count: int, *, gap: int = 3) -> list[int]:
    """Free loopback ports that are `gap` apart: a broker also takes the ports beside its own."""
    sockets = [socket.socket() for _ in range(count * 8)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        found: list[int] = []
        for port in sorted(one.getsockname()[1] for one in sockets):
            if not found or port - found[-1] >= gap:
                found.append(port)
        return found[:count]
    finally:
        for one in sockets:
            one.close()


def _wait_until_registered(namesrv_addr: str) -> None:
    """Return when the name server knows the broker, which is a while after it has booted."""
    deadline_s = monotonic() + BOOT_SECONDS
    with DefaultMQAdminExt() as admin:
        while not admin.examine_broker_cluster_info(namesrv_addr).broker_addr_table:
            if monotonic() > deadline_s:
                raise TimeoutError(f"no broker registered at {namesrv_addr}")


@contextlib.contextmanager
def real_cluster(
    home: Path, *, version: str = "5.3.3", settings: dict[str, str] | None = None
) -> Iterator[RealCluster]:
    """Start both servers below `home`; stopped by SIGTERM (a clean shutdown) at the end."""
    path = jars(version, "rocketmq-namesrv", "rocketmq-broker")
    namesrv_port, broker_port, ha_port = free_ports(3)
    env = {"ROCKETMQ_HOME": str(home), "NAMESRV_ADDR": f"127.0.0.1:{namesrv_port}"}
    store = home / "store"
    store.mkdir(parents=True, exist_ok=True)
    (home / "namesrv.conf").write_text(f"listenPort={namesrv_port}\n", encoding="utf-8")
    options = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "0",
        "brokerIP1": "127.0.0.1",
        "listenPort": str(broker_port),
        "haListenPort": str(ha_port),
        "namesrvAddr": f"127.0.0.1:{namesrv_port}",
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        "mappedFileSizeCommitLog": "67108864",
        "mappedFileSizeConsumeQueue": "600000",
        "maxHashSlotNum": "50000",
        "maxIndexNum": "200000",
        "mappedFileSizeTimerLog": "1048576",
        "recallMessageEnable": "true",
        "enablePropertyFilter": "true",
        **(settings or {}),
    }
    text = "".join(f"{key}={value}\n" for key, value in options.items())
    (home / "broker.conf").write_text(text, encoding="utf-8")
    base = ["-XX:+UseSerialGC", OPEN_NIO, f"-Duser.home={home}", "-cp", path]
    with (
        running(
            ["-Xms128m", "-Xmx128m", *base, NAMESRV, "-c", str(home / "namesrv.conf")],
            env=env,
            cwd=home,
        ) as namesrv,
        contextlib.ExitStack() as stack,
    ):
        namesrv.wait_for_line("boot success", BOOT_SECONDS)
        broker = stack.enter_context(
            running(
                ["-Xms512m", "-Xmx512m", *base, BROKER, "-c", str(home / "broker.conf")],
                env=env,
                cwd=home,
            )
        )
        broker.wait_for_line("boot success", BOOT_SECONDS)
        _wait_until_registered(f"127.0.0.1:{namesrv_port}")
        yield RealCluster(
            version,
            f"127.0.0.1:{namesrv_port}",
            f"127.0.0.1:{broker_port}",
            broker.process.pid,
            store,
        )
