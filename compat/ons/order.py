"""Messages in order: the producer that sends by key, the consumer that gets them one by one.

Names as in ``com.aliyun.openservices.ons.api.order``. Must not know how order is kept: the SDK's
orderly consumption does that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import ClassVar, Final, Protocol, TypeAlias

import rocketmq_py
from compat.ons.consumer import ReceivingClient, no_consume
from compat.ons.message import Message, check_message, from_core
from compat.ons.producer import SendingClient, refuse_delay, sending
from compat.ons.sending import SendResult
from compat.ons.settings import ORDER_CONSUMER, ORDER_PRODUCER, ClientKind
from rocketmq_py import (
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    MessageExt,
    MessageListenerOrderly,
    MessageQueue,
    MessageSelector,
)
from rocketmq_py.errors import ONSClientException
from rocketmq_py.raw import java_hash


class OrderAction(Enum):
    """What a listener says about a message in order; an exception counts as Suspend.

    So does everything that is no OrderAction, and the log says so, once for each kind.
    """

    Success = 0
    Suspend = 1
    """The message comes again in its place, after the property suspendTimeMillis."""
    SUCCESS = Success
    SUSPEND = Suspend


class ConsumeOrderContext:
    """What a listener gets with a message in order. It is empty, as in ONS."""

    __slots__ = ()


class MessageOrderListener:
    """Handles the messages of one topic in order: override `consume`, or pass a callable."""

    _consume: Callable[[Message, ConsumeOrderContext], OrderAction] | None = None

    def __init__(
        self, consume: Callable[[Message, ConsumeOrderContext], OrderAction] | None = None
    ) -> None:
        self._consume = consume

    def consume(self, message: Message, context: ConsumeOrderContext) -> OrderAction:
        """Handle one message; messages of another queue may be handled at the same time."""
        if self._consume is None:
            raise no_consume(self)
        return self._consume(message, context)


class _OrderListener(Protocol):
    def consume(self, message: Message, context: ConsumeOrderContext, /) -> OrderAction: ...


OrderListenerLike: TypeAlias = (
    _OrderListener | Callable[[Message, ConsumeOrderContext], OrderAction]
)
"""Everything that `OrderConsumer.subscribe` takes as the listener of a topic."""


class OrderProducer(SendingClient):
    """Sends messages of one key to one queue; made by `ONSFactory.create_order_producer`.

    The queue is chosen as Java's client does, so both agree. A send is not tried again: another
    attempt could overtake. Every failure is an `ONSClientException` whose ``__cause__`` is the
    SDK's error.
    """

    _KIND: ClassVar[ClientKind] = ORDER_PRODUCER

    def send(self, message: Message, sharding_key: str, *, allow_delay: bool = False) -> SendResult:
        """Send to the queue of the key, and wait for the broker.

        The key becomes ``message.sharding_key``. Raises ONSClientException for a blank one, and
        `DelayConflictError`, a ValueError, for a delayed message unless ``allow_delay``: it would
        arrive when it is due, and not in order.
        """
        check_message(message)
        if not isinstance(sharding_key, str) or not sharding_key.strip():
            raise ONSClientException(
                f"sharding_key = {sharding_key!r} is blank, or no str: messages with the same key "
                "are in order"
            )
        self.check_running()
        message.sharding_key = sharding_key
        with sending(message) as core:
            refuse_delay(core, allow_delay=allow_delay, what="a message in order")
            result = self._producer.send(core, selector=_queue_of_key, arg=sharding_key)
        return SendResult(message.topic, result.msg_id)


class OrderConsumer(ReceivingClient):
    """Receives messages of each key in order; made by `ONSFactory.create_ordered_consumer`.

    A message that is not handled comes again in its place, and none behind it in its queue before:
    for ever, unless the property maxReconsumeTimes sets a limit.
    """

    _KIND: ClassVar[ClientKind] = ORDER_CONSUMER
    _SUCCESS = OrderAction.Success

    def subscribe(
        self, topic: str, expression: str | MessageSelector | None, listener: OrderListenerLike
    ) -> None:
        """Give a topic's messages to `listener`, as `Consumer.subscribe` does."""
        self._subscribe(topic, expression, listener)

    def _core_listener(self) -> MessageListenerOrderly:
        return MessageListenerOrderly(self._handle)

    def _handle(
        self, messages: list[MessageExt], _context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus:
        (core,) = messages  # batches hold one message each
        if self._is_handled(messages, from_core(core), ConsumeOrderContext()):
            return ConsumeOrderlyStatus.SUCCESS
        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


def _queue_of_key(
    queues: Sequence[MessageQueue], _message: rocketmq_py.Message, key: object
) -> MessageQueue:
    """Choose as ``OrderProducerImpl``: Java's absolute value of the least int is negative."""
    distance = abs(java_hash(str(key)))
    return queues[0 if distance > _INT_MAX else distance % len(queues)]


_INT_MAX: Final = 2**31 - 1
