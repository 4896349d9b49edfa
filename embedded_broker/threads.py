"""Joining of a thread, whatever became of its start.

Answers: whether a thread has ended. Must not know: what it did.
"""

from threading import Event, Thread, current_thread
from typing import Final

from rocketmq_py.clock import monotonic

BEGIN_S: Final = 0.2
LOOK_S: Final = 0.005


def has_ended(thread: Thread, limit_s: float | None = None) -> bool:
    """Wait until a thread that was told to end has done so; false when it has not in that time.

    One that never began has ended. It may still begin for a moment, when a Ctrl-C came while it was
    being started: `Thread.join` refuses to wait for such a one.
    """
    until = monotonic() + BEGIN_S
    while True:
        try:
            thread.join(limit_s)
        except RuntimeError:
            if thread is current_thread():
                raise
            if monotonic() >= until:
                return True
            Event().wait(LOOK_S)
        else:
            return not thread.is_alive()
