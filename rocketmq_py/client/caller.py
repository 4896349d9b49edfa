"""The life of clients that only make calls: no group, no heartbeat, nobody who calls back.

Answers: when such a client may call, and through which engine. Must not know what is called.
Read on: ``instance.py`` for the engine, ``queue_access.py`` and ``../admin.py`` for the clients.
"""

import threading
from datetime import timedelta
from typing import NoReturn, Self

from attrs import define, setters

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.life import Life, checked_patience
from rocketmq_py.client.pool import acquire_instance
from rocketmq_py.config import ClientConfig, explained
from rocketmq_py.errors import NotStartedError


@explained
@define(kw_only=True, eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class Caller(ClientConfig):
    """Calls are possible between `start` and `shutdown`, or inside ``with``."""

    def __attrs_post_init__(self) -> None:
        self._one_start = threading.RLock()  # `shutdown` takes no lock: a signal may call it
        self._life = Life(self._who)
        self._engine: ClientInstance | None = None

    @property
    def config(self) -> ClientConfig:
        """The settings, which are the client itself; `ClientConfig.of` makes a copy of them."""
        return self

    def start(self) -> None:
        """Make calls possible; connections are opened when first needed. Idempotent.

        It may be started again after `shutdown`. Raises `ForkedClientError` in a forked child.
        """
        with self._one_start:
            self._life.check_process()
            if self._life.state == "running":
                return
            if self._life.state in {"closed", "failed"}:
                self._life = Life(self._who)
            with self._life.starting():
                instance = acquire_instance(self, calls_only=True)
                self._engine = instance
                self._fix()
                self._life.at_end(lambda _: self._fix(fixed=False))  # it may be started again
                self._life.at_end(instance.shutdown)
                instance.start()

    def shutdown(self, timeout: float | timedelta = 3.0) -> None:
        """Close the connections, within little more than ``timeout`` seconds; idempotent."""
        self._life.end(checked_patience(timeout))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.shutdown()

    def __reduce__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"a {kind} cannot be pickled: pickle ClientConfig.of(it), start one there")

    def _who(self) -> str:
        return type(self).__name__

    @property
    def _instance(self) -> ClientInstance:
        life, engine = self._life, self._engine
        life.check_process()
        if engine is None or life.state != "running":
            raise NotStartedError(f"{self._who()} is not started: call start(), or use with")
        return engine
