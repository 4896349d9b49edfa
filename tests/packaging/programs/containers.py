"""With the extra `containers`: the class is there, and without an engine that is what is said."""

from testcontainers.core.container import DockerContainer

from embedded_broker.containers import RocketMQContainer
from embedded_broker.kit.backend import BackendError
from embedded_broker.kit.container import ContainerBackend

assert issubclass(RocketMQContainer, DockerContainer)
try:
    ContainerBackend().start()
except BackendError as error:
    print(error)
