"""The asyncio consumer: a push consumer whose messages are awaited, or handled by coroutines.

The core of every consumer fetches and settles; nothing here pulls or rebalances. Must not know how
a message crosses to the loop. Read on: ``receiving.py`` for who gets it, ``membership.py`` for what
it stands on.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeVar, overload

from attrs import define, field, frozen, setters

from rocketmq_py.aio.delivery import Delivery
from rocketmq_py.aio.group import GroupFace
from rocketmq_py.aio.home import Home, running_loop, to_its_end
from rocketmq_py.aio.membership import Membership
from rocketmq_py.aio.outcomes import Outcomes
from rocketmq_py.aio.receiving import Iterating, Listener, Listening, Receiver
from rocketmq_py.client.activity import Book
from rocketmq_py.client.hooks import RPCHook, as_hooks
from rocketmq_py.clock import Clock, a_clock
from rocketmq_py.config import explained
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import ConfigError, IllegalStateError
from rocketmq_py.protocol.names import DEFAULT_CONSUMER_GROUP
from rocketmq_py.send_result import MessageQueue

_Listener = TypeVar("_Listener", bound=Listener)


@frozen
class Orderly:
    """Wraps a coroutine function that gets the messages of a queue one after the other.

    ``consumer.register_message_listener(aio.Orderly(handle))``: a message that is not handled comes
    again in its place, and nothing behind it in its queue before. Queues are handled side by side.
    """

    listener: Listener


@explained
@define(eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class Consumer(GroupFace[Membership], PushConsumerConfig):
    """Receives messages of a group in one event loop, and never blocks it.

    ``consumer_group``, ``clock``, ``rpc_hooks``, settings, `of` and what they promise are those of
    `DefaultMQPushConsumer`: **delivery is at least once**. A consumer belongs to the loop that uses
    it first; any other gets `IllegalStateError`.

    Iterate over it, in one task or several, and settle each delivery::

        async with aio.Consumer("billing", namesrv_addr="127.0.0.1:9876") as consumer:
            consumer.subscribe("Orders", "paid || cancelled")
            async for delivery in consumer:
                await handle(delivery.message)
                await delivery.ack()

    The iteration ends with `shutdown`. Cancelling the task that iterates loses nothing: what it has
    not settled comes again, after ``consume_timeout`` or when the consumer has ended. What nobody
    has asked for yet is bounded by the settings ``pull_threshold_...``.

    Or register a listener before the start: ``consume_thread_min`` calls of it, which are tasks and
    no threads, run at a time.

    No consumer has threads of its own but those of its client instance: many consumers of different
    groups share these when they have one ``instance_name``.
    """

    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **PushConsumerConfig.FIXED_BY_START,
        "consumer_group": "",
        "consume_thread_min": "",
    }

    consumer_group: str = DEFAULT_CONSUMER_GROUP
    _clock: Clock = field(default=None, alias="clock", kw_only=True, converter=a_clock)
    _rpc_hooks: tuple[RPCHook, ...] = field(
        default=(), alias="rpc_hooks", kw_only=True, converter=as_hooks
    )

    def __attrs_post_init__(self) -> None:
        self._home = Home(self)
        self._member = Membership(
            "aio.Consumer", self, lambda: self.consumer_group, self._clock, self._rpc_hooks
        )
        self._listener: Listener | None = None
        self._is_orderly = False

    # --- what it receives ------------------------------------------------------------------

    def register_message_listener(self, listener: Listener | Orderly) -> None:
        """Let a coroutine function handle each `Delivery`; an `Orderly` one queue by queue.

        What it has not settled when it returns is handled; after an exception, or when its task is
        cancelled, the messages come again. Raises TypeError for what is no coroutine function of
        one argument, IllegalStateError after `start`.
        """
        is_orderly = isinstance(listener, Orderly)
        function = listener.listener if isinstance(listener, Orderly) else listener
        _check_listener(function)
        if not self._member.is_new:
            raise IllegalStateError("register the listener before start()")
        self._listener, self._is_orderly = function, is_orderly

    @overload
    def listener(self, function: _Listener, /) -> _Listener: ...

    @overload
    def listener(self, /, *, orderly: Literal[True]) -> Callable[[_Listener], _Listener]: ...

    def listener(self, function: Any = None, /, *, orderly: bool = False) -> Any:
        """Decorate the coroutine function that handles each delivery: ``@consumer.listener``.

        With ``@consumer.listener(orderly=True)`` it is an `Orderly` one. A consumer has one:
        IllegalStateError for a second. Raises as `register_message_listener`.
        """
        if function is None:
            return partial(self.listener, orderly=orderly)
        if self._listener is not None:
            raise IllegalStateError(f"{self!r} has a listener, which gets all its messages")
        self.register_message_listener(Orderly(function) if orderly else function)
        return function

    def __aiter__(self) -> Self:
        """Iterate over what is received."""
        return self

    async def __anext__(self) -> Delivery:
        """Wait for the next messages."""
        self._home.take()
        receiver = self._member.receiver
        if receiver is None or not receiver.is_closed:
            self._member.check_running()
        if not isinstance(receiver, Iterating):
            raise IllegalStateError(
                f"{self!r} has a listener, which gets all messages: iterate over one without"
            )
        self._member.tell_if_unsubscribed()
        delivery = await receiver.next()
        if delivery is None:
            raise StopAsyncIteration
        return delivery

    # --- life ------------------------------------------------------------------------------

    def _joining(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        if self.consume_thread_min > self.consume_thread_max:
            raise ConfigError(
                "consume_thread_min",
                self.consume_thread_min,
                f"must not exceed consume_thread_max ({self.consume_thread_max})",
            )
        book = Book(f"consumer {self.consumer_group}", "awaited calls", loop.is_closed)
        outcomes = Outcomes(loop, book)
        receiver: Receiver = Iterating(outcomes, self.consumer_group)
        room = 0
        if self._listener is not None:
            receiver = Listening(outcomes, self.consumer_group, self._listener)
            room = self.consume_thread_min
        return partial(self._member.join, receiver, book, room, is_orderly=self._is_orderly)

    async def shutdown(self, timeout: float | timedelta | None = None) -> None:
        """Leave the group.

        Waits up to ``timeout`` seconds (default: ``await_termination_millis_when_shutdown``) for
        running listeners, then writes offsets and tells the brokers. Iterations end at once. What
        is not settled by then comes again elsewhere. May be called again, and from any loop; it
        goes on when the task that awaits it is cancelled. A listener may call it, too, which is not
        waited for then: it acks its message before.
        """
        leave, receiver = self._member.leave(timeout), self._member.receiver
        if receiver is not None:
            if receiver.outcomes.loop is running_loop():
                receiver.close()
                receiver.let_caller_wait()
            else:
                receiver.outcomes.call(receiver.close)
        await to_its_end(leave)

    def suspend(self) -> None:
        """Stop fetching; messages that are here already still reach the program. Never blocks."""
        self._member.suspend()

    def resume(self) -> None:
        """Fetch again, and rebalance. Never blocks."""
        self._member.resume()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a consumer cannot be pickled: pickle PushConsumerConfig.of(consumer) and start one "
            "there"
        )

    @property
    def config(self) -> PushConsumerConfig:
        """The settings, which are the consumer itself; `PushConsumerConfig.of` makes a copy."""
        return self

    def assigned_queues(self) -> list[MessageQueue]:
        """Return the queues that this member has now, the retry topic's included."""
        return self._member.assigned_queues()


def _check_listener(function: Callable[..., Any]) -> None:
    call = type(function).__call__ if callable(function) else function
    if not (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)):
        raise TypeError(
            f"the listener of an asyncio consumer is a coroutine function (async def), not "
            f"{function!r}: DefaultMQPushConsumer calls functions on threads"
        )
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise TypeError(
            f"the listener takes {inspect.signature(function)}: it is called with one aio.Delivery"
        ) from None
