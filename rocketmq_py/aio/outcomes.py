"""Brings outcomes from the client's threads to an event loop, many with one wake-up.

A thread that has an outcome puts the waiting call into a queue; only the first one wakes the loop,
which then hands out all that are there. A loop that has closed gets none, and nobody is harmed.
Also keeps the book of the calls whose tasks have not gone on yet, for the clock of a test. Must not
know messages. Read on: ``producer.py`` for who waits.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rocketmq_py.client.activity import Book

HANDED_OUT_MAX: Final = 1_000
"""Outcomes that are handed out before other callbacks of the loop have their turn."""
ROUNDS: Final = 8
"""Rounds of the loop for which a call counts after its end.

Its task goes on in the first one. A task that awaits this task goes on two rounds later, as with
``asyncio.gather`` and task groups, and so on: this is for three such steps.
"""


class Outcomes:
    """The calls of one event loop that wait for the client's threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, book: Book) -> None:
        self.loop = loop
        self.book = book
        self._arrived: deque[asyncio.Future[None]] = deque()
        self._is_woken = False
        self._thread = threading.get_ident()
        self._ended: list[object] = []
        self._ages: deque[list[object]] = deque([[]] * ROUNDS)
        self._ages_run = False
        self.on_handed_out: Callable[[int], object] = _nothing

    # --- from thread to loop ---------------------------------------------------------------

    def put(self, waiter: asyncio.Future[None]) -> None:
        """Let the task that waits go on; any thread may call this, at any time."""
        self._arrived.append(waiter)
        if not self._is_woken:
            self._is_woken = True
            try:
                self.loop.call_soon_threadsafe(self._hand_out)
            except RuntimeError:  # the loop has closed, so none of its tasks goes on
                self._arrived.clear()

    def _hand_out(self) -> None:
        self._is_woken = False  # first: what is put from here on wakes the loop again
        arrived = self._arrived
        count = min(len(arrived), HANDED_OUT_MAX)
        for _ in range(count):
            waiter = arrived.popleft()
            if not waiter.done():  # its task was cancelled
                waiter.set_result(None)
        if arrived and not self._is_woken:
            self._is_woken = True
            self.loop.call_soon(self._hand_out)
        self.on_handed_out(count)

    def call(self, function: Callable[[], object]) -> bool:
        """Call a function on the loop's thread; False when the loop has closed."""
        try:
            self.loop.call_soon_threadsafe(function)
        except RuntimeError:
            return False
        return True

    @property
    def is_here(self) -> bool:
        """Whether this is the loop's thread."""
        return threading.get_ident() == self._thread

    # --- who counts ------------------------------------------------------------------------

    def begin(self, call: object) -> None:
        """Count a call from now on."""
        self.book.enter(call)

    def end(self, call: object) -> None:
        """Count it until its task has gone on, and those that wait for this task, too."""
        if self._ages_run:
            self._ended.append(call)
            return
        if self.is_here:
            with suppress(RuntimeError):  # the loop has closed
                self.loop.call_soon(self._grow_older)
                self._ages_run = True
                self._ended.append(call)
                return
        self.book.leave(call)  # the loop is gone, and the task was collected as garbage

    def _grow_older(self) -> None:
        ages = self._ages
        ages.append(self._ended)
        self._ended = []
        for call in ages.popleft():
            self.book.leave(call)
        if any(ages):
            self.loop.call_soon(self._grow_older)
        else:
            self._ages_run = False


def _nothing(_: int) -> None:
    """Tell nobody."""
