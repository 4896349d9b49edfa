"""How a producer starts and ends, whatever its API shape is.

`ProducerLife` is what ``producer.py`` (blocking calls) and ``aio/engine.py`` (awaited ones) have in
common: it gets a client instance for the settings, builds the engine, and takes both down again.
Must not know the calls that an application makes; the tests of these two prove it.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from rocketmq_py.client.hooks import (
    CheckForbiddenHook,
    EndTransactionHook,
    RPCHook,
    SendMessageHook,
)
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.life import PATIENCE_S, Client, Life
from rocketmq_py.client.pool import acquire_instance
from rocketmq_py.producer.config import ProducerConfig
from rocketmq_py.producer.engine import ProducerEngine
from rocketmq_py.producer.send_kernel import SendKernel
from rocketmq_py.producer.validation import check_group

if TYPE_CHECKING:
    from rocketmq_py.producer.tracing import ProducerTracing

START_S = 2.0
"""How long a start waits for servers; what does not answer by then is asked when it is needed."""


class ProducerLife(Client):
    """The life of one producer. What uses it says which settings, topics and hooks it has."""

    _topics: tuple[str, ...]
    _rpc_hooks: tuple[RPCHook, ...]

    producer_group: str

    def _prepare(self) -> None:
        """Get ready to be started; to be called by who makes one."""
        self._send_hooks: list[SendMessageHook] = []
        self._forbidden_hooks: list[CheckForbiddenHook] = []
        self._end_hooks: list[EndTransactionHook] = []
        self._life = Life(self.__repr__)
        self._engine: ProducerEngine | None = None

    def register_send_message_hook(self, hook: SendMessageHook) -> None:
        """Show every attempt to ``hook``."""
        self._send_hooks.append(hook)

    def register_check_forbidden_hook(self, hook: CheckForbiddenHook) -> None:
        """Let ``hook`` forbid sends."""
        self._forbidden_hooks.append(hook)

    def register_end_transaction_hook(self, hook: EndTransactionHook) -> None:
        """Show the outcome of every transaction to ``hook`` before the broker is told."""
        self._end_hooks.append(hook)

    @property
    @abstractmethod
    def config(self) -> ProducerConfig:
        """The settings."""

    @abstractmethod
    def _fix(self) -> None:
        """Refuse from now on to assign settings that the start has read."""

    def start(self, *, check: bool = False) -> None:
        """Get ready to send; no server needs to be reachable unless ``check``.

        ``check=True`` asks a name server and raises `NameServerUnavailableError` when none
        answers. Raises `MQClientException` for a wrong group, a second start, and a group that
        has a producer in this client instance already.
        """
        self._life.check_process()
        check_group(self.producer_group)
        with self._life.starting():
            self._start(check=check)

    def _start(self, *, check: bool) -> None:
        config, group = self.config, self.producer_group
        instance = acquire_instance(config, self._rpc_hooks)
        try:
            tracing = self._traced(instance)
            instance.register_producer(group, self)
        except BaseException:
            instance.shutdown()
            raise
        self._fix()
        life = self._life
        life.at_end(instance.shutdown)
        life.at_end(partial(self._leave, instance, group))
        instance.start()
        if check:
            instance.routes.check_name_servers(START_S * 1000)
        own_hooks: tuple[SendMessageHook, ...] = ()
        if tracing is not None:
            own_hooks = (tracing,)
            life.at_end(tracing.close)  # after the drain: what that ends is noted
        kernel = SendKernel(
            group, config, instance, self._send_hooks, self._forbidden_hooks, own_hooks
        )
        self._engine = engine = ProducerEngine(kernel, tracing)
        life.at_end(partial(self._drain, engine))
        engine.warm_up(self._topics)

    def _traced(self, instance: ClientInstance) -> ProducerTracing | None:
        """Give what notes the trace, if the settings say so."""
        if not self.config.enable_trace:
            return None
        from rocketmq_py.producer.tracing import ProducerTracing  # most producers have none

        return ProducerTracing(self.config, instance, self.producer_group)

    @staticmethod
    def _leave(instance: ClientInstance, group: str, _timeout: float) -> None:
        instance.unregister_producer(group)

    def _drain(self, engine: ProducerEngine, timeout: float) -> None:
        self._engine = None
        engine.close(timeout)

    def shutdown(self, timeout: float | timedelta = PATIENCE_S) -> None:
        """Stop sending: sends in flight get up to ``timeout`` seconds, then `ClientClosedError`.

        Returns within little more than ``timeout`` in any case; what is not done by then goes on
        in background. May be called again, by any thread and by a handler of a signal: a second
        call waits for the first one's work. A `start` that is under way raises
        `ClientClosedError`.
        """
        super().shutdown(timeout)

    @property
    def client_id(self) -> str:
        """Name of this client at brokers; `NotStartedError` before the start."""
        return self._running().instance.client_id

    def _use_name_servers(self, addresses: str) -> None:
        if self._engine is not None:
            self._engine.instance.routes.set_name_servers(addresses)

    def _running(self) -> ProducerEngine:
        if self._life.pid != os.getpid():
            self._life.check_process()
        engine = self._engine
        if engine is not None:
            return engine
        raise self._life.refusal()
