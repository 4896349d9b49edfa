"""The ONS consumer: one group, one listener per topic.

A thin translator over `rocketmq_py.DefaultMQPushConsumer`. Must not know how messages are pulled.
Names as in ``com.aliyun.openservices.ons.api.Consumer``. Batches and messages in order have
consumers of their own, in `batch` and `order`.
"""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, ClassVar, Protocol, TypeAlias

from compat.ons.client import Client, misfit, translated
from compat.ons.message import Message, from_core
from compat.ons.settings import CONSUMER, ClientKind, settings_of
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQPushConsumer,
    MessageExt,
    MessageListenerConcurrently,
    MessageListenerOrderly,
    MessageSelector,
)
from rocketmq_py.errors import ONSClientException, RocketMQError

logger = logging.getLogger(__name__)

_NO_ACTION = frozenset({None, type(None), "None", bool, "bool"})
"""What a listener may be annotated to return that is surely no `Action`."""


class Action(Enum):
    """What a listener says about a message; an exception counts as ReconsumeLater.

    So does everything that is no Action, True and None included; the log says so, once for each
    kind.
    """

    CommitMessage = 0
    ReconsumeLater = 1
    COMMIT_MESSAGE = CommitMessage
    RECONSUME_LATER = ReconsumeLater


class ConsumeContext:
    """What a listener gets with the message. It is empty, as in ONS."""

    __slots__ = ()


class MessageListener:
    """Handles the messages of one topic: override `consume`, or pass a callable."""

    _consume: Callable[[Message, ConsumeContext], Action] | None = None

    def __init__(self, consume: Callable[[Message, ConsumeContext], Action] | None = None) -> None:
        self._consume = consume

    def consume(self, message: Message, context: ConsumeContext) -> Action:
        """Handle one message; called on a pool thread, also for several messages at once."""
        if self._consume is None:
            raise no_consume(self)
        return self._consume(message, context)


class _Listener(Protocol):
    def consume(self, message: Message, context: ConsumeContext, /) -> Action: ...


ListenerLike: TypeAlias = _Listener | Callable[[Message, ConsumeContext], Action]
"""Everything that `Consumer.subscribe` takes as the listener of a topic."""


class ReceivingClient(Client):
    """Base of the consumers whose listeners are called: one for each topic.

    While it is started the process stays alive, as a Java program does: call `shutdown` to let it
    end.
    """

    _SUCCESS: ClassVar[Enum]
    """The answer of a listener that has handled its messages."""

    def _make(self) -> None:
        self._listeners: dict[str, Callable[..., object]] = {}
        self._told: set[str] = set()
        self._consumer = DefaultMQPushConsumer(
            **settings_of(self._KIND, self.properties, self._access)
        )
        self._consumer.register_message_listener(self._core_listener())

    @abstractmethod
    def _core_listener(self) -> MessageListenerConcurrently | MessageListenerOrderly:
        """Make the one listener of the SDK's consumer."""

    @property
    def core(self) -> DefaultMQPushConsumer:
        """The client of the SDK."""
        return self._consumer

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic."""
        if topic:
            with translated(f"unsubscribe {topic}"):
                self._consumer.unsubscribe(topic)
            self._listeners.pop(topic, None)

    def _subscribe(
        self, topic: str, expression: str | MessageSelector | None, listener: object
    ) -> None:
        """Give a topic's messages to a listener."""
        if not topic:
            raise ONSClientException("subscribe needs a topic")
        function = _function_of(listener, self._SUCCESS)
        before = self._listeners.get(topic)
        self._listeners[topic] = function  # messages may come before the next line has ended
        try:
            with translated(f"subscribe {topic}"):
                self._consumer.subscribe(topic, expression)
        except BaseException:
            self._listeners.pop(topic)
            if before is not None:
                self._listeners[topic] = before
            raise

    def _started(self) -> None:
        """Keep the program alive.

        A ported main() ends after start(), and its author expects the program to go on receiving.
        """
        try:
            self._consumer.keep_alive()
        except RocketMQError:
            self._consumer.shutdown()
            raise

    def _is_handled(self, messages: Sequence[MessageExt], given: object, context: object) -> bool:
        """Let the listener of the messages' topic have ``given``; whether it says success."""
        topic = messages[0].topic
        listener = self._listeners.get(topic)
        if listener is None:
            # Unsubscribed a moment ago, or subscribed by another member of the group only.
            logger.warning("no listener for topic %s, message comes again later", topic)
            return False
        # A listener of a foreign program may return anything, whatever its annotation says.
        answer = listener(given, context)
        if not isinstance(answer, type(self._SUCCESS)):
            self._tell_once(answer, messages[0])
        return answer is self._SUCCESS

    def _tell_once(self, answer: object, core: MessageExt) -> None:
        kind = type(answer).__name__
        level = logging.DEBUG if kind in self._told else logging.WARNING
        self._told.add(kind)
        logger.log(
            level,
            "the listener of topic %s returned %s instead of an %s, so message %s comes again "
            "later (attempt %d): return %s",
            core.topic,
            "None" if answer is None else f"{answer!r:.40}, a {kind},",
            type(self._SUCCESS).__name__,
            core.msg_id,
            core.reconsume_times + 1,
            self._SUCCESS,
        )


