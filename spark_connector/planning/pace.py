"""How many offsets a micro-batch may have, so that they take no longer than a user's budget.

A batch cannot stop early: Spark writes its end down before its tasks begin, and goes on from there
whatever they did. So the time is turned into a number of offsets when the end is chosen, by what
the batch before took. Nobody tells how long tasks took; what can be seen is the time from the
choice of an end to the question for what follows. It has a part that does not depend on offsets,
such as the start of tasks and the wait for a trigger. The shortest batch shows how large that is,
and only what is beyond counts. Must not know queues or who asks. Read on: ``tracker.py``.
"""

from collections.abc import Callable
from math import inf

from rocketmq_py.clock import monotonic

FIRST_OFFSETS = 1_000
"""A first batch has so many at most; and no later one is made smaller, or a budget that is shorter
than the pauses of a machine would end in batches of one."""
GROWTH = 2


class Pace:
    """Learns from each batch how many offsets the next one may have. One thread uses it."""

    def __init__(self, budget_s: float, now: Callable[[], float] = monotonic) -> None:
        self.offsets_most = FIRST_OFFSETS
        self._budget_s = budget_s
        self._now = now
        self._shortest_s = inf
        self._offsets = 0
        self._begun = 0.0

    def begin(self, offsets: int) -> None:
        """Note that a batch of so many offsets begins now."""
        self._offsets, self._begun = offsets, self._now()

    def end(self) -> None:
        """Note that the batch is over.

        One that had far fewer offsets than it could have had tells nothing, unless it was too long.
        """
        took_s = self._now() - self._begun
        self._shortest_s = min(self._shortest_s, took_s)
        beyond_s = took_s - self._shortest_s
        if beyond_s <= self._budget_s and GROWTH * self._offsets < self.offsets_most:
            return
        fit = self._offsets * self._budget_s / beyond_s if beyond_s else inf
        self.offsets_most = int(max(FIRST_OFFSETS, min(fit, GROWTH * self.offsets_most)))
