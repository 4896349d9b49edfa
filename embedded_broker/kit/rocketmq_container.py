"""``RocketMQContainer`` of testcontainers: ports, settings and start of RocketMQ's image.

Answers: with which ports, settings and command a container of RocketMQ's image is started, and when
it is ready. Must not know: pytest. Users import it from ``embedded_broker/containers.py``. Read on:
``embedded_broker/kit/container.py``.
"""

import io
import socket
import tarfile
from collections.abc import Mapping
from typing import Any, Final, Self

from docker.errors import APIError
from testcontainers.core.container import DockerContainer
from testcontainers.core.waiting_utils import WaitStrategy, WaitStrategyTarget

from embedded_broker.kit.backend import DEFAULT_IMAGE, BackendError
from embedded_broker.kit.real import (
    BOOT_SECONDS,
    SETTINGS,
    settings_text,
    wait_until_registered,
    without_chatter,
)

NAMESRV_PORT: Final = 9876
FOLDER: Final = "/tmp/rocketmq-test"  # noqa: S108 - of the container, where every user may write
BROKER_CONF: Final = f"{FOLDER}/broker.conf"
GO: Final = f"{FOLDER}/go"
HEAP_MEGABYTES: Final = 512
HEAP_MEGABYTES_LEAST: Final = 128
PORT_ATTEMPTS: Final = 3
SHOWN: Final = 40
ENDED: Final = frozenset({"exited", "dead", "removing"})
PORT_IS_TAKEN: Final = ("address already in use", "port is already allocated")

NO_TOUCH: Final = "-XX:-AlwaysPreTouch"
"""The image's own option touches all of the heap at the start, which takes time and memory."""

COMMAND: Final = f"""
JAVA_OPT_EXT="-Xms128m -Xmx128m -Xmn64m {NO_TOUCH}" sh mqnamesrv &
while [ ! -f {GO} ]; do sleep 0.1; done
exec sh mqbroker -c {BROKER_CONF}
"""
"""What runs in the container, in the folder that has the image's own entry points.

The name server starts at once. The broker has to tell clients an address that leads to it, which is
known when the container runs: it waits for its file.
"""


class BrokerRegistered(WaitStrategy):
    """Ready when the name server, asked from outside, knows the broker."""

    def wait_until_ready(self, container: WaitStrategyTarget) -> None:
        """Return then; `BackendError` when the container ends or takes too long."""
        if not isinstance(container, RocketMQContainer):
            raise TypeError(f"{container!r} is no RocketMQContainer")

        def alive() -> None:
            container.reload()
            if container.status in ENDED:
                said = "\n".join(container.log_tail(SHOWN))
                raise BackendError(f"the container of {container.image} ended; it said:\n{said}")

        alive()  # testcontainers would wait minutes for the port of one that ended
        wait_until_registered(
            container.get_namesrv_addr(), timeout=self._startup_timeout, still=alive
        )


