"""Messages on their way to tasks: to those that ask for the next one, or to a listener's own.

A dispatch gives each `rocketmq_py.Delivery` to a `Receiver`, on whatever thread it is; the receiver
hands it over on the loop's thread. `Iterating` gives it to the task that has waited longest, and
lets the dispatch begin only as many as are asked for: what nobody asks for stays in its lane, where
flow control bounds it. `Listening` starts a task for each, and holds its place until this has
ended. Must not know brokers. Read on: ``../consumer/dispatch/on_loop.py``.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeAlias

from attrs import define

from rocketmq_py.aio.delivery import Delivery
from rocketmq_py.aio.handler_tasks import HandlerTasks
from rocketmq_py.aio.outcomes import Outcomes
from rocketmq_py.client.application_faults import ApplicationFaults
from rocketmq_py.consumer.core import delivery as core
from rocketmq_py.consumer.dispatch.on_loop import LoopWorkers
from rocketmq_py.consumer.listening import tell_raised
from rocketmq_py.errors import DeliveryEndedError
from rocketmq_py.logs import get_logger

_log = get_logger(__name__)

Listener: TypeAlias = Callable[[Delivery], Coroutine[Any, Any, object]]
"""Handles messages: what it has not settled when it returns is handled."""


class Receiver(ABC):
    """Who gets the messages of one consumer."""

    def __init__(self, outcomes: Outcomes, group: str) -> None:
        self.outcomes = outcomes
        self.group = group
        self.is_closed = False

    workers: LoopWorkers
    """Who begins the calls; set before the first message."""

    handler_tasks: HandlerTasks
    """What handlers have started; set before the first message."""

    @abstractmethod
    def take(self, delivery: core.Delivery) -> None:
        """Take messages on any thread."""

    def close(self) -> None:
        """Hand nothing over any more, on the loop's thread."""
        self.is_closed = True

    def let_caller_wait(self) -> None:  # noqa: B027 - only listeners are waited for
        """Let an end that a listener waits for not wait for this listener, on the loop's thread."""


class Iterating(Receiver):
    """Gives messages to those who ask for the next ones."""

    def __init__(self, outcomes: Outcomes, group: str) -> None:
        super().__init__(outcomes, group)
        self._ready: deque[core.Delivery] = deque()
        self._askers: deque[asyncio.Future[core.Delivery | None]] = deque()

    def take(self, delivery: core.Delivery) -> None:
        """Keep it for the loop's thread, unless this is the one."""
        if self.outcomes.is_here:
            self._offer(delivery)
        else:
            self.workers.pass_on(partial(self._offer, delivery))

    async def next(self) -> Delivery | None:
        """Wait for the next messages; None when the consumer has ended.

        A task that is cancelled meanwhile takes none away: another one gets them.
        """
        if self._ready:
            return self._handed(self._ready.popleft())
        if self.is_closed:
            return None
        asker: asyncio.Future[core.Delivery | None] = self.outcomes.loop.create_future()
        self._askers.append(asker)
        self.workers.widen(1)
        try:
            found = await asker
        except asyncio.CancelledError:
            if not asker.cancelled():
                found = asker.result()
                if found is not None:
                    self._offer(found, first=True)
            elif asker in self._askers:
                self._askers.remove(asker)
                self.workers.widen(-1)
            raise
        return None if found is None else self._handed(found)

    def close(self) -> None:
        """Let nobody wait any more."""
        super().close()
        self._ready.clear()
        while self._askers:
            asker = self._askers.popleft()
            if not asker.done():
                asker.set_result(None)

    def _handed(self, delivery: core.Delivery) -> Delivery:
        """Hand it to the running task; what this creates before it has settled it counts."""
        handed = Delivery(delivery, self.outcomes)
        self.handler_tasks.begin(self.group, until_settled=handed)
        return handed

    def _offer(self, delivery: core.Delivery, *, first: bool = False) -> None:
        asker = self._next_asker()
        if asker is not None:
            asker.set_result(delivery)
        elif not self.is_closed:  # who has asked for it was cancelled meanwhile
            self._ready.insert(0 if first else len(self._ready), delivery)

    def _next_asker(self) -> asyncio.Future[core.Delivery | None] | None:
        """Take who has waited longest; the place of each who has gone is taken back."""
        while self._askers:
            asker = self._askers.popleft()
            self.workers.widen(-1)
            if not asker.done():
                return asker
        return None


@define(eq=False)
class _RunningListener:
    """A running listener of a receiver, one of those for which the consumer's end waits."""

    receiver: Receiver
    is_given_back: bool = False

    def give_back(self) -> None:
        """Let another message have it; idempotent."""
        if not self.is_given_back:
            self.is_given_back = True
            self.receiver.workers.give_back()


_place_here: ContextVar[_RunningListener | None] = ContextVar("_place_here", default=None)
"""The place of the listener that runs here; tasks that it makes, as ``wait_for`` does, have it."""


class Listening(Receiver):
    """Starts a task of the listener for each delivery."""

    def __init__(self, outcomes: Outcomes, group: str, listener: Listener) -> None:
        super().__init__(outcomes, group)
        self._listener = listener
        self._faults = ApplicationFaults(_log)
        self._tasks: dict[asyncio.Task[None], _RunningListener] = {}

    def take(self, delivery: core.Delivery) -> None:
        """Hold its place, and begin on the loop's thread."""
        self.workers.hold()
        # A task has the context variables of who starts it: hooks may have set some for the call.
        self.workers.pass_on(partial(copy_context().run, self._begin, delivery))

    def _begin(self, delivery: core.Delivery) -> None:
        if self.is_closed:
            self.workers.give_back()
            return
        place = _RunningListener(self)
        task = self.outcomes.loop.create_task(self._handle(delivery, place))
        self._tasks[task] = place  # the loop itself keeps no task alive
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task).give_back()

    def let_caller_wait(self) -> None:
        """Give the place of the listener back that runs here, if it is one of this receiver."""
        place = _place_here.get()
        if place is not None and place.receiver is self:
            place.give_back()

    async def _handle(self, delivery: core.Delivery, place: _RunningListener) -> None:
        _place_here.set(place)
        self.handler_tasks.begin(self.group)
        handed = Delivery(delivery, self.outcomes)
        try:
            await self._listener(handed)
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                tell_raised(self._faults, self.group, delivery, error)
            if not delivery.is_settled:
                core.fail(delivery)
            if not isinstance(error, Exception):
                raise
        else:
            if not delivery.is_settled:
                with suppress(DeliveryEndedError):  # the queue has gone: it comes again elsewhere
                    await handed.ack()
