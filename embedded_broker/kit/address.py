"""Backend ``HOST:PORT`` of ``--rocketmq``: a broker that somebody else has started.

Answers: how tests run on it. Must not know: pytest. Whether it keeps delays of any length and
recalls is not asked: a broker that does not refuses them, and the test says so. Read on:
``embedded_broker/kit/real.py``.
"""

from typing import Final

from embedded_broker.kit.backend import Ability, BackendError
from embedded_broker.kit.real import RealBackend, wait_until_registered
from rocketmq_py import DefaultMQProducer
from rocketmq_py.errors import RocketMQError

REGISTERED_SECONDS: Final = 5.0
"""How long its broker may take to show up: it was started before the tests."""


class AddressBackend(RealBackend):
    """A name server at an address. It is neither started nor stopped, and its topics stay."""

    def __init__(self, address: str) -> None:
        super().__init__(address, None)
        self.abilities |= {Ability.TIMERS, Ability.RECALL}

    @property
    def namesrv_addr(self) -> str:
        """``host:port`` of the name server."""
        return self.name

    def _start(self) -> None:
        """Find out that a name server answers there, and knows a broker."""
        try:
            producer = DefaultMQProducer("rocketmq-kit", namesrv_addr=self.name)
            try:
                producer.start(check=True)
            finally:
                producer.shutdown()
            wait_until_registered(self.name, timeout=REGISTERED_SECONDS)
        except RocketMQError as error:
            raise BackendError(f"no broker can be reached there: {error}") from error

    def _stop(self) -> None:
        """Leave it running."""
