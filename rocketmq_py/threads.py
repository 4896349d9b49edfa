"""Starting of background threads, and the log line for when the system has none left.

A process may reach a limit of threads for a while (``ulimit -u``, the ``pids`` of a container).
Who needs a thread then goes on without, tries again every `RETRY_MS` and calls `tell_of_shortage`,
which says so once a minute and says when it is over. Must not know what the threads do. Read on:
``client/background.py`` and ``transport/io_thread.py``, which start them.
"""

import threading
from collections.abc import Callable
from typing import Final, TypeAlias

from rocketmq_py.clock import monotonic
from rocketmq_py.logs import get_logger

_log = get_logger(__name__)

RETRY_MS: Final = 1_000
"""So often whoever has no thread tries to get one."""
TOLD_EVERY_S: Final = 60.0

ScheduleAfter: TypeAlias = Callable[[float, Callable[[], object]], object]
"""Runs a task after so many milliseconds, on a thread that is there."""


class _Shortage:
    """What is known about threads that could not be started in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.since: float | None = None
        self.is_over = False
        self.told: float | None = None
        self.which = ""
        self.error: RuntimeError | None = None


_shortage = _Shortage()


def started(thread: threading.Thread) -> bool:
    """Start a thread; False when the system starts none now. Logs nothing, so locks may be held."""
    try:
        thread.start()
    except RuntimeError as error:
        with _shortage.lock:
            if _shortage.since is None:
                _shortage.since = monotonic()
            _shortage.is_over = False
            _shortage.which, _shortage.error = thread.name, error
        return False
    if _shortage.since is not None:
        with _shortage.lock:
            _shortage.is_over = True
    return True


def tell_of_shortage() -> None:
    """Log once a minute that threads are missing, and once that they are no longer."""
    with _shortage.lock:
        since, told, is_over = _shortage.since, _shortage.told, _shortage.is_over
        which, error, now = _shortage.which, _shortage.error, monotonic()
        if since is None or (not is_over and told is not None and now - told < TOLD_EVERY_S):
            return
        _shortage.told = now
        if is_over:
            _shortage.reset()
    if not is_over:
        _log.warning(
            "thread %s cannot be started (%s), what it does waits and is tried again each second: "
            "%d threads run in this process, look at the limits of threads of its user (ulimit -u) "
            "and of its container (pids)",
            which,
            error,
            threading.active_count(),
        )
    elif told is not None:
        _log.warning("threads can be started again, after %.1f s", now - since)
