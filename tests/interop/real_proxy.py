"""RocketMQ's own proxy in cluster mode, in front of a name server that is there already."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from embedded_broker.kit.jvm import Jvm
from embedded_broker.kit.process import LOOPBACK, OPENED, SERIAL_GC, free_ports
from embedded_broker.kit.real import BOOT_SECONDS
from tests.interop.java_tools import jars

MAIN = "org.apache.rocketmq.proxy.ProxyStartup"
STARTED = "rocketmq-proxy startup successfully"
SETTINGS = {
    "rocketMQClusterName": "DefaultCluster",
    "proxyMode": "CLUSTER",
    "localServeAddr": LOOPBACK,
    # The broker can ask about a transaction once its producer group is known there: every 20 s.
    "transactionHeartbeatPeriodSecond": 1,
    # A push consumer ends when its last receive does: after 20 s, where nothing comes.
    "grpcClientConsumerMinLongPollingTimeoutMillis": 1_000,
    "grpcClientConsumerMaxLongPollingTimeoutMillis": 2_000,
}
HEAP = ("-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=128m")


@contextlib.contextmanager
def real_proxy(home: Path, namesrv: str, version: str) -> Iterator[str]:
    """Start a proxy below `home`; yields where its gRPC clients go."""
    home.mkdir(parents=True, exist_ok=True)
    grpc_port, remoting_port = free_ports(2)
    own = {"namesrvAddr": namesrv, "grpcServerPort": grpc_port, "remotingListenPort": remoting_port}
    settings = home / "proxy.json"
    settings.write_text(json.dumps(SETTINGS | own), encoding="utf-8")
    path = jars(version, "rocketmq-proxy")
    options = [*HEAP, SERIAL_GC, *OPENED, f"-Duser.home={home}", "-cp", path]
    env = {"RMQ_PROXY_HOME": str(home), "ROCKETMQ_HOME": str(home)}
    proxy = Jvm.start([*options, MAIN, "-pc", str(settings)], env=env, cwd=home)
    try:
        proxy.wait_for_line(STARTED, BOOT_SECONDS)
        yield f"{LOOPBACK}:{grpc_port}"
    finally:
        proxy.end(politely=False)  # its polite end takes 30 s, and there is nothing to save
