"""What a client calls, with Java's names: callbacks, listeners, selectors.

The interfaces are base classes whose methods a program writes; a missing one is refused when an
object is made. Functions below turn them into what the SDK calls, and what the SDK gives into
values with Java's names. Must not know clients.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import wraps
from typing import Any, Generic, TypeAlias, TypeVar

from attrs import frozen

import rocketmq_py
from compat.java.messages import MessageExt, MessageQueue, plain
from compat.java.results import SendResult
from compat.java.spelled import JavaNames
from rocketmq_py import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus, LocalTransactionState
from rocketmq_py.errors import UnsupportedOperationError

_Context = TypeVar("_Context")
_Status = TypeVar("_Status")


# --- of producers --------------------------------------------------------------------------


class SendCallback(ABC):
    """Learns what became of an asynchronous send, once, on a callback thread."""

    @abstractmethod
    def onSuccess(self, sendResult: SendResult) -> None:
        """Take the result of a message that is stored."""

    @abstractmethod
    def onException(self, e: Exception) -> None:
        """Take the reason why the send failed."""


class RequestCallback(ABC):
    """Learns the reply of an asynchronous request, once, on a callback thread."""

    @abstractmethod
    def onSuccess(self, message: MessageExt) -> None:
        """Take the reply."""

    @abstractmethod
    def onException(self, e: Exception) -> None:
        """Take the reason why there is none."""


class MessageQueueSelector(ABC):
    """Chooses the queue of a message. A function (mqs, msg, arg) is one, too."""

    @abstractmethod
    def select(
        self, mqs: list[MessageQueue], msg: rocketmq_py.Message, arg: Any
    ) -> rocketmq_py.MessageQueue | None:
        """Return one of the queues. ``arg`` is the argument of the send."""


class SelectMessageQueueByHash(MessageQueueSelector):
    """Chooses by Java's hash of ``arg``, a str or an int: as Java producers do."""

    def select(
        self, mqs: list[MessageQueue], msg: rocketmq_py.Message, arg: Any
    ) -> rocketmq_py.MessageQueue | None:
        """Return the queue of the hash; TypeError for another ``arg``."""
        return rocketmq_py.select_message_queue_by_hash(mqs, msg, arg)


class SelectMessageQueueByRandom(MessageQueueSelector):
    """Chooses any queue."""

    def select(
        self, mqs: list[MessageQueue], msg: rocketmq_py.Message, arg: Any
    ) -> rocketmq_py.MessageQueue | None:
        """Return a queue."""
        return rocketmq_py.select_message_queue_by_random(mqs, msg, arg)


SelectorFunction: TypeAlias = Callable[
    [list[MessageQueue], rocketmq_py.Message, Any], rocketmq_py.MessageQueue | None
]
"""A selector as a plain callable: what a Java program writes as a lambda."""


class TransactionListener(ABC):
    """Does the local work of a transaction, and answers later questions about it.

    An exception, and what is no `LocalTransactionState`, counts as ``UNKNOW``.
    """

    @abstractmethod
    def executeLocalTransaction(
        self, msg: rocketmq_py.Message, arg: Any
    ) -> rocketmq_py.LocalTransactionState:
        """Do the local work, on the thread that sends."""

    @abstractmethod
    def checkLocalTransaction(self, msg: MessageExt) -> rocketmq_py.LocalTransactionState:
        """Say what became of earlier work, perhaps after a restart."""


def is_callback(value: object) -> bool:
    """Whether it can be told an outcome, under Java's names or Python's."""
    return isinstance(value, rocketmq_py.SendCallback) or (
        not isinstance(value, type)
        and all(callable(getattr(value, name, None)) for name in ("onSuccess", "onException"))
    )


def is_selector(value: object) -> bool:
    """Whether it can choose a queue."""
    if isinstance(value, type):
        return False
    return not is_callback(value) and (isinstance(value, MessageQueueSelector) or callable(value))


class Told(rocketmq_py.SendCallback):
    """Tells a callback with Java's names."""

    def __init__(self, callback: SendCallback) -> None:
        super().__init__()
        self._callback = callback

    def on_success(self, result: rocketmq_py.SendResult) -> None:
        """Tell the result."""
        self._callback.onSuccess(SendResult.of(result))

    def on_exception(self, error: Exception) -> None:
        """Tell the error."""
        self._callback.onException(error)


def told(callback: SendCallback | rocketmq_py.SendCallback) -> rocketmq_py.SendCallback:
    """Give what the SDK tells of a callback of either spelling."""
    return callback if isinstance(callback, rocketmq_py.SendCallback) else Told(callback)


