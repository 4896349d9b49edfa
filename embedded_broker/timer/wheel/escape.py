"""Where a due message is put: into this broker's own store, or wherever a bridge sends it.

Answers: how a put whose answer comes later is told from one that is done. Must not know: timers,
levels, connections. After `org.apache.rocketmq.broker.failover.EscapeBridge`: a master puts into
its own store, a slave that acts as master sends to the master of another broker. Only the first
is built; a bridge of the second kind is set as `escape` of `TimerMessageStore` and of
`ScheduleMessageService`.

Read on: `release.py` and `timer/levels/service.py`, which ask; both wait for a late answer without
blocking.
"""

from __future__ import annotations

from collections.abc import Callable

from embedded_broker.store.inner import InnerMessage, PutResult

__all__ = ["Bridge", "LatePut"]


class LatePut:
    """A put whose answer is not there yet; whoever made it calls `finish` once, under the door."""

    __slots__ = ("_waiter", "result")

    def __init__(self) -> None:
        self.result: PutResult | None = None
        """The answer; None until it came."""
        self._waiter: Callable[[], None] | None = None

    def finish(self, result: PutResult) -> None:
        """Give the answer. A second one is ignored: the first has been acted upon."""
        if self.result is not None:
            return
        self.result = result
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter()

    def when_done(self, call: Callable[[], None]) -> None:
        """Call this when the answer comes; only the last one asked for is kept."""
        self._waiter = call


Bridge = Callable[[InnerMessage], PutResult | LatePut]
"""Takes a message and answers, at once or later. It must not wait: it runs under the door."""
