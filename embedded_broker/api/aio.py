"""Waits as coroutines, for tests whose clients run in an event loop.

Answers: ``broker.aio``. A condition is evaluated on the loop's own thread, between the steps of
its tasks; what may take long runs on another thread. Must not know: what is waited for. Loaded
only when it is used, so that a broker without an event loop does not import asyncio. Read on:
``embedded_broker/clocks/waiting.py`` and ``clocks/settle.py`` for the blocking twins.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from threading import Event
from typing import Generic, Protocol, TypeVar

from embedded_broker.clocks.clock import Advanced, BrokerClock
from embedded_broker.clocks.settle import Settled
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


class AsyncFace(Generic[Broker]):
    """The waits of one broker as coroutines, with arguments and errors of the blocking calls."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def settle(
        self,
        timeout: float = 5,  # noqa: ASYNC109 - the arguments of the blocking call
        *,
        check: bool = True,
        groups: Iterable[str] | None = None,
    ) -> Settled:
        """Wait until the clients are idle; see ``BrokerClock.settle``."""
        settle = self._broker.clock.settle
        return await asyncio.to_thread(settle, timeout, check=check, groups=groups)

    async def advance(
        self,
        amount: float | timedelta = 0,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        age: bool = False,
        roll_elision: bool = True,
    ) -> Advanced:
        """Move time forward; see ``BrokerClock.advance``."""
        return await asyncio.to_thread(
            self._broker.clock.advance,
            amount,
            days=days,
            hours=hours,
            minutes=minutes,
            seconds=seconds,
            age=age,
            roll_elision=roll_elision,
        )

    async def jump_to(
        self, when: datetime, *, age: bool = False, roll_elision: bool = True
    ) -> Advanced:
        """Move time forward to an aware datetime; see ``BrokerClock.jump_to``."""
        jump_to = self._broker.clock.jump_to
        return await asyncio.to_thread(jump_to, when, age=age, roll_elision=roll_elision)

    async def run(
        self,
        amount: float | timedelta = 0,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        timeout: float | None = None,  # noqa: ASYNC109 - the arguments of the blocking call
    ) -> Advanced:
        """Move time forward and let the clients react on the way; see ``BrokerClock.run``."""
        return await asyncio.to_thread(
            self._broker.clock.run,
            amount,
            days=days,
            hours=hours,
            minutes=minutes,
            seconds=seconds,
            timeout=timeout,
        )

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
        run = self._broker.clock.begin_run_until(at_most, timeout)
        await asyncio.to_thread(run.settle)
        while not run.holds(condition):
            if not await asyncio.to_thread(run.step):
                raise run.failed(condition)
        return Advanced(fired=run.fired, until=self._broker.clock.now())

    async def wait_for(
        self,
        condition: Callable[[Broker], object],
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the arguments of the blocking call
    ) -> None:
        """Wait until ``condition(broker)`` is true; see ``EmbeddedBroker.wait_for``."""
        await self._wait(lambda: condition(self._broker), lambda: describe(condition), timeout)

    async def wait_delivered(
        self,
        topic: str,
        count: int = 1,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the arguments of the blocking call
    ) -> None:
        """Wait until messages became visible in a topic; see ``EmbeddedBroker.wait_delivered``."""
        enough = partial(self._broker.has_delivered, topic, count)
        await self._wait(enough, lambda: f"{count} messages in topic {topic!r}", timeout)

    async def wait_members(
        self,
        group: str,
        count: int = 1,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the arguments of the blocking call
    ) -> None:
        """Wait until consumers of a group are connected; see ``EmbeddedBroker.wait_members``."""
        enough = partial(self._broker.has_members, group, count)
        await self._wait(enough, lambda: f"{count} members in group {group!r}", timeout)

    async def _wait(
        self,
        condition: Callable[[], object],
        expected: Callable[[], str],
        timeout_s: float | None,
    ) -> None:
        broker = self._broker
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
