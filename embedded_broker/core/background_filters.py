"""Filtering on a thread of its own, where it would hold the broker's lock (the door) too long.

Answers: where a filter is made or asked, and how who wanted to read goes on afterwards. Must not
know: what is read, what a filter looks for. Read on: ``embedded_broker/store/filter_budget.py`` for
when a message takes too long, ``filters/`` for when a filter does.
"""

from collections.abc import Callable

from attrs import define

from embedded_broker.core.filters import Filters, Unmade
from embedded_broker.core.refusals import Refused
from embedded_broker.core.waiters import Waiter, Waiters
from embedded_broker.door import Door
from embedded_broker.store.filter_budget import FilterBudget, Unjudged
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)


@define(eq=False, kw_only=True)
class BackgroundFilters:
    """Judges on another thread. ``do`` runs a call there; it refuses when too many wait."""

    _door: Door
    _filters: Filters
    _filter_budget: FilterBudget
    _do: Callable[[Callable[[], None]], None]

    def judge(self, one: Unjudged | Unmade, go_on: Callable[[], None]) -> None:
        """Make a filter outside the door, or ask it about a message there; then go on inside."""

        def work() -> None:
            if isinstance(one, Unmade):
                self._filters.make(one.asked)
                with self._door:
                    go_on()
                return
            try:
                accepts = one.judge()
            except Exception:
                logger.exception("a filter failed, so the message is passed over")
                accepts = False
            with self._door, self._filter_budget.knowing(one.entry, accepts=accepts):
                go_on()

        self._do(work)

    def judge_for(
        self, waiter: Waiter, waiters: Waiters, one: Unjudged | Unmade, *, is_over: bool
    ) -> Refused | None:
        """Do it for somebody who has waited, and ask again; gives the refusal of too many."""

        def go_on() -> None:
            if not waiter.peer.closed and not waiter.answer(is_over):
                waiters.resume(waiter)

        try:
            self.judge(one, go_on)
        except Refused as refused:
            return refused
        return None
