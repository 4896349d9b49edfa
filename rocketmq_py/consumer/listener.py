"""What a program hands to a push consumer, and what it may answer.

The listener shapes (a callable, or an object with `consume_message` or `consumeMessage`), status
enums, contexts, and the enums of a subscription. This module must not know how a listener is
called; that is `listening`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    overload,
)

from attrs import define, frozen

from rocketmq_py.consumer.core.delivery import Delivery
from rocketmq_py.errors import UnsupportedOperationError
from rocketmq_py.message import MessageExt
from rocketmq_py.send_result import MessageQueue
from rocketmq_py.spelling import Spelled

if TYPE_CHECKING:
    from inspect import Signature

_Context = TypeVar("_Context")
_Status = TypeVar("_Status")

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
    """Each message goes to every member."""


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
class MessageSelector(Spelled):
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

    def getExpression(self) -> str:  # noqa: N802 - Java spelling of `expression`
        """Java spelling of `expression`."""
        return self.expression

    def getExpressionType(self) -> str:  # noqa: N802 - Java spelling of `expression_type`
        """Java spelling of `expression_type`."""
        return self.expression_type


@define(slots=True)
class ConsumeConcurrentlyContext(Spelled):
    """What a listener may look at and set while it handles one batch.

    `delay_level_when_next_consume` says when messages that failed come again: 0 after a delay that
    grows with each attempt (10 s, 30 s, 1 min ...), 1 and more after that delay level, -1 never:
    they go to the dead letters. `ack_index` is the
    index of the last message that succeeded, for a batch of which only the beginning did.
    """

    message_queue: MessageQueue
    delay_level_when_next_consume: int = 0
    ack_index: int = ACK_ALL


class ConsumeOrderlyStatus(Enum):
    """What an orderly listener says about the messages that it got."""

    SUCCESS = 0
    """Done; with `ConsumeOrderlyContext.auto_commit` off, as soon as a later call says COMMIT."""

    ROLLBACK = 1
    """With auto-commit off: all messages since the last COMMIT come again, after a pause."""

    COMMIT = 2
    """With auto-commit off: these messages, and all since the last COMMIT, are done."""

    SUSPEND_CURRENT_QUEUE_A_MOMENT = 3
    """Not done: the same messages come again after a pause, and nothing behind them before.

    The pause is wall time, which no clock of a test moves.
    """


@define(slots=True)
class ConsumeOrderlyContext(Spelled):
    """What an orderly listener may look at and set while it handles messages of one queue.

    `suspend_current_queue_time_millis` is the pause before messages come again that were not
    handled, 10 to 30,000 ms; -1 means the consumer's setting of the same name. `auto_commit` False
    lets SUCCESS wait for a COMMIT.
    """

    message_queue: MessageQueue
    auto_commit: bool = True
    suspend_current_queue_time_millis: int = -1


ConsumeFunction: TypeAlias = Callable[
    [list[MessageExt], ConsumeConcurrentlyContext], ConsumeConcurrentlyStatus
]
"""A listener as a plain callable. One that returns nothing would get every message again."""

ConsumeOrderlyFunction: TypeAlias = Callable[
    [list[MessageExt], ConsumeOrderlyContext], ConsumeOrderlyStatus
]
"""An orderly listener as a plain callable; `MessageListenerOrderly` says that it is one."""


class DeliveryFunction(Protocol):
    """A listener that settles its messages itself, at once or later and from any thread.

    Its parameter is named ``delivery``, which tells it from other listeners. A parameter of another
    name will do when it is annotated as a `Delivery`, but type checkers look at names alone: for
    them, and for what has no such parameter, there is `DeliveryListener`.
    """

    def __call__(self, delivery: Delivery) -> object:
        """Take the messages; after an exception they come again, unless they were settled."""


_NO_STATUS: tuple[type | None, ...] = (None, type(None), bool, int, str)
"""What a listener may be annotated to return that is surely no status."""


class _Wrapper(Generic[_Context, _Status]):
    """Base class of a listener with a method, or wrapper of a callable."""

    @overload
    def __init__(
        self, consume: Callable[[list[MessageExt], _Context], _Status] | None = None
    ) -> None: ...

    @overload
    def __init__(self, consume: DeliveryFunction) -> None: ...

    def __init__(self, consume: Callable[..., Any] | None = None) -> None:
        self._consume = consume  # Any: the overloads say what it returns

    @property
    def wrapped(self) -> Callable[..., object] | None:
        """The callable that was passed; None when there is none."""
        return self._consume

    def consume_message(self, messages: list[MessageExt], context: _Context) -> _Status:
        """Handle the messages. After an exception, or no status, they come again."""
        if self._consume is None:
            raise UnsupportedOperationError(
                f"{type(self).__name__} has no consume_message: override it, or pass a callable"
            )
        status: _Status = self._consume(messages, context)
        return status


class MessageListenerConcurrently(_Wrapper[ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus]):
    """Base class or wrapper of a listener whose calls run side by side, in any order.

    Override `consume_message`, or wrap a callable: ``MessageListenerConcurrently(function)``, also
    one that takes ``(delivery: Delivery)``. Delivery is at least once: a listener must be able to
    handle a message twice.
    """


class MessageListenerOrderly(_Wrapper[ConsumeOrderlyContext, ConsumeOrderlyStatus]):
    """Base class or wrapper of a listener that gets the messages of a queue one after the other.

    Override `consume_message`, or wrap a callable: ``MessageListenerOrderly(function)``. A message
    that is not handled comes again in its place, and nothing behind it in its queue before. Queues
    are handled side by side. Delivery is at least once, as everywhere. A function that takes
    ``(delivery: Delivery)`` can be wrapped, too: the queue goes on when the delivery is settled, or
    after `consume_timeout`. A listener that outlives its consumer, one that shuts it down itself
    for example, keeps its queue from other members for up to a minute.
    """


@frozen
class DeliveryListener:
    """Wraps a callable that settles its messages itself: ``DeliveryListener(function)``.

    It gets a `Delivery`. A function whose parameter is named ``delivery`` needs no wrapper. For
    messages in order: ``MessageListenerOrderly(DeliveryListener(function))``.
    """

    function: Callable[[Delivery], object]

    def __call__(self, delivery: Delivery) -> object:
        """Call the function: a wrapped one is a `DeliveryFunction`, too."""
        return self.function(delivery)


class _ConcurrentListener(Protocol):
    def consume_message(
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext, /
    ) -> ConsumeConcurrentlyStatus: ...


class _JavaListener(Protocol):
    def consumeMessage(  # noqa: N802 - the spelling that ported listeners bring along
        self, messages: list[MessageExt], context: ConsumeConcurrentlyContext, /
    ) -> ConsumeConcurrentlyStatus: ...


Listener = (
    ConsumeFunction
    | DeliveryFunction
    | _ConcurrentListener
    | _JavaListener
    | MessageListenerOrderly
)
"""Everything that `DefaultMQPushConsumer.register_message_listener` takes."""


class Listening(NamedTuple):
    """A listener as one callable, and how it is called.

    `settles`: with a `Delivery` alone, which it settles; else with messages and a context.
    """

    function: Callable[..., object]
    is_orderly: bool = False
    settles: bool = False


def listening_of(listener: object) -> Listening:
    """Look at what a program has given as its listener.

    Raises TypeError, naming the fix, for a class instead of an object, for something that cannot
    be called, for a coroutine function, for a callable that takes neither two arguments nor a
    `Delivery`, and for one with two that is annotated to return None or another thing that is no
    status: found here, not at the first message.
    """
    given = listener.wrapped if isinstance(listener, _Wrapper) else listener
    if isinstance(given, type):
        raise TypeError(f"{given.__name__} is a class: pass an object of it as the listener")
    is_orderly = isinstance(listener, MessageListenerOrderly)
    function = _bound(listener)
    settles = isinstance(function, DeliveryListener)
    if isinstance(function, DeliveryListener):
        function = _bound(function.function)  # looked at as it is, and called as it is
    # Imported here: attrs has loaded it anyway when a program registers a listener.
    import inspect

    if inspect.iscoroutinefunction(function):
        raise TypeError("a listener is called by threads: it cannot be a coroutine function")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return Listening(function, is_orderly, settles)  # a builtin: nothing to check
    if settles or _says_delivery(signature):
        if not _takes(signature, 1):
            raise TypeError(f"the listener takes {signature}: it is called with one Delivery")
        return Listening(function, is_orderly, settles=True)
    if not _takes(signature, 2):
        raise TypeError(
            f"the listener takes {signature}: it is called with (messages, context). One that "
            "settles its messages itself takes one parameter, named delivery"
        )
    returns = signature.return_annotation
    success = "ConsumeOrderlyStatus.SUCCESS" if is_orderly else _SUCCESS
    for kind in _NO_STATUS:
        name = "None" if kind is None else kind.__name__
        if returns is kind or returns == name:
            raise TypeError(
                f"the listener returns {name}, so every message would come again until it is a "
                f"dead letter: return {success}"
            )
    return Listening(function, is_orderly)


_SUCCESS = "ConsumeConcurrentlyStatus.CONSUME_SUCCESS"


def _takes(signature: Signature, count: int) -> bool:
    try:
        signature.bind(*(None,) * count)
    except TypeError:
        return False
    return True


def _says_delivery(signature: Signature) -> bool:
    """Whether the first parameter is named ``delivery``, or annotated as a `Delivery`."""
    first = next(iter(signature.parameters.values()), None)
    return first is not None and (
        first.name == "delivery"
        # No set: an annotation may be anything, also what has no hash.
        or first.annotation in (Delivery, "Delivery", "rocketmq_py.Delivery")
    )


def _bound(listener: object) -> Callable[..., object]:
    for name in ("consume_message", "consumeMessage"):
        # A name from a foreign program: what it is, is checked by the caller.
        function = getattr(listener, name, None)
        if isinstance(listener, _Wrapper) and _is_method(function, _Wrapper.consume_message):
            function = listener.wrapped  # the method would only pass the call on to it
        if callable(function):
            bound: Callable[..., object] = function
            return bound
    if callable(listener):
        return listener
    raise TypeError(
        f"{type(listener).__name__} is no listener: pass a callable (messages, context), a "
        "callable (delivery), or an object with consume_message"
    )


def _is_method(bound: object, method: object) -> bool:
    return getattr(bound, "__func__", None) is method
