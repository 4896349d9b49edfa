"""Code of the application that raises: each fault is logged once a minute, however often it comes.

Hooks, callbacks and listeners are called for every message: one that always fails would fill the
log. One fault is one type of error from one place in the code. Must not know what is called; who
calls code of the application keeps an `ApplicationFaults` for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

from attrs import define, field

from rocketmq_py.clock import monotonic

TOLD_EVERY_S: Final = 60.0
REMEMBERED_MAX: Final = 256
"""Faults that are remembered; there are hardly ever more than a few."""

_Fault: TypeAlias = tuple[str, type[BaseException], str, int]


@define(eq=False, repr=False)
class ApplicationFaults:
    """What is logged of code that raises. Safe from any thread."""

    _logger: logging.Logger
    _now: Callable[[], float] = monotonic
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _told: dict[_Fault, tuple[float, int]] = field(factory=dict, init=False)
    """When each fault was told, and how often it was passed over since."""

    def tell(
        self, what: str, source: object, error: BaseException, level: int = logging.ERROR
    ) -> None:
        """Log that ``what`` failed, unless the same was logged within the last minute.

        ``source`` is what failed, or the case in which it did.
        """
        fault, now = _fault(what, error), self._now()
        with self._lock:
            told_at, passed_over = self._told.get(fault, (None, 0))
            if told_at is not None and now - told_at < TOLD_EVERY_S:
                self._told[fault] = told_at, passed_over + 1
                return
            if told_at is None and len(self._told) >= REMEMBERED_MAX:
                self._told.clear()
            self._told[fault] = now, 0
        self._logger.log(
            level,
            "%s failed (told once a minute, %d not told before): %s",
            what,
            passed_over,
            source,
            exc_info=error,
        )


def _fault(what: str, error: BaseException) -> _Fault:
    """Tell a fault by the type of the error, and by the line that has raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return what, type(error), "", 0
    return what, type(error), trace.tb_frame.f_code.co_filename, trace.tb_lineno
