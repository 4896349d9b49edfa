"""The push consumer of the 5.0 API: messages come to a listener, side by side or by their groups.

A thin translator over `rocketmq_py.DefaultMQPushConsumer`, which pops all queues as a proxy does
for its clients. Must not know pops.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import Enum
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Final, Self

from compat.v5.client import ClientConfiguration, settings_of
from compat.v5.consumer import Consumer, ConsumerBuilder, FilterExpression
from compat.v5.errors import IllegalArgumentException, translated
from compat.v5.message import MessageView
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    DefaultMQPushConsumer,
    MessageListenerOrderly,
    PushConsumerConfig,
)
from rocketmq_py.admin import AdminClient
from rocketmq_py.errors import ClientException, NotFoundError

if TYPE_CHECKING:
    from rocketmq_py import MessageExt

CACHED_MAX: Final = 1_024
CACHED_BYTES_MAX: Final = 64 * 1024 * 1024
THREADS: Final = 20
ATTEMPTS_AFTER_FIRST: Final = 16
LISTENER_TIME: Final = timedelta(hours=3)
"""So long a message is kept hidden for its listener at most; as a proxy does it."""


class ConsumeResult(Enum):
    """What a listener says about a message."""

    SUCCESS = 0
    FAILURE = 1


class MessageListener(ABC):
    """Handles the messages of a push consumer, on its threads, several at a time."""

    @abstractmethod
    def consume(self, message: MessageView) -> ConsumeResult:
        """Handle a message. After FAILURE, None or an exception it comes again later."""


class PushConsumer(Consumer):
    """Gives the messages of a group to a listener as they come.

    ``subscription`` maps topics to filters. Of each broker at most ``max_cache_message_count``
    messages, and bytes of their bodies, are here and not handled; they are kept hidden from the
    group meanwhile. ``consumption_thread_count`` is how many are handled at a time. A message that
    failed comes again after 10 s, 30 s and so on up to two hours, and after 17 attempts it is a
    dead letter.

    In order, the messages of a queue, and so those of a message group, are handled one after the
    other, and one that failed comes again in its place after a second. The start asks the brokers
    whether the group is so set, as the official client does; ``fifo``, of this class only, says it
    instead, and nobody is asked.
    """

    def __init__(
        self,
        client_configuration: ClientConfiguration,
        consumer_group: str,
        message_listener: MessageListener,
        subscription: Mapping[str, FilterExpression | None],
        max_cache_message_count: int = CACHED_MAX,
        max_cache_message_size: int = CACHED_BYTES_MAX,
        consumption_thread_count: int = THREADS,
        tls_enable: bool = False,
        *,
        fifo: bool | None = None,
    ) -> None:
        if not callable(getattr(message_listener, "consume", None)):
            raise IllegalArgumentException(
                f"message_listener {message_listener!r} has no method consume"
            )
        if iscoroutinefunction(message_listener.consume):
            raise IllegalArgumentException(
                f"consume of {message_listener!r} is a coroutine function, and nobody awaits it: "
                "use rocketmq_py.aio"
            )
        if not subscription:
            raise IllegalArgumentException("subscription must name a topic")
        self._message_listener = message_listener
        with translated():
            config = PushConsumerConfig(
                **settings_of(client_configuration, tls_enable=tls_enable),
                pop_all_queues=True,
                pop_threshold_for_queue=max_cache_message_count,
                pop_threshold_bytes_for_queue=max_cache_message_size,
                consume_thread_min=consumption_thread_count,
                consume_thread_max=consumption_thread_count,
                max_reconsume_times=ATTEMPTS_AFTER_FIRST,
                consume_timeout=LISTENER_TIME,
            )
            self._push = DefaultMQPushConsumer.of(config, consumer_group)
        self._fifo = fifo
        super().__init__(client_configuration, consumer_group, self._push, subscription)

    def startup(self) -> None:
        """Get ready, and begin to receive.

        Unless ``fifo`` was said a broker must answer: else it raises ConnectionException, or what
        the broker's refusal is.
        """
        if not self.is_running:
            if self._fifo is None:
                self._fifo = self._is_ordered()
            listen = MessageListenerOrderly(self._in_order) if self._fifo else self._side_by_side
            with translated():
                self._push.register_message_listener(listen)
        super().startup()

    def _is_ordered(self) -> bool:
        """Ask the brokers whether the group is in order; one that is new is not."""
        try:
            with translated(), AdminClient(**settings_of(self.client_configuration)) as admin:
                return any(
                    one.ordered for one in admin.group_settings(self.consumer_group).values()
                )
        except NotFoundError:
            return False
        except ClientException as error:
            error.add_note(
                "brokers were asked whether the group is in order: fifo= says it instead"
            )
            raise

    @property
    def message_listener(self) -> MessageListener:
        """Who handles messages."""
        return self._message_listener

    def _side_by_side(
        self, messages: Sequence[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        if self._handled(messages):
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    def _in_order(
        self, messages: Sequence[MessageExt], _context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus:
        if self._handled(messages):
            return ConsumeOrderlyStatus.SUCCESS
        return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

    def _handled(self, messages: Sequence[MessageExt]) -> bool:
        """Let the listener have the only message; what it raises is for the SDK to log."""
        (message,) = messages
        said: object = self._message_listener.consume(MessageView(message))
        if not isinstance(said, ConsumeResult):
            raise TypeError(
                f"{type(self._message_listener).__name__}.consume returned {said!r}, which counts "
                "as FAILURE: return a ConsumeResult"
            )
        return said is ConsumeResult.SUCCESS


class PushConsumerBuilder(ConsumerBuilder):
    """Builds a `PushConsumer` with the setters of the 5.0 documents; `build` starts it."""

    def __init__(self) -> None:
        super().__init__()
        self._listener: MessageListener | None = None
        self._count = CACHED_MAX
        self._size = CACHED_BYTES_MAX
        self._threads = THREADS
        self._fifo: bool | None = None

    def set_message_listener(self, message_listener: MessageListener) -> Self:
        """Set who handles messages."""
        self._listener = message_listener
        return self

    def set_max_cache_message_count(self, max_cache_message_count: int) -> Self:
        """Set how many messages of each broker may be here."""
        self._count = max_cache_message_count
        return self

    def set_max_cache_message_size_in_bytes(self, max_cache_message_size_in_bytes: int) -> Self:
        """Set how many bytes of each broker may be here."""
        self._size = max_cache_message_size_in_bytes
        return self

    def set_consumption_thread_count(self, consumption_thread_count: int) -> Self:
        """Set how many messages are handled at a time."""
        self._threads = consumption_thread_count
        return self

    def set_fifo(self, fifo: bool) -> Self:
        """Set whether the messages of a queue are handled one after the other; see the class."""
        self._fifo = fifo
        return self

    def build(self) -> PushConsumer:
        """Start the consumer."""
        configuration = self._checked_configuration()
        if self._listener is None:
            raise IllegalArgumentException("set_message_listener was not called")
        consumer = PushConsumer(
            configuration,
            self._group,
            self._listener,
            self._subscription,
            self._count,
            self._size,
            self._threads,
            fifo=self._fifo,
        )
        consumer.startup()
        return consumer
