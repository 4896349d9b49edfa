"""Where calls wait when too much is in flight, until there is room for more.

The client refuses a call at once when permits or queues are full. Here it waits instead, in order,
and tries again: when an outcome has made room, when a later call has got in, and after a pause,
because other clients may use the same connections. Must not know messages. Bounds: each call waits
no longer than its time-out, and `LOOK_EVERY_S` lets `LOOKS_MAX` of them try.
"""

import asyncio
from collections import deque
from typing import Final

LOOK_EVERY_S: Final = 0.02
LOOKS_MAX: Final = 64


class Room:
    """The calls of one event loop that wait for room. For the thread of this loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiters: deque[asyncio.Future[bool]] = deque()
        self._look: asyncio.TimerHandle | None = None
        self.is_closed = False
        """Whether the client ends, so that there will be no room."""

    @property
    def is_wanted(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiters)

    async def wait(self, timeout_s: float) -> bool:
        """Wait until it is worth trying again; False when the time is over before that."""
        if self.is_closed:
            return True
        if timeout_s <= 0:
            return False
        waiter: asyncio.Future[bool] = self._loop.create_future()
        self._waiters.append(waiter)
        if self._look is None:
            self._look = self._loop.call_later(LOOK_EVERY_S, self._try_some)
        limit = self._loop.call_later(timeout_s, _end, waiter, False)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.let_in(1)  # the turn that it had is another one's
            raise
        finally:
            limit.cancel()

    def let_in(self, count: int) -> None:
        """Let so many calls try again, those first that have waited longest."""
        waiters = self._waiters
        while count > 0 and waiters:
            count -= _end(waiters.popleft(), True)

    def close(self) -> None:
        """Let nobody wait any more: the client ends."""
        self.is_closed = True
        self.let_in(len(self._waiters))

    def _try_some(self) -> None:
        self._look = None
        self.let_in(LOOKS_MAX)
        if self._waiters:
            self._look = self._loop.call_later(LOOK_EVERY_S, self._try_some)


def _end(waiter: asyncio.Future[bool], has_room: bool) -> int:
    """End a wait; 0 when it has ended already."""
    if waiter.done():
        return 0
    waiter.set_result(has_room)
    return 1
