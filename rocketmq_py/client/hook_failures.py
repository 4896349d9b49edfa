"""Hooks of the application that raise: each is logged once a minute, however often it is called.

A hook is called for every message, so one that always fails would fill the log. Must not know what
a hook is for. Who calls hooks keeps a `HookFailures` for them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from attrs import define, field

from rocketmq_py.clock import monotonic

TOLD_EVERY_S: Final = 60.0
REMEMBERED_MAX: Final = 256
"""Failures that are remembered; there are hardly ever more than a few."""


@define(eq=False, repr=False)
class HookFailures:
    """What is logged of hooks that raise. Safe from any thread."""

    _logger: logging.Logger
    _now: Callable[[], float] = monotonic
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _told: dict[tuple[str, int, type[Exception]], tuple[float, int]] = field(
        factory=dict, init=False
    )
    """When each failure was told, and how many were passed over since."""

    def tell(self, kind: str, hook: object, error: Exception) -> None:
        """Log what a hook has raised, unless that was logged within the last minute."""
        key, now = (kind, id(hook), type(error)), self._now()
        with self._lock:
            told_at, passed_over = self._told.get(key, (None, 0))
            if told_at is not None and now - told_at < TOLD_EVERY_S:
                self._told[key] = told_at, passed_over + 1
                return
            if told_at is None and len(self._told) >= REMEMBERED_MAX:
                self._told.clear()
            self._told[key] = now, 0
        self._logger.error(
            "%s hook failed (told once a minute, %d not told before) hook=%r",
            kind,
            passed_over,
            hook,
            exc_info=error,
        )
