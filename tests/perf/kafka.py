"""A Kafka broker of one process on loopback, and the jars with which Spark reaches it.

The reference of the Spark benches. KRaft mode, both roles in one process, with the broker's own
defaults. Jars come from Maven, once.
"""

from __future__ import annotations

import contextlib
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from socket import create_connection
from uuid import uuid4

from attrs import frozen

from embedded_broker.kit.jvm import running
from embedded_broker.kit.maven import fetched
from embedded_broker.kit.process import free_ports
from rocketmq_py.clock import monotonic
from tests.interop.java_tools import CACHE

VERSION = "4.3.1"
SERVER = (f"org.apache.kafka:kafka_2.13:{VERSION}", f"org.apache.kafka:kafka-tools:{VERSION}")
FOR_SPARK = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
PARTITIONS = 4
BOOT_SECONDS = 60.0
HEAP = ["-Xms1g", "-Xmx1g", "-XX:+UseG1GC"]
"""What kafka-server-start.sh gives."""


@frozen
class Kafka:
    """Where it listens, and its process."""

    servers: str
    pid: int


def spark_jars() -> str:
    """Paths of the jars for Spark's `spark.jars`, comma-joined."""
    lib = fetched("spark-kafka-4.2.0", *FOR_SPARK, cache=CACHE, alone=True)
    return ",".join(sorted(str(jar) for jar in lib.glob("*.jar")))


@contextlib.contextmanager
def kafka_server(home: Path) -> Iterator[Kafka]:
    """Format a log folder below `home` and run a broker on it until the block ends.

    New topics get `PARTITIONS` partitions with the first message.
    """
    path = str(fetched(f"kafka-{VERSION}", *SERVER, cache=CACHE) / "*")
    port, controller = free_ports(2)
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(home / "data"),
        "num.partitions": str(PARTITIONS),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    home.mkdir(parents=True, exist_ok=True)
    file = home / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")
    cluster = urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()
    command = ["java", "-cp", path, "kafka.tools.StorageTool", "format"]
    subprocess.run(
        [*command, "--cluster-id", cluster, "--config", str(file)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with running([*HEAP, "-cp", path, "kafka.Kafka", str(file)]) as jvm:
        _wait_for(port, jvm.lines)
        yield Kafka(f"127.0.0.1:{port}", jvm.process.pid)


def _wait_for(port: int, lines: Sequence[str]) -> None:
    deadline_s = monotonic() + BOOT_SECONDS
    while True:
        try:
            create_connection(("127.0.0.1", port), 1).close()
        except OSError as error:
            if monotonic() > deadline_s:
                raise TimeoutError("Kafka does not listen:\n" + "\n".join(lines[-40:])) from error
        else:
            return
