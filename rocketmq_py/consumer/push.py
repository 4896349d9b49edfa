"""The push consumer: what a program holds in its hands to receive messages.

`DefaultMQPushConsumer` checks what the program says, starts and ends a `GroupMember`, and keeps
the listener and the subscriptions between. This module must not know how messages are fetched or
handled: ``assembly.py`` has the table of what does. Names and rules as in
`org.apache.rocketmq.client.consumer.DefaultMQPushConsumer`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

from attrs import define, field, setters

from rocketmq_py.client.hooks import RPCHook, as_hooks
from rocketmq_py.client.life import Remedy, checked_patience
from rocketmq_py.client.running import Foreground
from rocketmq_py.clock import Clock, a_clock
from rocketmq_py.config import explained
from rocketmq_py.consumer.dispatch.pacing import Pace
from rocketmq_py.consumer.face import PushedConsumer
from rocketmq_py.consumer.listener import (
    ConsumeFunction,
    ConsumeOrderlyFunction,
    DeliveryFunction,
    Listener,
    Listening,
    MessageListenerOrderly,
    listening_of,
)
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import ConfigError, MQClientException, UnsupportedOperationError
from rocketmq_py.logs import get_logger
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.names import DEFAULT_CONSUMER_GROUP

if TYPE_CHECKING:
    from rocketmq_py.consumer.dispatch.in_order import OrderlyDispatch
    from rocketmq_py.consumer.dispatch.pool import PoolDispatch

    _Consumer = PushedConsumer[PoolDispatch | OrderlyDispatch]
else:
    _Consumer = PushedConsumer

logger = get_logger(__name__)

_Function = TypeVar("_Function", bound=ConsumeFunction | DeliveryFunction)
_Ordered = TypeVar("_Ordered", bound=ConsumeOrderlyFunction | DeliveryFunction)


@explained
@define(eq=False, repr=False, slots=False, on_setattr=setters.NO_OP)
class DefaultMQPushConsumer(PushConsumerConfig, _Consumer, Foreground):
    """Receives messages of a group and hands them to a listener, side by side on a thread pool.

    `consumer_group` names the group, whose members share the messages. The settings are keyword
    arguments, and attributes, of which some can only be assigned until `start`;
    `DefaultMQPushConsumer.of` begins with those of a `ClientConfig` or `PushConsumerConfig`.
    `clock` stamps listener calls.

    **Delivery is at least once.** A message may come again: after a crash, when queues move
    between members, or when a listener took longer than `consume_timeout`. Listeners must be
    idempotent.

    After a failed pull, so also after a crash of the broker, a queue waits for
    `pull_time_delay_millis_when_exception` (1000 ms): tests of crashes set it to 10. ``rpc_hooks``
    see every remote call.

    Two programs with different subscriptions in one group lose messages: give each its own group.
    While the logger ``rocketmq_py.consumer`` has the level DEBUG, a member that differs from others
    asks a broker for that now and then, and warns.
    Threads are daemons, so the program must stay alive: `run` does that until a signal comes, and
    `keep_alive` until the shutdown. Or it stays alive by itself, and calls `shutdown` (or uses
    ``with``) at its end.

    >>> from rocketmq_py import ConsumeConcurrentlyStatus, DefaultMQPushConsumer
    >>> consumer = DefaultMQPushConsumer("shop", namesrv_addr="127.0.0.1:9876")
    >>> consumer.subscribe("orders", "created || paid")
    >>> consumer.register_message_listener(
    ...     lambda messages, context: ConsumeConcurrentlyStatus.CONSUME_SUCCESS
    ... )
    """

    _REMEDY: ClassVar[Remedy] = Remedy(
        to_stay="end it with consumer.run(), which waits for SIGINT or SIGTERM"
    )
    FIXED_BY_START: ClassVar[Mapping[str, str]] = {
        **PushConsumerConfig.FIXED_BY_START,
        "consumer_group": "",
    }

    consumer_group: str = DEFAULT_CONSUMER_GROUP
    _clock: Clock = field(default=None, alias="clock", kw_only=True, converter=a_clock)
    _rpc_hooks: tuple[RPCHook, ...] = field(
        default=(), alias="rpc_hooks", kw_only=True, converter=as_hooks
    )

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._listening: Listening | None = None
        self._pace = Pace()

    @property
    def config(self) -> PushConsumerConfig:
        """The settings, which are the consumer itself; `PushConsumerConfig.of` makes a copy."""
        return self

    def __repr__(self) -> str:
        return f"DefaultMQPushConsumer({self.consumer_group!r}, {self._life.state})"

    # --- before the start ---------------------------------------------------------------------

    @overload
    def register_message_listener(self, listener: DeliveryFunction) -> None: ...

    @overload
    def register_message_listener(self, listener: Listener) -> None: ...

    def register_message_listener(self, listener: Listener) -> None:
        """Set who handles messages: a callable (messages, context), or an object.

        The object has `consume_message` or ``consumeMessage``. It must return a
        `ConsumeConcurrentlyStatus`. After None, a value of another type (logged once) or an
        exception the messages come again later. A `MessageListenerOrderly` gets the messages of
        each queue one after the other. A callable whose parameter is named ``delivery``, and a
        `DeliveryListener`, gets a `Delivery`, which it settles itself: at once or later, from any
        thread. Raises TypeError for what cannot be called so, MQClientException after `start`, and
        `ClientClosedError` after `shutdown`.
        """
        listening = listening_of(listener)
        if self._life.state in ("closed", "failed"):
            raise self._life.refusal()
        if self._life.state != "new":
            raise MQClientException("register the listener before start()")
        self._listening = listening

    @overload
    def listener(self, function: _Function, /) -> _Function: ...

    @overload
    def listener(self, /, *, orderly: Literal[True]) -> Callable[[_Ordered], _Ordered]: ...

    def listener(self, function: Any = None, /, *, orderly: bool = False) -> Any:
        """Decorate the function that handles messages: ``@consumer.listener``.

        It is what `register_message_listener` takes; with ``@consumer.listener(orderly=True)`` what
        `MessageListenerOrderly` wraps. A consumer has one: MQClientException for a second.
        """
        if function is None:
            return partial(self.listener, orderly=orderly)
        if self._listening is not None:
            raise MQClientException(f"{self!r} has a listener, which gets all its messages")
        self.register_message_listener(MessageListenerOrderly(function) if orderly else function)
        return function

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group, take queues and begin to pull.

        When it returns and the name server knows the topics, this member has its queues: what is
        sent from now on is received, whatever `consume_from_where` says. What does not answer is
        asked again in background. Raises MQClientException for an impossible group, a missing
        listener, a second start, a second consumer of the group with the same client id, or a
        condition that a broker does not take;
        ClientClosedError after `shutdown`; ConfigError for settings that contradict each other.
        """
        with self._life.starting():
            self._start(self._checked())

    def shutdown(self, timeout: float | timedelta | None = None) -> None:
        """Leave the group.

        Waits up to `timeout` seconds (default: `await_termination_millis_when_shutdown`) for
        running listeners, then writes offsets and tells the brokers. A listener that still runs
        is left alone and its result thrown away, so its messages come again elsewhere.

        Returns within little more than `timeout` in any case; what is not done by then goes on in
        background. May be called again, by any thread and by a handler of a signal: a second call
        waits for the first one's work. A `start` that is under way raises ClientClosedError.
        """
        if timeout is None:
            timeout = self.await_termination_millis_when_shutdown / 1000
        self._life.end(checked_patience(timeout))

    # --- while it runs ------------------------------------------------------------------------

    def update_core_pool_size(self, size: int) -> None:
        """Change the number of listener threads, from 1 to `consume_thread_max`."""
        if isinstance(size, bool) or not 0 < size <= self.consume_thread_max:
            raise ConfigError("consume_thread_min", size, f"1 to {self.consume_thread_max} threads")
        self._running().dispatch.resize(size)

    def rate_limit(self, topic: str, messages_per_second: float | None) -> None:
        """Let the listener have at most so many messages of a topic in a second, evenly spread.

        From now on, before the start or after it; None takes the limit away. What waits is cached
        within the limits of flow control, and takes no thread. Raises ConfigError for what is no
        rate of 0.001 or more, UnsupportedOperationError for a listener in order.
        """
        self._pace.limit(topic, messages_per_second)
        try:
            self._check_pace()
        except UnsupportedOperationError:
            self._pace.limit(topic, None)
            raise

    def send_message_back(self, message: MessageExt, delay_level: int = 0) -> None:
        """Ask for another delivery of a message.

        `delay_level` says when: 0 after the delay of its next attempt, 1 and more after that delay
        level, -1 never: it goes to the dead letters. Blocks until a broker has taken it, and raises
        MQClientException when none has.
        """
        from rocketmq_py.consumer.calls import ConsumerCalls
        from rocketmq_py.consumer.send_back import SendBack

        group = self.consumer_group
        calls = ConsumerCalls(self._running().engine, group, self)
        if not SendBack(group, calls, self).send(message, delay_level):
            raise MQClientException(
                f"message {message.msg_id} was neither sent back nor published again; the log "
                "says why",
                topic=message.topic,
            )

    # --- inside -------------------------------------------------------------------------------

    def _check_pace(self) -> None:
        if self._pace and self._listening is not None and self._listening.is_orderly:
            raise UnsupportedOperationError(
                "rate_limit is for listeners whose messages may be handled in any order"
            )

    def _checked(self) -> Listening:
        self._check_group()
        self._check_pace()
        if self._listening is None:
            raise MQClientException(
                "there is no listener: call register_message_listener before start"
            )
        if self.consume_thread_min > self.consume_thread_max:
            raise ConfigError(
                "consume_thread_min",
                self.consume_thread_min,
                f"must not exceed consume_thread_max ({self.consume_thread_max})",
            )
        return self._listening

    def _start(self, listening: Listening) -> None:
        from rocketmq_py.consumer.assembly import Basis, push_member

        group, subscriptions = self.consumer_group, self._subscriptions
        self._join(
            self,
            lambda engine: push_member(
                Basis(group, engine, self, subscriptions, self._clock, self._hooks),
                listening,
                pace=self._pace,
            ),
        )
