"""What the asyncio consumers of a group share: subscribing, their loop, their start and their end.

`GroupFace` is what a program holds: its calls never block the event loop. `LoopMember` is the group
member behind it, which works on threads. Must not know how a message reaches a task. Read on:
``consumer.py`` and ``lite_pull.py`` for the two consumers.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from rocketmq_py.aio.home import Home, to_its_end
from rocketmq_py.client.hooks import RPCHook
from rocketmq_py.client.life import PATIENCE_S, checked_patience
from rocketmq_py.clock import Clock
from rocketmq_py.consumer.face import SUBSCRIBE_ALL, TAG, CachedMessages, GroupConsumer
from rocketmq_py.consumer.hooks import ConsumeMessageHook, FilterMessageHook
from rocketmq_py.consumer.listener import MessageSelector
from rocketmq_py.errors import UnsupportedOperationError
from rocketmq_py.logs import get_logger

if TYPE_CHECKING:
    from rocketmq_py.client.instance import ClientInstance
    from rocketmq_py.consumer.core.member import Dispatch
    from rocketmq_py.consumer.settings import ConsumerConfig

_log = get_logger(__name__)

LOOP_BLOCK = "an async with block"
"""Where a program holds what belongs to an event loop."""

_Dispatch_co = TypeVar("_Dispatch_co", bound="Dispatch", covariant=True)
_Settings_co = TypeVar("_Settings_co", bound="ConsumerConfig", covariant=True)
_Member_co = TypeVar("_Member_co", bound="LoopMember[Any, Any]", covariant=True)


class LoopMember(GroupConsumer[_Dispatch_co], Generic[_Dispatch_co, _Settings_co]):
    """A member of a group that an asyncio consumer stands on.

    ``name`` is the consumer's in texts, ``settings`` are the consumer itself; ``group`` gives the
    group that it has now.
    """

    def __init__(
        self,
        name: str,
        settings: _Settings_co,
        group: Callable[[], str],
        clock: Clock,
        rpc_hooks: tuple[RPCHook, ...],
    ) -> None:
        self._name = name
        self._settings = settings
        self._group = group
        self.consumer_group = group()
        self._clock = clock
        self._rpc_hooks = rpc_hooks
        super().__attrs_post_init__()

    def __repr__(self) -> str:
        return f"{self._name}({self._group()!r}, {self._life.state})"

    @property
    def config(self) -> _Settings_co:
        """The settings."""
        return self._settings

    @property
    def is_new(self) -> bool:
        """Whether it may still be started."""
        return self._life.state == "new"

    def tell_if_unsubscribed(self) -> None:
        """Warn, once, when a task asks for messages and no topic is subscribed."""
        if self._member is not None:
            self._member.tell_if_unsubscribed()

    @property
    def patience_s(self) -> float:
        """How long the end takes at most, unless the program says otherwise."""
        return PATIENCE_S

    def leave(self, timeout: float | timedelta | None) -> Callable[[], None]:
        """Check the time-out, and return what ends the membership; that may block."""
        patience = self.patience_s if timeout is None else timeout
        return partial(self._life.end, checked_patience(patience))

    def leave_without_loop(self, engine: "ClientInstance") -> None:
        """Give the queues to members that can take messages: the event loop has closed."""
        if self._life.state == "closed":
            return
        _log.warning(
            "group %s: the event loop of its consumer has closed without shutdown(), so it leaves "
            "the group: use it in %s",
            self.consumer_group,
            self._REMEDY.block,
        )
        engine.submit_background(self._life.end, 0.0)


class GroupFace(ABC, Generic[_Member_co]):
    """What a program does with an asyncio consumer, however the messages reach it."""

    _home: Home
    _member: _Member_co

    def subscribe(
        self, topic: str, expression: str | MessageSelector | None = SUBSCRIBE_ALL
    ) -> None:
        """Subscribe to a topic, as `DefaultMQPushConsumer.subscribe`; after `start`, too.

        Never blocks. A `MessageSelector.by_sql` is for before the start, which asks a broker about
        it: `UnsupportedOperationError` after it.
        """
        is_condition = isinstance(expression, MessageSelector) and expression.expression_type != TAG
        if is_condition and self.is_running:
            raise UnsupportedOperationError(
                f"subscription of {topic}: a condition is asked about at a broker by start(): "
                "subscribe before it"
            )
        self._member.subscribe(topic, expression)

    def register_consume_message_hook(self, hook: ConsumeMessageHook) -> None:
        """Show all that reaches the program to ``hook``, as `DefaultMQPushConsumer` does.

        It is called on a thread of the client, or on the loop's: it must not block.
        """
        self._member.register_consume_message_hook(hook)

    def register_filter_message_hook(self, hook: FilterMessageHook) -> None:
        """Let ``hook`` see, and filter, what each fetch brings; it must not block."""
        self._member.register_filter_message_hook(hook)

    def cached(self) -> dict[str, CachedMessages]:
        """Say what waits for the program, or is in its hands, of each topic; {} if it is none."""
        return self._member.cached()

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic. Its queues are given up at the next rebalance."""
        self._member.unsubscribe(topic)

    async def start(self) -> None:
        """Join the group, as `DefaultMQPushConsumer.start`; cancelling it ends what it began.

        When it returns and the name server knows the topics, this member has its queues.
        """
        loop = self._home.take()
        try:
            await asyncio.to_thread(self._joining(loop))
        except asyncio.CancelledError:
            loop.run_in_executor(None, self._member.leave(0))
            raise

    @abstractmethod
    def _joining(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """Return what joins the group, and may block."""

    async def shutdown(self, timeout: float | timedelta | None = None) -> None:
        """Leave the group, within little more than ``timeout`` seconds (default: 3).

        Calls that wait for messages are let go. May be called again, and from any loop. It goes on
        when the task that awaits it is cancelled.
        """
        await to_its_end(self._member.leave(timeout))

    async def __aenter__(self) -> Self:
        """Start, unless it is running already."""
        if not self.is_running:
            await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.shutdown()

    def __repr__(self) -> str:
        return repr(self._member)

    @property
    def is_running(self) -> bool:
        """Whether it is started and not yet shut down; never in a forked child."""
        return self._member.is_running

    @property
    def client_id(self) -> str:
        """Name of this client in its group; `NotStartedError` before the start."""
        return self._member.client_id
