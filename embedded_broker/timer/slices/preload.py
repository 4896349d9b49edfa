"""From a slice's log to its seconds in memory, a few records at a time.

Answers: how a slice comes into memory before it begins, while messages go on arriving for it. The
wheel is made first and notes where the log ends; what is appended behind that goes into the wheel
directly, and everything before it is read here. So nothing is missed and nothing is read twice.
Must not know: when a slice is near. What is left of a slice when its time has come is read before
anything of it is fired: the current second waits.

Read on: `cells.py`, `engine.py` for when.
"""

from __future__ import annotations

from embedded_broker.clocks.timeline import Budget
from embedded_broker.timer.slices.cells import SliceWheel
from embedded_broker.timer.slices.dispatch import take_into
from embedded_broker.timer.slices.record import glance
from embedded_broker.timer.slices.state import SliceState
from embedded_broker.timer.stage import Stage

__all__ = ["SlicePreloadService"]

_CHECK_BUDGET_EVERY = 32


class SlicePreloadService(Stage[SliceState]):
    """Reads the logs of the slices in memory."""

    name = "SlicePreloadService"

    def __init__(self, state: SliceState) -> None:
        super().__init__(state)
        self.slices = 0
        self.records = 0

    @property
    def queue_depth(self) -> int:
        """Bytes of the slices in memory that are still to be read."""
        wheels = (self.state.current, self.state.following)
        return sum(one.load_to - one.loaded_to for one in wheels if one is not None)

    @property
    def counters(self) -> dict[str, int]:
        """Slices loaded, and records of them."""
        return {"slices": self.slices, "records": self.records}

    def load(self, wheel: SliceWheel, budget: Budget) -> bool:
        """Read on until the budget is used up; True when the slice is in memory."""
        if not wheel.is_loading:
            return True
        state = self.state
        records = state.log.scan(wheel.number, wheel.loaded_to, wheel.load_to)
        for count, (position, record) in enumerate(records, 1):
            self._take(wheel, position, record)
            wheel.loaded_to = position + len(record)
            if not count % _CHECK_BUDGET_EVERY and budget.exhausted():
                return not wheel.is_loading
        if wheel.is_loading:
            if wheel.loaded_to == 0 or state.log.skip_blank(wheel.number, wheel.loaded_to) < (
                wheel.load_to
            ):
                state.lost["unreadable slice"] += 1
            wheel.loaded_to = wheel.load_to
        self.slices += 1
        return True

    def _take(self, wheel: SliceWheel, position: int, record: memoryview) -> None:
        state = self.state
        self.records += 1
        seen = glance(record)
        if seen is None or state.slice_of(seen.second) != wheel.number:
            state.lost["malformed"] += 1
            return
        if seen.second >= state.current_second and seen.source not in state.done:
            take_into(state, wheel, seen, position, record)
