"""Dispatch: from the inbound queue to a slice's log, and to a second in memory.

Answers: which of the five ways a message goes, by its time and the current second, and how a
slice's log comes into memory before the slice begins. Must not know:
clocks, releases. After the dispatch rule of the time-sliced design:

| time of delivery | goes to |
|---|---|
| before the current second | its real topic (`LateComers`, which the fire service empties) |
| in the current slice | the slice's log and the current wheel |
| in the next slice, whose wheel exists | that slice's log and the next wheel |
| in the next slice, whose wheel does not | that slice's log |
| later | that slice's log |

The current second itself is not fired yet, so it belongs to the second row. A mark goes the way of
its victim: into the delete set of a second in memory, and as a tombstone into the slice's log.

Read on: `cells.py` for a slice in memory, `advance.py` for when one is loaded, `fire.py` for the
way out.
"""

from enum import Enum
from typing import Final, NamedTuple

from embedded_broker.clocks.timeline import Budget
from embedded_broker.timer.slices.cells import SliceWheel
from embedded_broker.timer.slices.integrity import differs
from embedded_broker.timer.slices.record import Glance, glance
from embedded_broker.timer.slices.state import Late, SliceState
from embedded_broker.timer.stage import Stage
from rocketmq_py.logs import get_logger

_LOG = get_logger(__name__)

_CHECK_BUDGET_EVERY: Final = 32


class Route(Enum):
    """Where a message of the inbound queue went."""

    REAL_TOPIC = "real topic"
    CURRENT_WHEEL = "current wheel"
    NEXT_WHEEL = "next wheel"
    LOG = "log only"
    NOWHERE = "nowhere"
    """Another node has delivered it, or its record cannot be kept."""


class Inbound(NamedTuple):
    """A readable message of the inbound queue; `record` is its bytes in the commit log."""

    queue_offset: int
    seen: Glance
    record: memoryview


class SliceDispatchService(Stage[SliceState]):
    """Reads the inbound queue entry by entry; what cannot be read is counted and passed."""

    name = "SliceDispatchService"

    def __init__(self, state: SliceState) -> None:
        super().__init__(state)
        self.routes: dict[Route, int] = dict.fromkeys(Route, 0)

    @property
    def queue_depth(self) -> int:
        """Entries between the pointer and the queue's end."""
        return max(0, self.state.queue_end - self.state.queue_offset)

    def lag_ms(self, now_ms: int) -> int:
        """Age of the next entry's message."""
        state = self.state
        entry = state.entry(state.queue_offset)
        stored_ms = -1 if entry is None else state.store.log.store_timestamp(entry[0])
        return 0 if stored_ms < 0 else max(0, now_ms - stored_ms)

    @property
    def counters(self) -> dict[str, int]:
        """How many messages went each way."""
        return {route.value: number for route, number in self.routes.items()}

    def next(self) -> Inbound | None:
        """Give the next message without moving; None at the end of the queue."""
        state = self.state
        queue = state.queue
        if queue is None:
            return None
        state.queue_offset = max(state.queue_offset, queue.min_offset)
        while state.queue_offset < queue.max_offset:
            found = self.read(state.queue_offset)
            if found is not None:
                return found
            state.queue_offset += 1
            state.changes += 1
        return None

    def read(self, queue_offset: int) -> Inbound | None:
        """Read an entry; None, counted, when it is no timer or done already."""
        state = self.state
        entry = state.entry(queue_offset)
        if entry is None:
            return None
        offset, size, _ = entry
        if offset in state.already_logged:
            state.already_logged.discard(offset)
            return None
        if offset in state.done:
            return None
        record = state.store.log.read(offset, size)
        if record is None:
            state.lost["unreadable"] += 1
            return None
        seen = glance(record)
        if seen is None or seen.request() is None:
            state.lost["malformed"] += 1
            return None
        return Inbound(queue_offset, seen, record)

    def put(self, inbound: Inbound) -> Route:
        """Send a message on its way. Raises StoreError when its slice's log takes no more."""
        route = self._put(inbound)
        self.routes[route] += 1
        self.state.changes += 1
        return route

    def note_kept_out(self, budget: Budget) -> bool:
        """Let the marks work that a hold keeps in the queue; False when time ran out first.

        Mostly they do since they arrived; others came before the hold, or lay in the store.
        """
        state = self.state
        state.kept_out_to = max(state.kept_out_to, state.queue_offset)
        end = state.queue_end
        while state.kept_out_to < end:
            seen = state.glance_at(state.kept_out_to)
            if seen is not None and seen.is_mark:
                state.kept_out.add(seen)
            state.kept_out_to += 1
            if not state.kept_out_to % _CHECK_BUDGET_EVERY and budget.exhausted():
                return state.kept_out_to >= end
        return True

    def _put(self, inbound: Inbound) -> Route:
        state = self.state
        queue_offset, seen, record = inbound
        if _master_has_it(state, queue_offset, seen.second):
            return Route.NOWHERE
        if seen.second < state.current_second:
            hold_late(state, seen, queue_offset)
            return Route.REAL_TOPIC
        if seen.size > state.log.record_size_max:
            state.lost["larger than a file of a slice"] += 1
            if not seen.is_mark:
                state.metrics.add(seen.topic, -1, state.store.last_store_timestamp)
            return Route.NOWHERE
        number = state.slice_of(seen.second)
        position = state.log.append(number, record)
        wheel = state.wheel_of(number)
        if wheel is None:
            return Route.LOG
        take_into(state, wheel, seen, position)
        return Route.CURRENT_WHEEL if wheel is state.current else Route.NEXT_WHEEL


class SlicePreloadService(Stage[SliceState]):
    """Reads the logs of slices into memory, a few records at a time, before each begins.

    Messages go on arriving for a slice meanwhile. Its wheel is made first and notes where the log
    ends; what is appended behind that goes into the wheel directly, and everything before it is
    read here. So nothing is missed and nothing is read twice. What is left of a slice when its
    time has come is read before anything of it is fired: the current second waits.
    """

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
        known = state.unchecked.pop(wheel.number, None)
        if known is not None and (what := differs(state.log, wheel.number, known)) is not None:
            _LOG.error("%s: its good records are loaded", what)
            state.lost["damaged slice"] += 1
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
            take_into(state, wheel, seen, position)


def take_into(state: SliceState, wheel: SliceWheel, seen: Glance, position: int) -> None:
    """Put the place of a record of a slice's log into the cells of the slice."""
    if not seen.is_mark:
        wheel.add(seen.second, position)
    elif not wheel.marks.add(seen):
        state.lost["malformed"] += 1


def hold_late(state: SliceState, seen: Glance, queue_offset: int) -> None:
    """Keep what came after its second was over; it is fired first of all."""
    if seen.is_mark:
        state.late.add_mark(seen, queue_offset)
    else:
        state.late.add(Late(seen.second, seen.source, queue_offset))


def _master_has_it(state: SliceState, queue_offset: int, second: int) -> bool:
    """Say whether the master that this node follows, or took over from, has seen to it."""
    master = state.master
    return (
        master is not None
        and queue_offset < master.delay_offset
        and second < master.current_second
        and queue_offset not in master.late
    )