class Consumer(ReceivingClient):
    """Receives messages one by one, in any order; made by `ONSFactory.create_consumer`.

    While it is started the process stays alive, as a Java program does: call `shutdown` to let it
    end. With MessageModel = BROADCASTING every member of the group gets every message, once.
    """

    _KIND: ClassVar[ClientKind] = CONSUMER
    _SUCCESS = Action.CommitMessage

    def subscribe(
        self, topic: str, expression: str | MessageSelector | None, listener: ListenerLike
    ) -> None:
        """Give a topic's messages to `listener`. This works after the start, too.

        `expression` names tags separated by ``||``, or is ``*``, or is a `MessageSelector`. Raises
        ONSClientException for a missing topic or listener, and for one that takes other arguments.
        """
        self._subscribe(topic, expression, listener)

    def rate_limit(self, topic: str, permits_per_second: float) -> None:
        """Let the listener of a topic have at most so many messages in a second, evenly spread."""
        with translated(f"limit the rate of {topic}"):
            self._consumer.rate_limit(topic, permits_per_second)

    def rateLimit(self, topic: str, permitsPerSecond: float) -> None:
        """Java's spelling of `rate_limit`."""
        self.rate_limit(topic, permitsPerSecond)

    def _core_listener(self) -> MessageListenerConcurrently:
        return MessageListenerConcurrently(self._handle)

    def _handle(
        self, messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        (core,) = messages  # batches hold one message each
        if self._is_handled(messages, from_core(core), ConsumeContext()):
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
        return ConsumeConcurrentlyStatus.RECONSUME_LATER


def no_consume(listener: object) -> ONSClientException:
    """Build the error of a listener that nobody has told what to do."""
    name = type(listener).__name__
    return ONSClientException(f"{name} has no consume: override it, or pass a callable")


def _function_of(listener: object, success: Enum) -> Callable[..., object]:
    """Find what handles a message; ONSClientException for what cannot, or can never succeed."""
    given: Any = listener  # Any: what a program may pass
    if not isinstance(given, type) and callable(getattr(given, "consume", None)):
        given = given.consume
    if not callable(given) or isinstance(given, type):
        raise ONSClientException("subscribe needs a listener: an object with consume")
    found: Callable[..., object] = given
    wrong = misfit(found, "listener", "message", "context")
    if wrong is not None:
        raise ONSClientException(wrong)
    try:
        returns = inspect.signature(found).return_annotation
    except (TypeError, ValueError):
        returns = None  # a builtin without a signature: nothing to check
    else:
        if returns in _NO_ACTION:
            name = getattr(returns, "__name__", returns)
            raise ONSClientException(
                f"the listener returns {name}, so every message would come again until it is a "
                f"dead letter: return {success}"
            )
    return found
