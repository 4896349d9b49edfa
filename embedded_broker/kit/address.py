"""A broker that somebody else has started: ``--rocketmq=HOST:PORT``.

Answers: how tests run on it. Must not know: pytest. Whether it keeps delays of any length and
recalls is not asked: a broker that does not refuses them, and the test says so. Read on:
``embedded_broker/kit/backend.py``.
"""

from typing import Self

from embedded_broker.kit.backend import DEFAULT_QUEUES, Ability, Backend
from rocketmq_py import DefaultMQProducer
from rocketmq_py.errors import NotStartedError
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC


class AddressBackend(Backend):
    """A name server at an address. It is neither started nor stopped."""

    abilities = frozenset({Ability.CREATE_TOPICS, Ability.TIMERS, Ability.RECALL})

    def __init__(self, address: str) -> None:
        self.name = address
        self._producer: DefaultMQProducer | None = None

    @property
    def namesrv_addr(self) -> str:
        """``host:port`` of the name server."""
        return self.name

    def start(self) -> Self:
        """Find out that the name server answers; ``NameServerUnavailableError`` otherwise."""
        producer = DefaultMQProducer("rocketmq-kit", namesrv_addr=self.name)
        producer.start(check=True)
        self._producer = producer
        return self

    def stop(self) -> None:
        """End the kit's own client."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.shutdown()

    def create_topic(self, name: str, queues: int = DEFAULT_QUEUES) -> None:
        """Create a topic on the brokers that the name server knows."""
        if self._producer is None:
            raise NotStartedError(f"the connection to {self.name}: call start()")
        self._producer.create_topic(AUTO_CREATE_TOPIC, name, queues)
