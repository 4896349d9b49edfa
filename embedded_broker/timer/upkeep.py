"""Upkeep of a timer engine: its counts are revised, old log files removed, its progress logged.

Answers: which of it is due, and what it costs under the door. Must not know: who calls: times are
given, `embedded_broker/lifecycle/node.py` asks on the session clock. After
`TimerMessageStore.start` and `checkAndReviseMetrics`, `TimerMetrics.cleanMetrics` and
`TimerFlushService` of the original.

Counts are exact while the broker runs; a revision is a second look that repairs what a defect or
a changed file left wrong. It counts in turns, and a count that changes meanwhile ends it: then
the next one has its chance.

Read on: `wheel/upkeep.py` and `slices/upkeep.py` for how timers are counted, `metrics.py` for where
the counts are.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator
from datetime import tzinfo
from typing import Final, Generic

from attrs import define, field

from embedded_broker.clocks.instants import instant
from embedded_broker.clocks.timeline import Budget
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.timer.stage import Stage, State_co
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.names import LMQ_PREFIX, SYSTEM_TOPIC_PREFIX

_LOG = get_logger(__name__)

CLEAN_EVERY_MS: Final = 30_000
FORGET_EVERY_MS: Final = 3 * 60_000
REVISE_EVERY_MS: Final = 45 * 60_000
"""How often to ask whether the hour has come."""
_REVISE_AGAIN_AFTER_MS: Final = 70 * 60_000


@define(eq=False, repr=False)
class Upkeep(ABC, Generic[State_co]):
    """The upkeep of one store, whichever its engine; all but the work it returns is under the door.

    `settle` brings counts up to date with new marks and loads what is to be loaded. `zone` is that
    of the hours in timerCheckMetricsWhen: by default the machine's own.
    """

    _state: State_co
    _config: BrokerConfig
    _stages: Collection[Stage[State_co]]
    _settle: Callable[[], None]
    _zone: tzinfo | None = None
    _revised_at_ms: int = field(default=0, init=False)
    _counting: Generator[None, None, dict[str, int]] | None = field(default=None, init=False)
    _counted_version: tuple[int, ...] = field(default=(), init=False)
    revised: int = field(default=0, init=False)
    """Topics whose count was wrong and was put right."""
    given_up: int = field(default=0, init=False)
    """Revisions that a change of the counts ended."""

    @abstractmethod
    def _version(self) -> tuple[int, ...]:
        """Give what changes with every timer that comes, goes, is recalled or loaded."""

    @abstractmethod
    def _count(self) -> Generator[None, None, dict[str, int]]:
        """Count what waits by topic, stopping after each record."""

    @abstractmethod
    def _position(self, now_ms: int) -> str:
        """Say where the pointers are."""

    # --- counts ------------------------------------------------------------------------------

    def begin_revision(self, wall_ms: int) -> bool:
        """Begin to count anew if the hour has come; then call `go_on` until it says False.

        `wall_ms` is wall time. Not again within 70 minutes, and not with
        timerEnableCheckMetrics off.
        """
        if not self._config.flag("timerEnableCheckMetrics"):
            return False
        if not self._is_hour(wall_ms) or wall_ms - self._revised_at_ms <= _REVISE_AGAIN_AFTER_MS:
            return False
        self._revised_at_ms = wall_ms
        self._settle()
        self._counting = self._count()
        self._counted_version = self._version()
        return True

    def go_on(self, now_ms: int, budget: Budget) -> bool:
        """Count until the budget is used up; True while there is more to do."""
        counting = self._counting
        if counting is None:
            return False
        if self._version() != self._counted_version:
            self._counting = None
            self.given_up += 1
            return False
        while True:
            try:
                next(counting)
            except StopIteration as end:
                self._counting = None
                self._put_right(end.value, now_ms)
                return False
            if budget.exhausted():
                return True

    def _put_right(self, counts: dict[str, int], now_ms: int) -> None:
        metrics = self._state.metrics
        threshold = self._config.int("timerMetricSmallThreshold")
        for topic in {*counts, *metrics.topics}:
            found, shown = counts.get(topic, 0), metrics.count(topic)
            if found != shown and shown < threshold:
                _LOG.warning("timer count of %s was %d and is %d", topic, shown, found)
                metrics.add(topic, found - shown, now_ms)
                self.revised += 1

    def _is_hour(self, wall_ms: int) -> bool:
        hour = instant(wall_ms).astimezone(self._zone).hour
        hours = self._config.text("timerCheckMetricsWhen").split(";")
        return hour in {int(one) for one in hours}

    def forget_topics(self, known: Collection[str]) -> None:
        """Forget the counts of topics that are gone; a topic that timers wait for stays.

        System topics and light queues stay too, as in the original.
        """
        metrics = self._state.metrics
        metrics.keep_only(
            [
                topic
                for topic in metrics.topics
                if topic in known
                or topic.startswith((SYSTEM_TOPIC_PREFIX, LMQ_PREFIX))
                or metrics.count(topic)
            ]
        )

    # --- files -------------------------------------------------------------------------------

    def begin_cleaning(self) -> Callable[[], None] | None:
        """Let go of files that nothing needs any more; run the result outside the door."""
        return None

    # --- progress ----------------------------------------------------------------------------

    def progress(self, now_ms: int) -> str:
        """Say in one line where each service is: pointers, what waits for it, for how long."""
        waiting = ", ".join(
            f"{stage.name} {stage.queue_depth} ({stage.lag_ms(now_ms)} ms)"
            for stage in self._stages
            if stage.queue_depth or stage.lag_ms(now_ms)
        )
        return f"{self._position(now_ms)}, waiting: {waiting or 'nothing'}"
