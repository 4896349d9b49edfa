"""Messages that wait until the program asks for them, queue by queue.

An `Inbox` keeps fetched messages in their lanes and hands them over in `take`. What was handed over
leaves its lane: how far that is, is remembered until it is committed. It must not know brokers.
Facts: ``DefaultLitePullConsumerImpl.poll``, ``AssignedMessageQueue``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rocketmq_py.clock import monotonic

if TYPE_CHECKING:
    from rocketmq_py.consumer.core.lane import Lane
    from rocketmq_py.message import MessageExt


class Batch(NamedTuple):
    """Messages of one lane."""

    lane: Lane
    messages: Sequence[MessageExt]


class Inbox:
    """The messages of one consumer that wait; every method may be called by any thread."""

    calls_program: ClassVar = False

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._batches: deque[Batch] = deque()
        self._takers = 0
        self._closed = False

    def deliver(self, lane: Lane, messages: Sequence[MessageExt]) -> None:
        """Let messages that are in their lane already wait."""
        with self._changed:
            self._batches.append(Batch(lane, messages))
            self._changed.notify()

    def take(self, timeout_s: float) -> Batch | None:
        """Take the oldest messages, those of one fetch; wait so long for some.

        None: there are none, or the inbox is closed. Messages of a lane that is paused stay, those
        of one that was dropped are forgotten. The messages stay in their lane.
        """
        deadline = monotonic() + timeout_s
        with self._changed:
            self._takers += 1
            try:
                while not self._closed:
                    found = self._next()
                    left_s = deadline - monotonic()
                    if found is not None or left_s <= 0:
                        return found
                    self._changed.wait(left_s)
            finally:
                self._takers -= 1
        return None

    def put_back(self, batch: Batch) -> None:
        """Let messages that were taken be the next ones again."""
        with self._changed:
            self._batches.appendleft(batch)
            self._changed.notify()

    def look_again(self) -> None:
        """Let takers look again: a lane is not paused any more."""
        with self._changed:
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """Messages that wait to be taken."""
        with self._changed:
            return sum(len(one.messages) for one in self._batches if not one.lane.dropped)

    @property
    def unfinished(self) -> int:
        """Messages that somebody waits for right now: they are taken in a moment."""
        with self._changed:
            if not self._takers:
                return 0
            return sum(not (one.lane.dropped or one.lane.paused) for one in self._batches)

    def close(self, timeout: float) -> bool:
        """Let takers go, and forget what waits."""
        del timeout  # nothing runs here
        with self._changed:
            self._closed = True
            self._batches.clear()
            self._changed.notify_all()
        return True

    def _next(self) -> Batch | None:
        kept: list[Batch] = []
        found: Batch | None = None
        while self._batches and found is None:
            batch = self._batches.popleft()
            if batch.lane.dropped:
                continue
            if batch.lane.paused:
                kept.append(batch)
            else:
                found = batch
        self._batches.extendleft(reversed(kept))
        return found


def cached(lanes: Iterable[Lane]) -> int:
    """Count the messages that wait in lanes."""
    return sum(lane.count for lane in lanes)
