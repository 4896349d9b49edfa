"""The group member that an asyncio consumer stands on: the core of every consumer, on threads.

Its settings are those of the face in front of it, its workers are turns of the face's event loop.
Must not know how a message reaches a task; that is ``receiving.py``.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from rocketmq_py.aio.receiving import Receiver
from rocketmq_py.client.activity import Book
from rocketmq_py.client.hooks import RPCHook
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.life import checked_patience
from rocketmq_py.clock import Clock
from rocketmq_py.consumer.assembly import Basis, PushMember, push_member
from rocketmq_py.consumer.dispatch.in_order import OrderlyDispatch
from rocketmq_py.consumer.dispatch.on_loop import LoopWorkers
from rocketmq_py.consumer.dispatch.pool import PoolDispatch
from rocketmq_py.consumer.face import TAG, GroupConsumer, PushedConsumer
from rocketmq_py.consumer.hooks import Hooks
from rocketmq_py.consumer.listener import Listening, MessageSelector
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import UnsupportedOperationError
from rocketmq_py.logs import get_logger

_log = get_logger(__name__)


def subscribe(
    member: GroupConsumer[Any], topic: str, expression: str | MessageSelector | None
) -> None:
    """Subscribe without waiting; UnsupportedOperationError for what a broker is asked about."""
    is_condition = isinstance(expression, MessageSelector) and expression.expression_type != TAG
    if is_condition and member.is_running:
        raise UnsupportedOperationError(
            f"subscription of {topic}: a condition is asked about at a broker by start(): "
            "subscribe before it"
        )
    member.subscribe(topic, expression)


class Membership(PushedConsumer[PoolDispatch | OrderlyDispatch]):
    """A member of a group, whose settings are ``settings``; ``group`` gives its name."""

    receiver: Receiver | None = None
    """Who gets the messages, from the start on."""

    def __init__(
        self,
        settings: PushConsumerConfig,
        group: Callable[[], str],
        clock: Clock,
        rpc_hooks: tuple[RPCHook, ...],
    ) -> None:
        self._settings = settings
        self._group = group
        self.consumer_group = group()
        self._clock = clock
        self._rpc_hooks = rpc_hooks
        super().__attrs_post_init__()

    def __repr__(self) -> str:
        return f"aio.Consumer({self._group()!r}, {self._life.state})"

    @property
    def is_new(self) -> bool:
        """Whether it may still be started."""
        return self._life.state == "new"

    def join(self, receiver: Receiver, book: Book, room: int, *, is_orderly: bool) -> None:
        """Join the group; may block. ``room``: of the workers, see `LoopWorkers`."""
        with self._life.starting():
            self.receiver, self.consumer_group = receiver, self._group()
            self._check_group()
            listening = Listening(receiver.take, is_orderly, settles=True)

            def make(engine: ClientInstance) -> PushMember:
                receiver.workers = LoopWorkers(
                    engine,
                    receiver.outcomes.call,
                    room,
                    is_over=receiver.outcomes.loop.is_closed,
                    abandoned=partial(self._leave_without_loop, engine),
                )
                basis = Basis(
                    self.consumer_group,
                    engine,
                    self._settings,
                    self._subscriptions,
                    self._clock,
                    Hooks(),
                )
                activity = engine.activity
                activity.keep(book)
                self._life.at_end(lambda _: activity.close(book))
                return push_member(basis, listening, receiver.workers)

            self._join(self._settings, make)

    def leave(self, timeout: float | timedelta | None) -> Callable[[], None]:
        """Check the time-out, and return what ends the membership; that may block."""
        if timeout is None:
            timeout = self._settings.await_termination_millis_when_shutdown / 1000
        return partial(self._life.end, checked_patience(timeout))

    def _leave_without_loop(self, engine: ClientInstance) -> None:
        """Give the queues to members that can take messages."""
        if self._life.state == "closed":
            return
        _log.warning(
            "group %s: the event loop of its consumer has closed without shutdown(), so it leaves "
            "the group: use it in an async with block",
            self.consumer_group,
        )
        engine.submit_background(self._life.end, 0.0)
