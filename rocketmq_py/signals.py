"""Waiting in the main thread until a signal handler says that it is time to stop.

Python runs handlers in the main thread, between two of its steps. A signal that comes just before
that thread begins to wait does not end the wait: its handler has its turn when the wait is over.
Must not know what is told. Read on: ``client/running.py``, which sets handlers.
"""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

LOOK_S: Final = 0.5
"""No wait takes longer, so what a handler tells is late by no more than this."""


def wait_until_told(told: SimpleQueue[None], goes_on: Callable[[], bool] = lambda: True) -> None:
    """Return when something is put into ``told``, or when ``goes_on`` gives False.

    A queue and no event: a handler may interrupt this thread anywhere, and `Event.set` would wait
    for ever for a lock that this thread has.
    """
    while goes_on():
        with suppress(Empty):
            told.get(timeout=LOOK_S)
            return