class RocketMQContainer(DockerContainer):
    """A name server and a broker of RocketMQ in one container.

    The broker is reachable from this machine: its port is the same inside and outside, and it tells
    clients the host that testcontainers names. Delays of any length and recalls are on.

    Arguments
    ---------
    image
        An image with ``mqnamesrv`` and ``mqbroker`` in its working folder, as RocketMQ's own has.
    broker_port
        Port of the broker, inside and outside. None takes a free one of this machine.
    settings
        Broker options by RocketMQ's names, over those that suit tests.
    heap_megabytes
        The broker's heap, from 128. Its image asks for gigabytes by default.
    kwargs
        Those of ``DockerContainer``.

    Example::

        with RocketMQContainer() as rocketmq:
            producer = DefaultMQProducer("G", namesrv_addr=rocketmq.get_namesrv_addr())
    """

    ports: dict[str, int | None]
    _container: Any  # docker's, which has no types
    _wait_strategy: WaitStrategy | None

    def __init__(
        self,
        image: str = DEFAULT_IMAGE,
        *,
        broker_port: int | None = None,
        settings: Mapping[str, str] | None = None,
        heap_megabytes: int = HEAP_MEGABYTES,
        **kwargs: Any,  # testcontainers' own arguments
    ) -> None:
        if heap_megabytes < HEAP_MEGABYTES_LEAST:
            raise BackendError(
                f"heap_megabytes is {heap_megabytes}: a broker needs {HEAP_MEGABYTES_LEAST} or more"
            )
        super().__init__(image, **kwargs)
        self.broker_port = broker_port
        self.settings = dict(settings or {})
        self._chosen_port = 0
        young = heap_megabytes // 2
        self.with_env(
            "JAVA_OPT_EXT",
            f"-Xms{heap_megabytes}m -Xmx{heap_megabytes}m -Xmn{young}m {NO_TOUCH}",
        )
        self.with_command(["sh", "-c", COMMAND])
        self.with_exposed_ports(NAMESRV_PORT)
        self.waiting_for(BrokerRegistered().with_startup_timeout(int(BOOT_SECONDS)))

    def with_broker_setting(self, name: str, value: str) -> Self:
        """Set a broker option by RocketMQ's name, before the start."""
        self.settings[name] = value
        return self

    def get_namesrv_addr(self) -> str:
        """``host:port`` that clients of this machine name as their name server."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(NAMESRV_PORT)}"

    def get_broker_addr(self) -> str:
        """``host:port`` that the name server gives to clients."""
        return f"{self.get_container_host_ip()}:{self._chosen_port}"

    def start(self) -> Self:
        """Start, and return when clients can send. When that fails, nothing is left running."""
        try:
            self._start_on_a_free_port()
            self._give_files()
            if self._wait_strategy is not None:
                self._wait_strategy.wait_until_ready(self)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stop, and remove the container. Idempotent."""
        try:
            super().stop(force=force, delete_volume=delete_volume)
        finally:
            self._container = None

    def log_tail(self, lines: int = SHOWN) -> list[str]:
        """Return the last lines that both servers printed."""
        out, err = self.get_logs()
        return without_chatter((out + err).decode(errors="replace").splitlines())[-lines:]

    def broker_conf(self, host: str) -> str:
        """Write the broker's file for clients that reach it under the host."""
        return settings_text(
            {
                **SETTINGS,
                # An address for the wire, not a name that only this machine can resolve.
                "brokerIP1": socket.gethostbyname(host),
                "listenPort": str(self._chosen_port),
                "namesrvAddr": f"127.0.0.1:{NAMESRV_PORT}",
                **self.settings,
            }
        )

    def _start_on_a_free_port(self) -> None:
        strategy, self._wait_strategy = self._wait_strategy, None  # nothing is ready without files
        try:
            for attempt in range(1, PORT_ATTEMPTS + 1):
                self._publish(self.broker_port or _free_port())
                try:
                    super().start()
                    return
                except APIError as error:
                    taken = any(words in str(error).lower() for words in PORT_IS_TAKEN)
                    if self.broker_port or not taken or attempt == PORT_ATTEMPTS:
                        raise
                    self._forget()
        finally:
            self._wait_strategy = strategy

    def _publish(self, port: int) -> None:
        old = str(self._chosen_port)
        self.ports = {key: host for key, host in self.ports.items() if str(key) != old}
        self._chosen_port = port
        self.with_bind_ports(port, port)

    def _forget(self) -> None:
        if self._container is not None:
            self._container.remove(force=True, v=True)
            self._container = None

    def _give_files(self) -> None:
        files = {BROKER_CONF: self.broker_conf(self.get_container_host_ip()), GO: ""}
        self.get_wrapped_container().put_archive("/", archive_of(files))


def archive_of(files: Mapping[str, str]) -> bytes:
    """Pack texts by path; they are unpacked in their order."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, text in files.items():
            data = text.encode()
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        port: int = one.getsockname()[1]
        return port
