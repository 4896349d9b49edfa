"""Backend ``container[:IMAGE]`` of ``--rocketmq``: RocketMQ's image in a container.

Answers: how the kit starts and stops a container, and what is missing when it cannot. Must not
know: pytest. Nothing of testcontainers is imported before a container is asked for. Read on:
``embedded_broker/kit/rocketmq_container.py``.
"""

import contextlib
import os
from typing import TYPE_CHECKING, Final

from embedded_broker.kit.backend import DEFAULT_IMAGE, BackendError
from embedded_broker.kit.real import RealBackend, abilities_of, version_at, version_in
from rocketmq_py.errors import how_to_install

if TYPE_CHECKING:
    from embedded_broker.kit.rocketmq_container import RocketMQContainer

LINES_KEPT: Final = 2_000


class ContainerBackend(RealBackend):
    """A container of an image, for as long as the tests run.

    The release is read from the image's tag. Where a tag does not name one, the broker is asked
    when it has started.
    """

    def __init__(self, image: str = DEFAULT_IMAGE) -> None:
        _, _, tag = image.rpartition("/")[2].partition(":")
        super().__init__(f"container:{image}", version_in(tag))
        self._image = image
        self._container: RocketMQContainer | None = None
        self._said: list[str] = []

    @property
    def namesrv_addr(self) -> str:
        """``host:port`` of the name server. Known after ``start``."""
        return self._running().get_namesrv_addr()

    def log_tail(self, lines: int = 40) -> list[str]:
        """Return the last lines of both servers, after ``stop`` too."""
        if self._container is None:
            return self._said[-lines:]
        return self._container.log_tail(lines)

    def _running(self) -> "RocketMQContainer":
        if self._container is None:
            raise BackendError(f"{self.name} is not started")
        return self._container

    def _start(self) -> None:
        self._container = _started(self._image)
        if self.version is None:
            self.version = version_at(self.namesrv_addr)
            self.abilities = abilities_of(self.version)

    def _stop(self) -> None:
        """Stop and remove the container. What it wrote stays readable."""
        if self._container is not None:
            with contextlib.suppress(Exception):  # a container that died has no more to say
                self._said = self._container.log_tail(LINES_KEPT)
            container, self._container = self._container, None
            container.stop()


def _started(image: str) -> "RocketMQContainer":
    """Start a container; what the engine refuses is told in a sentence."""
    container = _container_of(image)
    from docker.errors import DockerException

    try:
        return container.start()
    except DockerException as error:
        raise BackendError(f"the engine cannot start a container of {image}: {error}") from error


def _container_of(image: str) -> "RocketMQContainer":
    try:
        from docker.errors import DockerException

        from embedded_broker.kit.rocketmq_container import RocketMQContainer
    except ImportError as error:
        raise BackendError(
            f"a container needs testcontainers ({error}): {how_to_install('containers')}"
        ) from error
    try:
        return RocketMQContainer(image)
    except DockerException as error:
        where = os.environ.get("DOCKER_HOST") or "the default address"
        raise BackendError(
            f"no container engine answers at {where} ({error}): start Docker, or Podman's service "
            "with DOCKER_HOST naming its socket"
        ) from error
