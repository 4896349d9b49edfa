"""What the sliced engine does now and then: revise counts, say how far it is.

Answers: how its timers are counted and where it is; when that is asked for is the same for both
engines (`../upkeep.py`). Slices that are over are removed by the flush, so there is nothing to
clean here. Must not know: who calls.

Read on: `recount.py` for how timers are counted.
"""

from __future__ import annotations

from collections.abc import Generator

from embedded_broker.timer.slices.record import SECOND_MS
from embedded_broker.timer.slices.recount import Recount
from embedded_broker.timer.slices.state import SliceState
from embedded_broker.timer.wheel.upkeep import Upkeep

__all__ = ["SliceUpkeep"]


class SliceUpkeep(Upkeep[SliceState]):
    """The upkeep of one sliced store."""

    def _version(self) -> tuple[int, ...]:
        return self._state.metrics.counter, self._state.changes

    def _count(self) -> Generator[None, None, dict[str, int]]:
        recount = Recount(self._state)
        yield from recount.run()
        return recount.counts

    def _position(self, now_ms: int) -> str:
        state = self._state
        behind_ms = max(0, now_ms - state.current_second * SECOND_MS)
        return (
            f"sliced timer progress: {behind_ms} ms behind, queue offset {state.queue_offset}, "
            f"{len(state.log.slices)} slices, {state.metrics.total} pending, "
            f"{state.lost.total()} dropped"
        )
