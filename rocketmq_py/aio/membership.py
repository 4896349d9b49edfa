"""The group member that an asyncio consumer stands on: the core of every consumer, on threads.

Its settings are those of the face in front of it, its workers are turns of the face's event loop.
Must not know how a message reaches a task; that is ``receiving.py``.
"""

from functools import partial
from typing import ClassVar, TypeAlias

from rocketmq_py.aio.group import LOOP_BLOCK, LoopMember
from rocketmq_py.aio.handler_tasks import HandlerTasks
from rocketmq_py.aio.receiving import Receiver
from rocketmq_py.client.activity import Book
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.life import Remedy
from rocketmq_py.consumer.assembly import Basis, PushMember, push_member
from rocketmq_py.consumer.dispatch.in_order import OrderlyDispatch
from rocketmq_py.consumer.dispatch.on_loop import LoopWorkers
from rocketmq_py.consumer.dispatch.pool import PoolDispatch
from rocketmq_py.consumer.face import PushedConsumer
from rocketmq_py.consumer.listener import Listening
from rocketmq_py.consumer.settings import PushConsumerConfig

_Dispatch: TypeAlias = PoolDispatch | OrderlyDispatch


class Membership(LoopMember[_Dispatch, PushConsumerConfig], PushedConsumer[_Dispatch]):
    """A member of a group whose messages reach the tasks of an event loop as they come."""

    _REMEDY: ClassVar[Remedy] = Remedy(
        LOOP_BLOCK,
        "iterate over it there, or await asyncio.Event().wait() when it has a listener",
    )

    receiver: Receiver | None = None
    """Who gets the messages, from the start on."""

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
                    abandoned=partial(self.leave_without_loop, engine),
                )
                basis = Basis(
                    self.consumer_group,
                    engine,
                    self._settings,
                    self._subscriptions,
                    self._clock,
                    self._hooks,
                )
                activity = engine.activity
                activity.keep(book)
                loop = receiver.outcomes.loop
                receiver.handler_tasks = activity.share(loop, HandlerTasks(loop))
                self._life.at_end(lambda _: activity.close(book))
                return push_member(basis, listening, receiver.workers)

            self._join(self._settings, make)

    @property
    def patience_s(self) -> float:
        """How long the end takes at most: as the settings say."""
        return self._settings.await_termination_millis_when_shutdown / 1000