def tell_reply(callback: RequestCallback, reply: Future[rocketmq_py.MessageExt]) -> None:
    """Tell a callback what became of a request, when that is known."""

    def tell(ended: Future[rocketmq_py.MessageExt]) -> None:
        error = ended.exception()
        if error is None:
            callback.onSuccess(MessageExt.of(ended.result()))
        elif isinstance(error, Exception):
            callback.onException(error)

    reply.add_done_callback(tell)


def selecting(
    selector: MessageQueueSelector | SelectorFunction,
) -> rocketmq_py.MessageQueueSelector:
    """Give the SDK's selector of one that takes queues with Java's names."""
    choose = selector.select if isinstance(selector, MessageQueueSelector) else selector

    def select(
        queues: Sequence[rocketmq_py.MessageQueue], message: rocketmq_py.Message, arg: object
    ) -> rocketmq_py.MessageQueue | None:
        queue = choose([MessageQueue.of(each) for each in queues], message, arg)
        return queue if queue is None else plain(queue)

    return select


@frozen
class Answering:
    """Lets a listener with Java's names answer the questions of a transaction."""

    listener: TransactionListener

    def execute_local_transaction(
        self, message: rocketmq_py.Message, arg: object
    ) -> LocalTransactionState:
        """Do the local work."""
        return self.listener.executeLocalTransaction(message, arg)

    def check_local_transaction(self, message: rocketmq_py.MessageExt) -> LocalTransactionState:
        """Answer a later question."""
        return self.listener.checkLocalTransaction(MessageExt.of(message))


def answering(listener: TransactionListener) -> Answering:
    """Give the SDK's listener of one with Java's names; `TypeError` for what is none."""
    for name in ("executeLocalTransaction", "checkLocalTransaction"):
        if isinstance(listener, type) or not callable(getattr(listener, name, None)):
            raise TypeError(
                f"{listener!r} is no TransactionListener: an object with executeLocalTransaction "
                "and checkLocalTransaction is one"
            )
    return Answering(listener)


# --- of consumers --------------------------------------------------------------------------


class ConsumeConcurrentlyContext(JavaNames):
    """What a listener may look at and set while it handles one batch.

    Made of a queue, for tests of a listener; a consumer makes it of the SDK's context, in which
    the setters write.
    """

    __slots__ = ("_of",)

    def __init__(
        self, of: rocketmq_py.MessageQueue | rocketmq_py.ConsumeConcurrentlyContext
    ) -> None:
        self._of = (
            rocketmq_py.ConsumeConcurrentlyContext(of)
            if isinstance(of, rocketmq_py.MessageQueue)
            else of
        )

    def getMessageQueue(self) -> MessageQueue:
        """Give the queue of the messages."""
        return MessageQueue.of(self._of.message_queue)

    def getDelayLevelWhenNextConsume(self) -> int:
        """Give the delay level of what failed."""
        return self._of.delay_level_when_next_consume

    def setDelayLevelWhenNextConsume(self, delayLevelWhenNextConsume: int) -> None:
        """Say when what failed comes again: 0 as its attempt says, 1 and more a level, -1 never."""
        self._of.delay_level_when_next_consume = delayLevelWhenNextConsume

    def getAckIndex(self) -> int:
        """Give the index of the last message that succeeded."""
        return self._of.ack_index

    def setAckIndex(self, ackIndex: int) -> None:
        """Say which message of the batch is the last that succeeded."""
        self._of.ack_index = ackIndex


class ConsumeOrderlyContext(JavaNames):
    """What an orderly listener may look at and set; made as `ConsumeConcurrentlyContext`."""

    __slots__ = ("_of",)

    def __init__(self, of: rocketmq_py.MessageQueue | rocketmq_py.ConsumeOrderlyContext) -> None:
        self._of = (
            rocketmq_py.ConsumeOrderlyContext(of)
            if isinstance(of, rocketmq_py.MessageQueue)
            else of
        )

    def getMessageQueue(self) -> MessageQueue:
        """Give the queue of the messages."""
        return MessageQueue.of(self._of.message_queue)

    def isAutoCommit(self) -> bool:
        """Whether SUCCESS commits."""
        return self._of.auto_commit

    def setAutoCommit(self, autoCommit: bool) -> None:
        """Let SUCCESS commit, or wait for a COMMIT."""
        self._of.auto_commit = autoCommit

    def getSuspendCurrentQueueTimeMillis(self) -> int:
        """Give the pause of a queue whose messages were not handled; -1: as the setting says."""
        return self._of.suspend_current_queue_time_millis

    def setSuspendCurrentQueueTimeMillis(self, suspendCurrentQueueTimeMillis: int) -> None:
        """Set the pause in ms, 10 to 30,000."""
        self._of.suspend_current_queue_time_millis = suspendCurrentQueueTimeMillis


