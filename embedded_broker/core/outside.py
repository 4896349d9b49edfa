"""Messages that take too long to be judged inside the door.

Answers: where a filter is asked about one of them, and how who wanted to read goes on afterwards.
Must not know: what is read, what a filter looks for. Read on: ``embedded_broker/store/judging.py``
for when a message takes too long.
"""

import logging
from collections.abc import Callable

from attrs import define

from embedded_broker.core.refusals import Refused
from embedded_broker.core.waiters import Waiter, Waiters
from embedded_broker.door import Door
from embedded_broker.store.judging import Judging, Unjudged

logger = logging.getLogger(__name__)


@define(eq=False, kw_only=True)
class Outside:
    """Judges on another thread. ``do`` runs a call there; it refuses when too many wait."""

    _door: Door
    _judging: Judging
    _do: Callable[[Callable[[], None]], None]

    def judge(self, one: Unjudged, go_on: Callable[[], None]) -> None:
        """Ask a filter about a message outside the door, then go on inside with the verdict."""

        def work() -> None:
            try:
                accepts = one.wanted.accepts(one.entry, one.properties)
            except Exception:
                logger.exception("a filter failed, so the message is passed over")
                accepts = False
            with self._door, self._judging.knowing(one.entry, accepts=accepts):
                go_on()

        self._do(work)

    def judge_for(
        self, waiter: Waiter, waiters: Waiters, one: Unjudged, *, is_over: bool
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
