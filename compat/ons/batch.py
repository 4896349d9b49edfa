"""The ONS consumer of batches: several messages of a topic in one call.

Names as in ``com.aliyun.openservices.ons.api.batch``. Must not know how messages are pulled.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import ClassVar, Final, Protocol, TypeAlias

from compat.ons.consumer import Action, ConsumeContext, ReceivingClient, no_consume
from compat.ons.message import Message, from_core
from compat.ons.properties import PropertyKeyConst
from compat.ons.settings import BATCH_CONSUMER, ClientKind
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    MessageExt,
    MessageListenerConcurrently,
    MessageSelector,
)
from rocketmq_py.errors import ONSClientException

_MINUTE_MS: Final = 60_000


class BatchMessageListener:
    """Handles messages of one topic: override `consume`, or pass a callable."""

    _consume: Callable[[list[Message], ConsumeContext], Action] | None = None

    def __init__(
        self, consume: Callable[[list[Message], ConsumeContext], Action] | None = None
    ) -> None:
        self._consume = consume

    def consume(self, messages: list[Message], context: ConsumeContext) -> Action:
        """Handle the messages, all or none; called on a pool thread, also several times at once."""
        if self._consume is None:
            raise no_consume(self)
        return self._consume(messages, context)


class _BatchListener(Protocol):
    def consume(self, messages: list[Message], context: ConsumeContext, /) -> Action: ...


BatchListenerLike: TypeAlias = _BatchListener | Callable[[list[Message], ConsumeContext], Action]
"""Everything that `BatchConsumer.subscribe` takes as the listener of a topic."""


class BatchConsumer(ReceivingClient):
    """Receives messages in batches; made by `ONSFactory.create_batch_consumer`.

    The property ConsumeMessageBatchMaxSize says how many a batch holds at most (1, as in Java's
    client; 1 to 1024), BatchConsumeMaxAwaitDurationInSeconds how long messages of a queue wait for
    more (0; up to 450 s, and half of consumeTimeout). A batch succeeds or fails as a whole, and has
    messages of one topic.
    """

    _KIND: ClassVar[ClientKind] = BATCH_CONSUMER
    _SUCCESS = Action.CommitMessage

    def _make(self) -> None:
        super()._make()
        wait_ms, minutes = self.core.consume_message_batch_max_wait, self.core.consume_timeout
        if 2 * wait_ms > minutes * _MINUTE_MS:
            raise ONSClientException(
                f"property {PropertyKeyConst.BatchConsumeMaxAwaitDurationInSeconds} = "
                f"{wait_ms // 1000} must not exceed half of consumeTimeout, {minutes} min"
            )

    def subscribe(
        self, topic: str, expression: str | MessageSelector | None, listener: BatchListenerLike
    ) -> None:
        """Give a topic's messages to `listener`, as `Consumer.subscribe` does."""
        self._subscribe(topic, expression, listener)

    def _core_listener(self) -> MessageListenerConcurrently:
        return MessageListenerConcurrently(self._handle)

    def _handle(
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        done = 0
        # Of a retry queue: it has messages of all topics of the group.
        for _, group in groupby(messages, lambda one: one.topic):
            batch = list(group)
            if not self._is_handled(batch, [from_core(one) for one in batch], ConsumeContext()):
                break
            done += len(batch)
        if not done:
            return ConsumeConcurrentlyStatus.RECONSUME_LATER
        context.ack_index = done - 1
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
