"""When the timer store does what it does now and then.

Answers: in which rhythm of the session clock counts are revised, old log files removed and the
progress is logged. Must not know: how; that is in ``embedded_broker/timer/upkeep.py``. The
rhythms are those of ``TimerMessageStore.start`` of the original.
"""

import logging
from collections.abc import Callable

from attrs import define

from embedded_broker.clocks.session import Session
from embedded_broker.clocks.timeline import Budget
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.tables.topics.table import TopicTable
from embedded_broker.timer.stage import EngineState
from embedded_broker.timer.upkeep import CLEAN_EVERY_MS, FORGET_EVERY_MS, REVISE_EVERY_MS, Upkeep
from rocketmq_py.clock import Clock

__all__ = ["TimerHousekeeping"]

logger = logging.getLogger(__name__)


@define(eq=False)
class TimerHousekeeping:
    """Keeps the timers of one broker tidy; everything is called under the door.

    `in_background` does what takes long, outside the door.
    """

    _upkeep: Upkeep[EngineState]
    _topics: TopicTable
    _clock: Clock
    _session: Session
    _in_background: Callable[[Callable[[], None]], None]

    def start(self, config: BrokerConfig) -> None:
        """Plan the first of everything."""
        every = self._session.every
        every(CLEAN_EVERY_MS, self._clean)
        every(FORGET_EVERY_MS, self._forget_topics)
        every(REVISE_EVERY_MS, self._revise_counts)
        every(config.int("timerProgressLogIntervalMs"), self._log_progress)

    def _clean(self) -> None:
        """Files are let go under the door and removed outside of it."""
        work = self._upkeep.begin_cleaning()
        if work is not None:
            self._in_background(work)

    def _forget_topics(self) -> None:
        self._upkeep.forget_topics(self._topics.names())

    def _revise_counts(self) -> None:
        if self._upkeep.begin_revision(self._session.now_ms):
            self._go_on_revising()

    def _go_on_revising(self) -> None:
        """Count in turns: each holds the door for a few milliseconds."""
        if self._upkeep.go_on(self._clock.now_ms, Budget()):
            self._session.after(1, self._go_on_revising, "housekeeping")

    def _log_progress(self) -> None:
        if logger.isEnabledFor(logging.INFO):
            text = self._upkeep.progress(self._clock.now_ms)
            self._in_background(lambda: logger.info("%s", text))
