"""The push consumer: what a program holds in its hands to receive messages.

`DefaultMQPushConsumer` checks what the program says, starts and ends a `GroupMember`, and keeps
the listener and the subscriptions between. This module must not know how messages are fetched or
handled: ``assembly.py`` has the table of what does. Names and rules as in
`org.apache.rocketmq.client.consumer.DefaultMQPushConsumer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self, Unpack

from rocketmq_py.client.hooks import RPCHook
from rocketmq_py.client.life import Life, checked_patience
from rocketmq_py.clock import Clock, SystemClock
from rocketmq_py.config import ClientConfig, attributes_of
from rocketmq_py.consumer.hooks import ConsumeMessageHook, FilterMessageHook, Hooks
from rocketmq_py.consumer.listener import (
    Listener,
    Listening,
    MessageModel,
    MessageSelector,
    listening_of,
)
from rocketmq_py.consumer.settings import PushConsumerConfig, PushConsumerSettings
from rocketmq_py.consumer.subscriptions import SubscriptionTable
from rocketmq_py.errors import (
    BodyError,
    ClientClosedError,
    ConfigError,
    MQClientException,
    NoRouteError,
    NotStartedError,
    UnsupportedOperationError,
)
from rocketmq_py.logs import get_logger
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.names import (
    DEFAULT_CONSUMER_GROUP,
    group_problem,
    retry_topic,
    topic_problem,
)
from rocketmq_py.send_result import MessageQueue

if TYPE_CHECKING:
    from rocketmq_py.consumer.assembly import PushMember

    _Settings = PushConsumerConfig
else:
    _Settings = attributes_of(PushConsumerConfig)

logger = get_logger(__name__)

SUBSCRIBE_ALL = "*"
TAG = "TAG"

_BLANK = re.compile(r"\s")
_SIGN = re.compile(r"[<>='\"]")
_SQL = re.compile(
    r"""(?:[<>=]|\bin\s*\(|\bbetween\s)\s*(?:['"\d+-]|true\b|false\b)"""
    r"""|\bis\s+(?:not\s+)?null\b""",
    re.IGNORECASE,
)
"""A comparison with a value: what SQL filters hold, and hardly a tag."""


class DefaultMQPushConsumer(_Settings):
    """Receives messages of a group and hands them to a listener, side by side on a thread pool.

    `consumer_group` names the group, whose members share the messages. `config` is a
    `PushConsumerConfig` or `ClientConfig` to begin with; every setting may also be given as a
    keyword, and those named below can be assigned until `start`. `clock` stamps listener calls.

    **Delivery is at least once.** A message may come again: after a crash, when queues move
    between members, or when a listener took longer than `consume_timeout`. Listeners must be
    idempotent.

    After a failed pull, so also after a crash of the broker, a queue waits for
    `pull_time_delay_millis_when_exception` (1000 ms): tests of crashes set it to 10. All settings
    are explained in `PushConsumerConfig` and `ClientConfig`. ``rpc_hooks`` see every remote call.

    Two programs with different subscriptions in one group lose messages: give each its own group.
    Threads are daemons, so the program must stay alive by itself and call `shutdown` (or use
    ``with``) at its end.

    >>> from rocketmq_py import ConsumeConcurrentlyStatus, DefaultMQPushConsumer
    >>> consumer = DefaultMQPushConsumer("shop", namesrv_addr="127.0.0.1:9876")
    >>> consumer.subscribe("orders", "created || paid")
    >>> consumer.register_message_listener(
    ...     lambda messages, context: ConsumeConcurrentlyStatus.CONSUME_SUCCESS
    ... )
    """

    _attributes = frozenset({"config", "consumer_group"})

    def __init__(
        self,
        consumer_group: str = DEFAULT_CONSUMER_GROUP,
        *,
        config: ClientConfig | None = None,
        clock: Clock | None = None,
        rpc_hooks: Iterable[RPCHook] = (),
        **settings: Unpack[PushConsumerSettings],
    ) -> None:
        self.consumer_group = consumer_group
        self.config = PushConsumerConfig.build(config, settings)
        self._clock = SystemClock() if clock is None else clock
        self._rpc_hooks = tuple(rpc_hooks)
        self._subscriptions = SubscriptionTable(self._clock)
        self._listening: Listening | None = None
        self._life = Life(self._who)
        self._member: PushMember | None = None
        self._hooks = Hooks()

    # --- before the start ---------------------------------------------------------------------

    def subscribe(
        self, topic: str, expression: str | MessageSelector | None = SUBSCRIBE_ALL
    ) -> None:
        """Subscribe to a topic. This works after `start`, too.

        `expression` names tags separated by ``||``; None, "" and ``*`` mean all messages. A
        condition on properties is a `MessageSelector.by_sql`, which a broker is asked about: by
        this call when the consumer runs, else by `start`. A second call for a topic replaces the
        first. Raises MQClientException for an impossible topic or expression,
        UnsupportedOperationError for a condition that is given as tags, TypeError for an expression
        that is no text.
        """
        self._life.check_process()
        problem = topic_problem(topic)
        if problem is not None:
            raise MQClientException(problem, topic=topic)
        kind = TAG
        if isinstance(expression, MessageSelector):
            kind, expression = expression.expression_type, expression.expression
        if kind == TAG:
            _check_tags(topic, expression)
        member = self._member if self._life.state == "running" else None
        try:
            if member is not None:
                member.check(topic, expression, kind)
            self._subscriptions.put(topic, expression, kind)
        except BodyError as error:
            raise MQClientException(f"subscription of {topic}: {error}", topic=topic) from error
        if member is not None:
            member.engine.send_heartbeats(0)
            member.engine.rebalance_soon()

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic. Its queues are given up at the next rebalance."""
        self._life.check_process()
        self._subscriptions.remove(topic)
        if self._member is not None and self._life.state == "running":
            self._member.engine.rebalance_soon()

    def register_message_listener(self, listener: Listener) -> None:
        """Set who handles messages: a callable (messages, context), or an object.

        The object has `consume_message` or ``consumeMessage``. It must return a
        `ConsumeConcurrentlyStatus`. After None, a value of another type (logged once) or an
        exception the messages come again later. A `MessageListenerOrderly` gets the messages of
        each queue one after the other. A callable with one argument gets a `Delivery`, which it
        settles itself: at once or later, from any thread. Raises TypeError for what cannot be
        called so, MQClientException after `start`.
        """
        listening = listening_of(listener)
        if self._life.state != "new":
            raise MQClientException("register the listener before start()")
        self._listening = listening

    def register_consume_message_hook(self, hook: ConsumeMessageHook) -> None:
        """Show every call of the listener to ``hook``, and what came of it."""
        self._hooks.consume.append(hook)

    def register_filter_message_hook(self, hook: FilterMessageHook) -> None:
        """Let ``hook`` see, and filter, what each fetch brings."""
        self._hooks.filter.append(hook)

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

    def shutdown(self, timeout: float | None = None) -> None:
        """Leave the group.

        Waits up to `timeout` seconds (default: `await_termination_millis_when_shutdown`) for
        running listeners, then writes offsets and tells the brokers. A listener that still runs
        is left alone and its result thrown away, so its messages come again elsewhere.

        Returns within little more than `timeout` in any case; what is not done by then goes on in
        background. May be called again, by any thread and by a handler of a signal: a second call
        waits for the first one's work. A `start` that is under way raises ClientClosedError.
        """
        if timeout is None:
            timeout = self.config.await_termination_millis_when_shutdown / 1000
        self._life.end(checked_patience(timeout))

    def __enter__(self) -> Self:
        """Start, unless it is running already."""
        if self._life.state != "running":
            self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Shut down."""
        self.shutdown()

    def suspend(self) -> None:
        """Stop pulling; messages that are here already still reach the listener."""
        self._running().intake.suspend()

    def resume(self) -> None:
        """Pull again, and rebalance."""
        member = self._running()
        member.intake.resume()
        member.engine.rebalance_soon()

    @property
    def is_running(self) -> bool:
        """Whether it is started and not yet shut down."""
        return self._life.state == "running" and not self._life.is_foreign

    # --- while it runs ------------------------------------------------------------------------

    def update_core_pool_size(self, size: int) -> None:
        """Change the number of listener threads, from 1 to `consume_thread_max`."""
        if isinstance(size, bool) or not 0 < size <= self.config.consume_thread_max:
            raise ConfigError(
                "consume_thread_min", size, f"1 to {self.config.consume_thread_max} threads"
            )
        self._running().dispatch.resize(size)

    def send_message_back(self, message: MessageExt, delay_level: int = 0) -> None:
        """Ask for another delivery of a message.

        `delay_level` says when: 0 after the delay of its next attempt, 1 and more after that delay
        level, -1 never: it goes to the dead letters. Blocks until a broker has taken it, and raises
        MQClientException when none has.
        """
        from rocketmq_py.consumer.calls import ConsumerCalls
        from rocketmq_py.consumer.send_back import SendBack

        group = self.consumer_group
        calls = ConsumerCalls(self._running().engine, group, self.config)
        if not SendBack(group, calls).send(message, delay_level):
            raise MQClientException(
                f"message {message.msg_id} was neither sent back nor published again; the log "
                "says why",
                topic=message.topic,
            )

    def fetch_subscribe_message_queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic; NoRouteError when nobody knows it."""
        routes = self._running().engine.routes
        routes.route(topic)
        queues = routes.subscribe_queues(topic)
        if queues is None:
            raise NoRouteError(f"no route of topic {topic}: does it exist?", topic=topic)
        return sorted(queues)

    def assigned_queues(self) -> list[MessageQueue]:
        """Return the queues that this member has now, the retry topic's included."""
        return sorted(self._running().rebalancer.queues())

    @property
    def client_id(self) -> str:
        """Name of this client in its group; NotStartedError before the start."""
        self._life.check_process()
        if self._member is None:
            raise NotStartedError("the client id is made by start()")
        return self._member.engine.client_id

    # --- inside -------------------------------------------------------------------------------

    def _checked(self) -> Listening:
        group = self.consumer_group
        problem = group_problem(group)
        if problem is None and group == DEFAULT_CONSUMER_GROUP:
            problem = f"consumer_group must not be {DEFAULT_CONSUMER_GROUP}: choose a name"
        if problem is not None:
            raise MQClientException(problem)
        if self._listening is None:
            raise MQClientException(
                "there is no listener: call register_message_listener before start"
            )
        config = self.config
        if config.consume_thread_min > config.consume_thread_max:
            raise ConfigError(
                "consume_thread_min",
                config.consume_thread_min,
                f"must not exceed consume_thread_max ({config.consume_thread_max})",
            )
        return self._listening

    def _start(self, listening: Listening) -> None:
        from rocketmq_py.client.pool import acquire_instance
        from rocketmq_py.consumer.assembly import Basis, push_member

        group, life = self.consumer_group, self._life
        if not self._subscriptions.topics():
            logger.warning(
                "group %s: no topic is subscribed, so nothing will arrive: call subscribe()", group
            )
        if self.config.message_model is MessageModel.CLUSTERING:
            self._subscriptions.put(retry_topic(group), SUBSCRIBE_ALL)
        instance = acquire_instance(
            self.config,
            self._rpc_hooks,
            keep_instance_name=self.config.message_model is MessageModel.BROADCASTING,
        )
        basis = Basis(group, instance, self.config, self._subscriptions, self._clock, self._hooks)
        member = push_member(basis, listening)
        try:
            instance.register_consumer(group, member)
        except BaseException:
            instance.shutdown()
            raise
        self.config.fix()
        self._member = member
        life.at_end(instance.shutdown)
        life.at_end(member.end)
        instance.start()
        member.start()

    def _who(self) -> str:
        return f"consumer of group {self.consumer_group}"

    def _running(self) -> PushMember:
        self._life.check_process()
        member = self._member
        if member is not None and self._life.state == "running":
            return member
        if self._life.state == "closed":
            raise ClientClosedError(f"{self._who()} is shut down")
        raise NotStartedError(f"{self._who()} is not started")


def _check_tags(topic: str, expression: object) -> None:
    """Refuse conditions, and warn of tags that are hardly meant so.

    A tag may hold blanks, quotes and signs, and would match a message that has just this tag.
    """
    if expression is None:
        return
    if not isinstance(expression, str):
        kind = type(expression).__name__
        raise TypeError(f"subscription of {topic}: an expression is a str, not {kind}")
    for tag in filter(None, map(str.strip, expression.split("||"))):
        if _BLANK.search(tag) and _SQL.search(tag):
            raise UnsupportedOperationError(
                f"subscription of {topic}: {expression!r} is no tag expression; a condition is "
                "given as MessageSelector.by_sql(...), tags are separated by ||"
            )
        if _BLANK.search(tag) or _SIGN.search(tag):
            logger.warning(
                "subscription of %s: only messages whose tag is just %r match; tags are separated "
                "by ||, and a condition is given as MessageSelector.by_sql(...)",
                topic,
                tag,
            )
