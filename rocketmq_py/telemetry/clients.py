"""Which clients can be looked at from outside: what they have in common, blocking or awaited.

Must not know OpenTelemetry or Prometheus; ``spans.py`` and ``metrics.py`` ask here what a client
is.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Protocol, TypeAlias
from weakref import WeakSet

from typing_extensions import TypeIs

from rocketmq_py.client.hooks import EndTransactionHook, SendMessageHook
from rocketmq_py.consumer.face import CachedMessages
from rocketmq_py.consumer.hooks import ConsumeMessageHook, FilterMessageHook


class AnyProducer(Protocol):
    """A `DefaultMQProducer`, a `TransactionMQProducer` or an `aio.Producer`."""

    @property
    def client_id(self) -> str:
        """Name of the client."""

    def register_send_message_hook(self, hook: SendMessageHook) -> None:
        """Show sends."""

    def register_end_transaction_hook(self, hook: EndTransactionHook) -> None:
        """Show ends of transactions."""


class AnyConsumer(Protocol):
    """A `DefaultMQPushConsumer`, a `DefaultLitePullConsumer`, or one of `rocketmq_py.aio`."""

    consumer_group: str

    @property
    def client_id(self) -> str:
        """Name of the client."""

    def register_consume_message_hook(self, hook: ConsumeMessageHook) -> None:
        """Show what reaches the program."""

    def register_filter_message_hook(self, hook: FilterMessageHook) -> None:
        """Show what fetches bring."""

    def cached(self) -> Mapping[str, CachedMessages]:
        """Say what is held of each topic."""


AnyClient: TypeAlias = AnyProducer | AnyConsumer


def is_producer(client: AnyClient) -> TypeIs[AnyProducer]:
    """Whether a client sends or receives; TypeError for what does neither."""
    if hasattr(client, "register_send_message_hook"):
        return True
    if not hasattr(client, "register_consume_message_hook"):
        raise TypeError(f"{client!r} is no producer and no consumer: it takes no hooks")
    return False


class Once:
    """Clients that were taken already, each of which may be taken once; ``what`` says what for."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = Lock()
        self._taken: WeakSet[AnyClient] = WeakSet()

    def take(self, client: AnyClient) -> None:
        """Raise TypeError for what is no client, ValueError for one that was taken before."""
        is_producer(client)
        with self._lock:
            if client in self._taken:
                raise ValueError(f"{client!r} {self._what} already: all would be told twice")
            self._taken.add(client)


def is_polled(consumer: AnyConsumer) -> bool:
    """Whether the program asks the consumer for messages, which count as handled then."""
    return hasattr(consumer, "poll")
