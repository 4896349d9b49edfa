"""A message in the hands of a task, which settles it by an await.

`Delivery` is the one of every consumer (``consumer/core/delivery.py``) with calls that are awaited.
Must not know where messages come from.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from functools import partial

from rocketmq_py.aio import handler_tasks
from rocketmq_py.aio.calls import Waiting
from rocketmq_py.aio.outcomes import Outcomes
from rocketmq_py.consumer.core import delivery as core
from rocketmq_py.message import MessageExt
from rocketmq_py.send_result import MessageQueue


class Delivery:
    """Messages that an asyncio consumer has handed over, and that wait to be settled.

    Settle it once, at any time, in the consumer's event loop: `ack` when the messages are handled,
    `nack` to get them again, `dead` to put them among the dead letters. What is not settled within
    ``consume_timeout`` comes again by itself, and so does what is open when its consumer ends.

    A settlement goes on when the task that awaits it is cancelled.
    """

    __slots__ = ("_delivery", "_outcomes")

    def __init__(self, delivery: core.Delivery, outcomes: Outcomes) -> None:
        self._delivery = delivery
        self._outcomes = outcomes

    @property
    def messages(self) -> Sequence[MessageExt]:
        """The messages: one, unless ``consume_message_batch_max_size`` asks for more."""
        return self._delivery.messages

    @property
    def message(self) -> MessageExt:
        """The only message, or the first one of a batch."""
        return self._delivery.message

    @property
    def queue(self) -> MessageQueue:
        """The queue that the messages lie in, that of a retry included."""
        return self._delivery.queue

    @property
    def attempt(self) -> int:
        """Number of this delivery of the (first) message, from 1."""
        return self._delivery.attempt

    @property
    def is_settled(self) -> bool:
        """Whether it has been settled."""
        return self._delivery.is_settled

    @property
    def next_due(self) -> datetime | None:
        """After `nack`: when the messages come again, by this machine's clock and about."""
        return self._delivery.next_due

    async def ack(self) -> None:
        """Say that the messages are handled; they do not come again.

        Raises `DeliveryEndedError` when it was settled before, or can no longer be: the consumer
        has ended, the queue has gone to another member, or ``consume_timeout`` is over.
        """
        await self._settled(self._delivery.ack)

    async def nack(self, delay: timedelta | None = None) -> None:
        """Let the messages come again after ``delay`` (default: that of the attempt).

        Returns when a broker has taken it; delays and errors are those of `rocketmq_py.Delivery`.
        """
        await self._settled(partial(self._delivery.nack, delay))

    async def dead(self) -> None:
        """Put the messages among the dead letters at once. Raises as `nack`."""
        await self._settled(self._delivery.dead)

    def __repr__(self) -> str:
        return f"aio.{self._delivery!r}"

    async def _settled(self, settle: Callable[[], Future[None]]) -> None:
        outcomes = self._outcomes
        outcomes.begin(self)
        try:
            future = settle()
            if not future.done():
                waiting = Waiting(outcomes)
                waiting.watch(future)
                await waiting.waiter
            future.result()
        finally:
            outcomes.end(self)
            handler_tasks.settled(self)