class _Listener(Generic[_Context, _Status]):
    """Base class of a listener with a method, or wrapper of a function: Java's lambda."""

    def __init__(
        self, consume: Callable[[list[MessageExt], _Context], _Status] | None = None
    ) -> None:
        self._consume = consume

    def consumeMessage(self, msgs: list[MessageExt], context: _Context) -> _Status:
        """Handle the messages. After an exception, or no status, they come again."""
        if self._consume is None:
            raise UnsupportedOperationError(f"{type(self).__name__} has no consumeMessage")
        return self._consume(msgs, context)

    def function(self) -> Callable[[list[MessageExt], _Context], _Status]:
        """Give what handles messages; `TypeError` when nothing does."""
        if type(self).consumeMessage is not _Listener.consumeMessage:
            return self.consumeMessage
        if self._consume is None:
            raise TypeError(f"{type(self).__name__} has no consumeMessage: it is never called else")
        return self._consume


class MessageListenerConcurrently(_Listener[ConsumeConcurrentlyContext, ConsumeConcurrentlyStatus]):
    """A listener whose calls run side by side: override `consumeMessage`, or wrap a function.

    ``MessageListenerConcurrently(lambda msgs, context: ...)`` is Java's cast of a lambda.
    """


class MessageListenerOrderly(_Listener[ConsumeOrderlyContext, ConsumeOrderlyStatus]):
    """A listener that gets the messages of a queue one after the other.

    Override `consumeMessage`, or wrap a function.
    """


ConsumeFunction: TypeAlias = Callable[
    [list[MessageExt], ConsumeConcurrentlyContext], ConsumeConcurrentlyStatus
]
"""A listener as a plain callable."""

MessageListener: TypeAlias = MessageListenerConcurrently | MessageListenerOrderly | ConsumeFunction
"""What `DefaultMQPushConsumer.registerMessageListener` takes."""


def listening(listener: object) -> rocketmq_py.Listener:
    """Give the SDK's listener of one with Java's names.

    The SDK judges the signature of what the program wrote. `TypeError` for what is no listener.
    """
    if isinstance(listener, MessageListenerOrderly):
        return rocketmq_py.MessageListenerOrderly(
            _called(listener.function(), ConsumeOrderlyContext)
        )
    function: Any = listener  # of a foreign program: the SDK looks at it
    if isinstance(listener, MessageListenerConcurrently):
        function = listener.function()
    elif not isinstance(listener, type):
        function = getattr(listener, "consumeMessage", listener)
    if isinstance(function, type) or not callable(function):
        raise TypeError(
            f"{function!r} is no listener: pass a function (msgs, context), or an object with "
            "consumeMessage"
        )
    called: rocketmq_py.Listener = _called(function, ConsumeConcurrentlyContext)
    return called


def _called(function: Callable[..., Any], context_type: Callable[[Any], Any]) -> Any:
    """Give a function that calls one with Java's values, and looks like it."""
    if inspect.iscoroutinefunction(function) or _takes_one(function):
        return function  # the SDK refuses it, or gives it a `Delivery`

    @wraps(function)
    def consume(messages: list[rocketmq_py.MessageExt], context: object) -> Any:
        return function([MessageExt.of(each) for each in messages], context_type(context))

    return consume


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        return len(inspect.signature(function).parameters) == 1
    except (TypeError, ValueError):
        return False  # a builtin says nothing about itself


class TopicMessageQueueChangeListener(ABC):
    """Learns that the queues of a topic have changed. A function (topic, queues) is one, too."""

    @abstractmethod
    def onChanged(self, topic: str, messageQueues: set[MessageQueue]) -> None:
        """Take the queues that the topic has now."""


QueuesFunction: TypeAlias = Callable[[str, set[MessageQueue]], object]


def changing(
    listener: TopicMessageQueueChangeListener | QueuesFunction,
) -> rocketmq_py.QueueListener:
    """Give the SDK's listener of changed queues; `TypeError` for what is none."""
    function = listener
    if isinstance(listener, TopicMessageQueueChangeListener):
        function = listener.onChanged
    if isinstance(listener, type) or not callable(function):
        raise TypeError(f"{listener!r} is no listener: an object with onChanged is one")
    return lambda topic, queues: function(topic, {MessageQueue.of(each) for each in queues})
