"""Which calls an application can hook into, and what it is shown.

`RPCHook` sees every remote call; `SendMessageHook` and `CheckForbiddenHook` see every attempt of a
send, `EndTransactionHook` every end of a transaction. What is called before a request is part of
that call and runs on its thread; what is called after an asynchronous one runs on the callback
threads. Must not know transports. Called by ``remoting.py``, ``producer/send_kernel.py`` and
``producer/transaction.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from attrs import define, field

if TYPE_CHECKING:
    from rocketmq_py.message import Message
    from rocketmq_py.protocol.command import RemotingCommand
    from rocketmq_py.send_result import LocalTransactionState, MessageQueue, SendResult


class RPCHook(Protocol):
    """Sees every request and every answer, in the order the hooks were given."""

    def before_request(self, address: str, request: RemotingCommand) -> None:
        """Look at or change a request before it is signed and sent; an exception aborts it."""

    def after_response(
        self, address: str, request: RemotingCommand, response: RemotingCommand
    ) -> None:
        """Look at an answer; an exception is logged and changes nothing."""


def as_hooks(hooks: Iterable[RPCHook]) -> tuple[RPCHook, ...]:
    """Keep the hooks of a client in their order."""
    return tuple(hooks)


@define(kw_only=True, eq=False)
class CheckForbiddenContext:
    """One attempt of a send, as `CheckForbiddenHook` sees it.

    ``mode`` is ``SYNC``, ``ASYNC`` or ``ONEWAY``.
    """

    producer_group: str
    message: Message
    queue: MessageQueue
    broker_address: str
    mode: str


@define(kw_only=True, eq=False)
class SendMessageContext(CheckForbiddenContext):
    """One attempt of a send, as `SendMessageHook` sees it.

    ``result`` and ``exception`` are set for ``after``; ``properties`` travels from ``before`` to
    ``after``. What ``before`` writes into ``extra_properties`` is stored with the message, of a
    batch with each of its messages, beside its own properties, which count where both have a name.
    The message in the hands of the program stays as it is.
    """

    result: SendResult | None = None
    exception: Exception | None = None
    properties: dict[str, str] | None = None
    extra_properties: dict[str, str] = field(factory=dict)


class SendMessageHook(Protocol):
    """Called around each attempt; its exceptions are logged and change nothing."""

    def before(self, context: SendMessageContext) -> None:
        """Look at an attempt before it leaves, among the context variables of who sends."""

    def after(self, context: SendMessageContext) -> None:
        """Look at the outcome: ``context.result`` or ``context.exception``. Called once."""


class CheckForbiddenHook(Protocol):
    """May forbid an attempt."""

    def check(self, context: CheckForbiddenContext) -> None:
        """Raise `MQClientException` to forbid the send; it is raised to the caller."""


@define(kw_only=True, eq=False)
class EndTransactionContext:
    """One end of a transaction, as `EndTransactionHook` sees it.

    ``from_check`` says whether a broker asked; ``message_id`` is the UNIQ_KEY. ``transaction_id``
    is the broker's, which brokers of 4.9 do not give.
    """

    producer_group: str
    message: Message
    message_id: str
    broker_address: str
    state: LocalTransactionState
    from_check: bool
    transaction_id: str | None


class EndTransactionHook(Protocol):
    """Called before each request 37; its exceptions are logged and change nothing."""

    def end(self, context: EndTransactionContext) -> None:
        """Look at the outcome of a transaction."""
