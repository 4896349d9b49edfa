"""The life of clients that only make calls: no group, no heartbeat, nobody who calls back.

Answers: through which engine such a client may call. Must not know what is called. Read on:
``life.py`` for when it may, ``instance.py`` for the engine, ``queue_access.py`` and ``../admin``
for the clients.
"""

from typing import NoReturn

from attrs import define, setters

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.life import Client, Life
from rocketmq_py.client.pool import acquire_instance
from rocketmq_py.config import ClientConfig, explained


@explained
@define(kw_only=True, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class Caller(ClientConfig, Client):
    """Calls are possible between `start` and `shutdown`, or inside ``with``."""

    def __attrs_post_init__(self) -> None:
        self._life = Life(self._who)
        self._engine: ClientInstance | None = None

    @property
    def config(self) -> ClientConfig:
        """The settings, which are the client itself; `ClientConfig.of` makes a copy of them."""
        return self

    def start(self) -> None:
        """Make calls possible; connections are opened when first needed.

        Raises `MQClientException` for a second start, `ClientClosedError` after `shutdown`,
        `ForkedClientError` in a forked child.
        """
        with self._life.starting():
            self._engine = instance = acquire_instance(self, calls_only=True)
            self._fix()
            self._life.at_end(instance.shutdown)
            instance.start()

    def __reduce__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"a {kind} cannot be pickled: pickle ClientConfig.of(it), start one there")

    def _who(self) -> str:
        return type(self).__name__

    @property
    def _instance(self) -> ClientInstance:
        self._life.check_running()
        engine = self._engine
        if engine is None:
            raise self._life.refusal()
        return engine
