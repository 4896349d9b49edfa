"""Waits as coroutines, for tests whose clients run in an event loop.

Answers: ``broker.aio``. A condition is evaluated on the loop's own thread, between the steps of
its tasks; what may take long runs on another thread. Must not know: what is waited for. Loaded
only when it is used, so that a broker without an event loop does not import asyncio. Read on:
``embedded_broker/clocks/waiting.py`` and ``clocks/settle.py`` for the blocking twins.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from functools import partial, wraps
from threading import Event
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from embedded_broker.clocks.clock import BrokerClock
from embedded_broker.clocks.clock_run import Advanced
from embedded_broker.clocks.waiting import describe, looks


class Watched(Protocol):
    """As much of a broker as is needed to wait for it."""

    @property
    def clock(self) -> BrokerClock:
        """What moves its time."""

    def watch(self, event: Event) -> None:
        """Set the event after every change."""

    def unwatch(self, event: Event) -> None:
        """Leave the event alone."""

    def has_delivered(self, topic: str, count: int) -> bool:
        """Whether so many messages became visible in a topic."""

    def has_members(self, group: str, count: int) -> bool:
        """Whether so many consumers of a group are connected."""

    def seen(self) -> str:
        """Tell in words what there is, for a wait that fails."""


Broker = TypeVar("Broker", bound=Watched)
P = ParamSpec("P")
R = TypeVar("R")


class _InThread(Generic[P, R]):
    """A call of the broker's clock as a coroutine with the same arguments, on another thread."""

    def __init__(self, call: Callable[Concatenate[BrokerClock, P], R]) -> None:
        self._name = call.__name__
        self.__doc__ = call.__doc__

    def __get__(
        self, face: "AsyncFace[Any]", owner: type | None = None
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        call: Callable[P, R] = getattr(face.broker.clock, self._name)

        @wraps(call)
        async def in_thread(*args: P.args, **kwargs: P.kwargs) -> R:
            return await asyncio.to_thread(call, *args, **kwargs)

        return in_thread


class AsyncFace(Generic[Broker]):
    """The waits of one broker as coroutines, with arguments and errors of the blocking calls."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    settle = _InThread(BrokerClock.settle)
    advance = _InThread(BrokerClock.advance)
    jump_to = _InThread(BrokerClock.jump_to)
    run = _InThread(BrokerClock.run)

    async def run_until(
        self,
        condition: Callable[[], object],
        *,
        at_most: float | timedelta | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the arguments of the blocking call
    ) -> Advanced:
        """Go forward until ``condition()`` is true; see ``BrokerClock.run_until``.

        The condition is evaluated on the loop's thread. Time stands meanwhile.
        """
        run = self.broker.clock.begin_run_until(at_most, timeout)
        await asyncio.to_thread(run.settle)
        while not run.holds(condition):
            if not await asyncio.to_thread(run.step):
                raise run.failed(condition)
        return Advanced(fired=run.fired, until=self.broker.clock.now())

    async def wait_for(
        self,
        condition: Callable[[Broker], object],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the arguments of the blocking call
    ) -> None:
        """Wait until ``condition(broker)`` is true; see ``EmbeddedBroker.wait_for``."""
        await self._wait(lambda: condition(self.broker), lambda: describe(condition), timeout)

    async def wait_delivered(
        self,
        topic: str,
        count: int = 1,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the arguments of the blocking call
    ) -> None:
        """Wait until messages became visible in a topic; see ``EmbeddedBroker.wait_delivered``."""
        enough = partial(self.broker.has_delivered, topic, count)
        await self._wait(enough, lambda: f"{count} messages in topic {topic!r}", timeout)

    async def wait_members(
        self,
        group: str,
        count: int = 1,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the arguments of the blocking call
    ) -> None:
        """Wait until consumers of a group are connected; see ``EmbeddedBroker.wait_members``."""
        enough = partial(self.broker.has_members, group, count)
        await self._wait(enough, lambda: f"{count} members in group {group!r}", timeout)

    async def _wait(
        self,
        condition: Callable[[], object],
        expected: Callable[[], str],
        timeout_s: float | None,
    ) -> None:
        broker = self.broker
        waker = _Waker(asyncio.get_running_loop())
        onlookers = broker.clock.onlookers
        broker.watch(waker)
        try:
            with onlookers.watching(waker) as look:
                for wait_s in looks(
                    condition,
                    timeout_s=broker.clock.watchdog if timeout_s is None else timeout_s,
                    expected=expected,
                    seen=broker.seen,
                    look=look,
                    onlookers=onlookers,
                ):
                    with suppress(TimeoutError):
                        await asyncio.wait_for(waker.changed.wait(), wait_s)
                    waker.changed.clear()
        finally:
            broker.unwatch(waker)


class _Waker(Event):
    """What the door sets, on any thread: passed on to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.changed = asyncio.Event()
        self._loop = loop

    def set(self) -> None:
        """Wake the waiting task; a loop that has closed needs no waking."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.changed.set)
