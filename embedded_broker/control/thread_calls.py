"""Threads of the control face: a call of the broker that waits holds up nobody else.

Answers: how an event loop calls what blocks. At most ``CALLS_MAX`` run at once; more are refused.
The threads are daemons: a wait that nobody ends does not keep a process alive. Must not know: what
is called. Read on: ``app.py``.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import BoundedSemaphore, Thread, current_thread
from typing import Final, TypeVar

from rocketmq_py.clock import monotonic

CALLS_MAX: Final = 16
_Given = TypeVar("_Given")


class TooManyCalls(Exception):  # noqa: N818 - reads as what it is
    """As many calls as may run at once do run."""


class ThreadCalls:
    """Runs calls on threads and gives their results to an event loop."""

    def __init__(self) -> None:
        self._free = BoundedSemaphore(CALLS_MAX)
        self._running: dict[Thread, Callable[[BaseException], object]] = {}
        """Each thread under way, and how who awaits it is told that it is not waited for."""

    async def run(self, work: Callable[[], _Given]) -> _Given:
        """Give what ``work()`` gives, or raise what it raises. Raises ``TooManyCalls``."""
        if not self._free.acquire(blocking=False):
            raise TooManyCalls
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Given] = loop.create_future()

        def call() -> None:
            tell: Callable[[], object]
            try:
                tell = partial(_give, done, work())
            except BaseException as error:  # noqa: BLE001 - it is raised where it was awaited
                tell = partial(_fail, done, error)
            self._free.release()
            self._running.pop(thread, None)
            with suppress(RuntimeError):  # the loop has ended: nobody waits any more
                loop.call_soon_threadsafe(tell)

        thread = Thread(target=call, name="embedded-broker-control-call", daemon=True)
        self._running[thread] = lambda error: loop.call_soon_threadsafe(_fail, done, error)
        thread.start()
        return await done

    def give_up(self, error: BaseException) -> None:
        """Raise ``error`` wherever a call is awaited. What it calls may go on."""
        for tell in list(self._running.values()):
            with suppress(RuntimeError):  # the loop has ended
                tell(error)

    def join(self, timeout_s: float) -> None:
        """Wait until the calls under way have ended, so many seconds at most."""
        until = monotonic() + timeout_s
        for thread in {*self._running} - {current_thread()}:
            thread.join(max(until - monotonic(), 0))


def _give(done: "asyncio.Future[_Given]", result: _Given) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: "asyncio.Future[_Given]", error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
