"""How many timers of the wheel are due within five seconds, a minute, ... a day.

Answers: the snapshot behind the gauge `rocketmq_timer_message_snapshot`: the numbers of the slots,
by their distance from the clock's slot, as `TimerMessageStore.calcTimerDistribution`. A timer on
its way to a later slot counts where it lies. Must not know: messages.

Read on: `timer/metrics.py` for the bounds and for the counts by topic.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator

from embedded_broker.clocks.timeline import Budget
from embedded_broker.timer.metrics import DISTRIBUTION_BOUNDS_S
from embedded_broker.timer.wheel.state import TimerState

__all__ = ["Distribution"]

_CHECK_BUDGET_EVERY = 64


class Distribution:
    """One snapshot; `step` it under the door until `done`, then read `buckets`."""

    def __init__(self, state: TimerState, now_ms: int) -> None:
        self.buckets: dict[int, int] = dict.fromkeys(DISTRIBUTION_BOUNDS_S, 0)
        """Upper bound in seconds to the number of timers between it and the bound before."""
        self.done = False
        self._state = state
        self._now_ms = state.floor(now_ms)
        self._turns = self._run()

    def step(self, budget: Budget) -> None:
        """Go on until the budget is used up."""
        while not self.done and not budget.exhausted():
            self.done = next(self._turns, True) is True

    def _run(self) -> Iterator[None]:
        """Yield where it may be interrupted."""
        state = self._state
        in_memory = Counter(entry.slot_ms for entry in state.due_heap)
        for loaded_ms, number in in_memory.items():
            self._count(loaded_ms, number)
        yield
        count = 0
        slot_ms = state.wheel.waiting_after(self._now_ms, state.curr_read_ms)
        while slot_ms is not None and slot_ms < self._now_ms + DISTRIBUTION_BOUNDS_S[-1] * 1000:
            self._count(slot_ms, state.wheel.get_num(slot_ms))
            count += 1
            if not count % _CHECK_BUDGET_EVERY:
                yield
            slot_ms = state.wheel.waiting_after(slot_ms + state.precision_ms, state.curr_read_ms)

    def _count(self, slot_ms: int, number: int) -> None:
        distance_ms = max(0, slot_ms - self._now_ms)
        bounds_ms = [bound * 1000 for bound in DISTRIBUTION_BOUNDS_S]
        index = bisect_right(bounds_ms, distance_ms)
        if index < len(bounds_ms):
            self.buckets[DISTRIBUTION_BOUNDS_S[index]] += number
