"""Says now and then in the log how far a long task is.

One line at most every ``progressIntervalMs`` (0: never), the first one after that time, so that
short tasks say nothing; logged where the task runs, by ``logging.getLogger("spark_connector")``.
At WARNING, because Spark's Python workers show nothing below it and have no setting for that. Must
not know what is counted.
"""

import logging
from collections.abc import Callable

from rocketmq_py.clock import monotonic

_log = logging.getLogger("spark_connector")


class Progress:
    """Counts the rows of one task. One thread uses it.

    ``what`` begins the line, ``left_are`` says what the last number of it counts, such as "offsets
    left"; ``interval_ms`` 0 says nothing at all.
    """

    def __init__(
        self,
        what: str,
        left_are: str,
        interval_ms: int,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._what = what
        self._left_are = left_are
        self._interval_s = interval_ms / 1000
        self._now = now
        self._begun = self._said = now()
        self._rows = self._rows_said = 0

    def add(self, rows: int, left: int) -> None:
        """Count rows, and say how far it is when it is time to; ``left`` is what remains now."""
        self._rows += rows
        if not self._interval_s:
            return
        now = self._now()
        since = now - self._said
        if since < self._interval_s:
            return
        _log.warning(
            "%s: %d rows in %.0f s, %.0f rows/s now, %d %s",
            self._what,
            self._rows,
            now - self._begun,
            (self._rows - self._rows_said) / since,
            left,
            self._left_are,
        )
        self._said, self._rows_said = now, self._rows
