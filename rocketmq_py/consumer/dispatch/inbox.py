"""Messages that wait until the program asks for them, queue by queue.

An `Inbox` keeps fetched messages in their lanes and hands them over to whoever asks: a thread that
waits in `take`, or the owner of a future (`ask`). What was handed over leaves its lane: how far
that is, is remembered until it is committed. It must not know brokers. Facts:
``DefaultLitePullConsumerImpl.poll``, ``AssignedMessageQueue``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, ClassVar, NamedTuple

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

    unfinished: ClassVar = 0
    """Nothing is called here: whoever asks has what waits at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: deque[Batch] = deque()
        self._asked: deque[Future[Batch | None]] = deque()
        self._closed = False

    def deliver(self, lane: Lane, messages: Sequence[MessageExt]) -> None:
        """Let messages that are in their lane already wait."""
        with self._lock:
            self._batches.append(Batch(lane, messages))
        self._hand_over()

    def ask(self) -> Future[Batch | None]:
        """Ask for the oldest messages, those of one fetch; who asked first gets them first.

        The future has them as soon as there are any, None when the inbox is closed. Whoever waits
        no longer must `give_up`. Messages of a lane that is paused stay, those of one that was
        dropped are forgotten. The messages stay in their lane.
        """
        asked: Future[Batch | None] = Future()
        with self._lock:
            if self._closed:
                asked.set_result(None)
            else:
                self._asked.append(asked)
        self._hand_over()
        return asked

    def give_up(self, asked: Future[Batch | None]) -> Batch | None:
        """Ask no longer; return what has come in this moment, to be used or `put_back`."""
        with self._lock:
            if asked in self._asked:
                self._asked.remove(asked)
                return None
        return asked.result()  # it is there, or another thread has it in its hands

    def take(self, timeout_s: float) -> Batch | None:
        """Ask, and wait so long; None: there are none, or the inbox is closed."""
        asked = self.ask()
        try:
            return asked.result(timeout_s)
        except TimeoutError:
            return self.give_up(asked)
        except BaseException:  # the thread is interrupted
            found = self.give_up(asked)
            if found is not None:
                self.put_back(found)
            raise

    def put_back(self, batch: Batch) -> None:
        """Let messages that were taken be the next ones again."""
        with self._lock:
            self._batches.appendleft(batch)
        self._hand_over()

    def look_again(self) -> None:
        """Hand over what waits of a lane that is not paused any more."""
        self._hand_over()

    @property
    def waiting(self) -> int:
        """Messages that wait to be taken."""
        with self._lock:
            return sum(len(one.messages) for one in self._batches if not one.lane.dropped)

    def close(self, timeout: float) -> bool:
        """Let go who asks, and forget what waits."""
        del timeout  # nothing runs here
        with self._lock:
            self._closed = True
            self._batches.clear()
            asked, self._asked = self._asked, deque()
        for one in asked:
            one.set_result(None)
        return True

    def _hand_over(self) -> None:
        while True:
            with self._lock:
                found = self._next() if self._asked else None
                if found is None:
                    return
                asked = self._asked.popleft()
            asked.set_result(found)  # without the lock: who is told may ask again

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
