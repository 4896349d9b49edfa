"""When the timer store does what it does now and then.

Answers: in which rhythm of the session clock counts are revised, old log files removed and the
progress is logged. Must not know: how; that is in ``embedded_broker/timer/wheel/upkeep.py``. The
rhythms are those of ``TimerMessageStore.start`` of the original.
"""

import logging

from embedded_broker.clocks.timeline import Budget
from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.timer.wheel.upkeep import CLEAN_EVERY_MS, FORGET_EVERY_MS, REVISE_EVERY_MS

__all__ = ["TimerHousekeeping"]

logger = logging.getLogger(__name__)


class TimerHousekeeping:
    """Keeps the timers of one broker tidy; everything is called under the door."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self._upkeep = core.timers.upkeep

    def start(self) -> None:
        """Plan the first of everything."""
        core = self._core
        core.session.every(CLEAN_EVERY_MS, self._clean)
        core.session.every(FORGET_EVERY_MS, self._forget_topics)
        core.session.every(REVISE_EVERY_MS, self._revise_counts)
        core.session.every(core.config.int("timerProgressLogIntervalMs"), self._log_progress)

    def _clean(self) -> None:
        """Files are let go under the door and removed outside of it."""
        work = self._upkeep.begin_cleaning()
        if work is not None:
            self._core.in_background(work)

    def _forget_topics(self) -> None:
        self._upkeep.forget_topics(self._core.topics.names())

    def _revise_counts(self) -> None:
        if self._upkeep.begin_revision(self._core.session_clock.now_ms):
            self._go_on_revising()

    def _go_on_revising(self) -> None:
        """Count in turns: each holds the door for a few milliseconds."""
        if self._upkeep.go_on(self._core.clock.now_ms, Budget()):
            self._core.session.after(1, self._go_on_revising, "housekeeping")

    def _log_progress(self) -> None:
        if logger.isEnabledFor(logging.INFO):
            text = self._upkeep.progress(self._core.clock.now_ms)
            self._core.in_background(lambda: logger.info("%s", text))
