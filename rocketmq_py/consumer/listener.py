"""What does a program hand to a push consumer, and what may it answer.

The listener shapes (a callable, or an object with `consume_message` or `consumeMessage`), the
result enum, the context, and the enums of a subscription. This module must not know how a
listener is called; that is `concurrent`.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol, Self

from attrs import define, frozen

from rocketmq_py.errors import UnsupportedOperationError
from rocketmq_py.message import MessageExt
from rocketmq_py.send_result import MessageQueue

ACK_ALL = 2**31 - 1
"""Default of `ConsumeConcurrentlyContext.ack_index`: every message of the batch succeeded."""


class ConsumeConcurrentlyStatus(Enum):
    """What a listener says about the messages that it got."""

    CONSUME_SUCCESS = 0
    """Done; they will not come again."""

    RECONSUME_LATER = 1
    """Not done; each comes again after the retry delay of its attempt."""


class MessageModel(Enum):
    """How the members of a group share messages."""

    CLUSTERING = "CLUSTERING"
    """Each message goes to one member."""

    BROADCASTING = "BROADCASTING"
    """Each message goes to every member. The push consumer refuses it (GAPS.md)."""


class ConsumeFromWhere(Enum):
    """Where a group without a stored offset begins; a stored offset always wins."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@frozen
class MessageSelector:
    """Which messages of a topic a consumer wants; made by `by_tag` or `by_sql`.

    >>> MessageSelector.by_tag("TagA || TagB").expression
    'TagA || TagB'
    >>> MessageSelector.by_sql("amount > 5 AND region IN ('north', 'south')").expression_type
    'SQL92'
    """

    expression: str
    expression_type: str = "TAG"

    @classmethod
    def by_tag(cls, tags: str) -> Self:
        """Messages with one of the tags, separated by ``||``; ``*`` or nothing means all."""
        return cls(tags)

    @classmethod
    def byTag(cls, tags: str) -> Self:  # noqa: N802 - Java spelling of `by_tag`
        """Java spelling of `by_tag`."""
        return cls.by_tag(tags)

    @classmethod
    def by_sql(cls, condition: str) -> Self:
        """Messages whose properties fulfil a SQL92 condition, which the broker checks.

        There are ``= <> < <= > >=``, ``BETWEEN``, ``IN``, ``IS NULL``, ``CONTAINS``,
        ``STARTSWITH``, ``ENDSWITH`` (each with ``NOT``), ``AND``, ``OR`` and parentheses; texts
        stand in single quotes. A property that is missing, or is no number where it is compared
        with one, makes no message match. RocketMQ's own brokers need ``enablePropertyFilter=true``.
        """
        if not isinstance(condition, str):
            raise TypeError(f"a condition is a str, not {type(condition).__name__}")
        return cls(condition, "SQL92")

    @classmethod
    def bySql(cls, condition: str) -> Self:  # noqa: N802 - Java spelling of `by_sql`
        """Java spelling of `by_sql`."""
        return cls.by_sql(condition)


@define(slots=True)
class ConsumeConcurrentlyContext:
    """What a listener may look at and set while it handles one batch.

    `delay_level_when_next_consume` says when messages that failed come again: 0 after a delay that
    grows with each attempt (10 s, 30 s, 1 min ...), 1 and more after that delay level, -1 never:
    they go to the dead letters. `ack_index` is the
    index of the last message that succeeded, for a batch of which only the beginning did.
    """

    message_queue: MessageQueue
    delay_level_when_next_consume: int = 0
    ack_index: int = ACK_ALL


ConsumeFunction = Callable[
    [list[MessageExt], ConsumeConcurrentlyContext], ConsumeConcurrentlyStatus
]
"""A listener as a plain callable. One that returns nothing would get every message again."""

_NO_STATUS = (None, type(None), bool, int, str)
"""What a listener may be annotated to return that is surely no status."""


class MessageListenerConcurrently:
    """Base class or wrapper of a listener whose calls run side by side, in any order.

    Override `consume_message`, or wrap a callable: ``MessageListenerConcurrently(function)``.
    Delivery is at least once: a listener must be able to handle a message twice.
    """

    def __init__(self, consume: ConsumeFunction | None = None) -> None:
        self._consume = consume

    @property
    def wrapped(self) -> ConsumeFunction | None:
        """The callable that was passed; None when there is none."""
        return self._consume

    def consume_message(
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        """Handle the messages. After an exception, or no status, they come again later."""
        if self._consume is None:
            raise UnsupportedOperationError(
                f"{type(self).__name__} has no consume_message: override it, or pass a callable"
            )
        return self._consume(messages, context)


class _SnakeListener(Protocol):
    def consume_message(
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext, /
    ) -> ConsumeConcurrentlyStatus: ...


class _JavaListener(Protocol):
    def consumeMessage(  # noqa: N802 - the spelling that ported listeners bring along
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext, /
    ) -> ConsumeConcurrentlyStatus: ...


Listener = ConsumeFunction | _SnakeListener | _JavaListener
"""Everything that `DefaultMQPushConsumer.register_message_listener` takes."""


def consume_function(listener: Listener) -> ConsumeFunction:
    """Turn any accepted listener shape into one callable.

    Raises TypeError, naming the fix, for a class instead of an object, for something that cannot
    be called, for a coroutine function, for a callable that does not take two arguments, and for
    one that is annotated to return None or another thing that is no status: found here, not at
    the first message.
    """
    if isinstance(listener, type):
        raise TypeError(f"{listener.__name__} is a class: pass an object of it as the listener")
    function = _bound(listener)
    # Imported here: attrs has loaded it anyway when a program registers a listener.
    import inspect

    if inspect.iscoroutinefunction(function):
        raise TypeError("a listener is called by threads: it cannot be a coroutine function")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return function  # a builtin without a signature: nothing to check
    try:
        signature.bind(None, None)
    except TypeError:
        raise TypeError(
            f"the listener takes {signature}: it is called with (messages, context)"
        ) from None
    returns = signature.return_annotation
    for kind in _NO_STATUS:
        name = "None" if kind is None else kind.__name__
        if returns is kind or returns == name:
            raise TypeError(
                f"the listener returns {name}, so every message would come again until it is a "
                "dead letter: return ConsumeConcurrentlyStatus.CONSUME_SUCCESS"
            )
    return function


def _bound(listener: Listener) -> ConsumeFunction:
    base = MessageListenerConcurrently
    for name in ("consume_message", "consumeMessage"):
        # A name from a foreign program: what it is, is checked by the caller.
        function = getattr(listener, name, None)
        if isinstance(listener, base) and _is_method(function, base.consume_message):
            function = listener.wrapped  # the method would only pass the call on to it
        if callable(function):
            bound: ConsumeFunction = function
            return bound
    if callable(listener):
        return listener
    raise TypeError(
        f"{type(listener).__name__} is no listener: pass a callable (messages, context) or an "
        "object with consume_message"
    )


def _is_method(bound: object, method: object) -> bool:
    return getattr(bound, "__func__", None) is method
