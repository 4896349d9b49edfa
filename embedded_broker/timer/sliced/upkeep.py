"""What the sliced engine does now and then: revise counts, say how far it is.

Answers: which of it is due, and what it costs under the door; the same calls as
`embedded_broker.timer.upkeep`. Must not know: who calls. Slices that are over are removed by the
flush, so there is nothing to clean here.

Read on: `recount.py` for how timers are counted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, tzinfo
from typing import Final

from embedded_broker.config import BrokerConfig
from embedded_broker.timeline import Budget
from embedded_broker.timer.sliced.record import SECOND_MS
from embedded_broker.timer.sliced.recount import Recount
from embedded_broker.timer.sliced.stages import SliceStage
from embedded_broker.timer.sliced.state import SliceState
from rocketmq_py.protocol.names import LMQ_PREFIX, SYSTEM_TOPIC_PREFIX

__all__ = ["SliceUpkeep"]

_LOG = logging.getLogger(__name__)
_REVISE_AGAIN_AFTER_MS: Final = 70 * 60_000


class SliceUpkeep:
    """The upkeep of one sliced store; everything is under the door.

    `settle` brings counts up to date with new marks. `zone` is that of the hours in
    timerCheckMetricsWhen: by default the machine's own.
    """

    def __init__(
        self,
        state: SliceState,
        config: BrokerConfig,
        stages: Collection[SliceStage],
        *,
        settle: Callable[[], None],
        zone: tzinfo | None = None,
    ) -> None:
        self._state = state
        self._config = config
        self._stages = stages
        self._settle = settle
        self._zone = zone
        self._revised_at_ms = 0
        self._recount: Recount | None = None
        self._steps: Iterator[None] = iter(())
        self._version = (0, 0)
        self.revised = 0
        """Topics whose count was wrong and was put right."""
        self.given_up = 0
        """Revisions that a change of the counts ended."""

    def begin_revision(self, wall_ms: int) -> bool:
        """Begin to count anew if the hour has come; then call `go_on` until it says False.

        `wall_ms` is wall time. Not again within 70 minutes, and not with timerEnableCheckMetrics
        off.
        """
        if not self._config.flag("timerEnableCheckMetrics"):
            return False
        hour = datetime.fromtimestamp(wall_ms / 1000, UTC).astimezone(self._zone).hour
        hours = {int(one) for one in self._config.text("timerCheckMetricsWhen").split(";")}
        if hour not in hours or wall_ms - self._revised_at_ms <= _REVISE_AGAIN_AFTER_MS:
            return False
        self._revised_at_ms = wall_ms
        self._settle()
        self._recount = Recount(self._state)
        self._steps = self._recount.run()
        self._version = self._now()
        return True

    def go_on(self, now_ms: int, budget: Budget) -> bool:
        """Count until the budget is used up; True while there is more to do."""
        recount = self._recount
        if recount is None:
            return False
        if self._now() != self._version:
            self._recount = None
            self.given_up += 1
            return False
        for _ in self._steps:
            if budget.exhausted():
                return True
        self._recount = None
        self._put_right(recount.counts, now_ms)
        return False

    def forget_topics(self, known: Collection[str]) -> None:
        """Forget the counts of topics that are gone; a topic that timers wait for stays."""
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

    def begin_cleaning(self) -> Callable[[], None] | None:
        """Give the work of removing old files: none, a flush removes slices that are over."""
        return None

    def progress(self, now_ms: int) -> str:
        """Say in one line where each service is: pointers, what waits for it, for how long."""
        state = self._state
        waiting = ", ".join(
            f"{stage.name} {stage.queue_depth} ({stage.lag_ms(now_ms)} ms)"
            for stage in self._stages
            if stage.queue_depth or stage.lag_ms(now_ms)
        )
        behind_ms = max(0, now_ms - state.current_second * SECOND_MS)
        return (
            f"sliced timer progress: {behind_ms} ms behind, queue offset {state.queue_offset}, "
            f"{len(state.log.slices)} slices, {state.metrics.total} pending, "
            f"{state.lost.total()} dropped, waiting: {waiting or 'nothing'}"
        )

    def _now(self) -> tuple[int, int]:
        """Give what changes with every timer that comes, goes or is recalled."""
        return self._state.metrics.counter, self._state.changes

    def _put_right(self, counts: dict[str, int], now_ms: int) -> None:
        metrics = self._state.metrics
        threshold = self._config.int("timerMetricSmallThreshold")
        for topic in {*counts, *metrics.topics}:
            found, shown = counts.get(topic, 0), metrics.count(topic)
            if found != shown and shown < threshold:
                _LOG.warning("timer count of %s was %d and is %d", topic, shown, found)
                metrics.add(topic, found - shown, now_ms)
                self.revised += 1
