"""The life of clients that only make calls: no group, no heartbeat, nobody who calls back.

Answers: when such a client may call, and through which engine. Must not know what is called.
Read on: ``instance.py`` for the engine, ``queue_access.py`` and ``../admin.py`` for the clients.
"""

from typing import Self, Unpack

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.pool import acquire_instance
from rocketmq_py.config import ClientConfig, ClientSettings
from rocketmq_py.errors import NotStartedError


class Caller:
    """Calls are possible between `start` and `shutdown`, or inside ``with``."""

    def __init__(self, **settings: Unpack[ClientSettings]) -> None:
        self.config = ClientConfig.build(None, settings)
        self._running: ClientInstance | None = None

    def start(self) -> None:
        """Make calls possible; connections are opened when first needed. Idempotent."""
        if self._running is None:
            instance = acquire_instance(self.config)
            try:
                instance.start(calls_only=True)
            except BaseException:
                instance.shutdown()
                raise
            self._running = instance

    def shutdown(self) -> None:
        """Close the connections; idempotent."""
        instance, self._running = self._running, None
        if instance is not None:
            instance.shutdown()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.shutdown()

    @property
    def _instance(self) -> ClientInstance:
        if self._running is None:
            name = type(self).__name__
            raise NotStartedError(f"{name} is not started: call start(), or use with")
        return self._running
