"""The timers of a sliced store in the order in which they are due.

Answers: which timers come next after a given place, without changing anything. They are walked
slice by slice and second by second; a slice that is not in memory is read once, in turns, and its
order kept for the next page. What is still in the inbound queue, or late, is sorted in between.
Time may pass between two turns: a slice that is over then is passed, for all of it has left.
Must not know: who asks, the door.

Read on: `../listing.py` for what is given, `engine.py` (`pending`, `find`, `look_ahead`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from embedded_broker.clocks.timeline import Budget
from embedded_broker.timer.listing import Pending, Place, Wanted, pending_of
from embedded_broker.timer.metrics import DISTRIBUTION_BOUNDS_S
from embedded_broker.timer.request import delete_key, victim_root
from embedded_broker.timer.slices.cells import Cell, Mark, SliceWheel
from embedded_broker.timer.slices.copies import find_copies, is_moved
from embedded_broker.timer.slices.dispatch import mark_of, take_into
from embedded_broker.timer.slices.record import SECOND_MS, glance
from embedded_broker.timer.slices.recount import Recount
from embedded_broker.timer.slices.state import SliceState
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.message_codec import MessageRecord, decode_record
from rocketmq_py.protocol.properties import Prop

__all__ = ["SliceDistribution", "SliceListing", "SliceWalk"]

_STEPS_BACK = 100


class _Stray(NamedTuple):
    """A timer that lies in no slice's log: late, or still in the inbound queue."""

    second: int
    source: int


class SliceListing:
    """What walks share: the order of one slice that is not in memory."""

    def __init__(self, state: SliceState) -> None:
        self.state = state
        self._kept: SliceWheel | None = None

    def walk(self, wanted: Wanted) -> SliceWalk:
        """Begin a listing."""
        return SliceWalk(self, wanted)

    def find(self, unique_key: str, topic: str | None) -> list[Pending]:
        """Give every waiting timer with this id, oldest first."""
        return [
            self.describe(copy.record, copy.second)
            for copy in find_copies(self.state, unique_key, topic)
            if copy.waits and copy.marked_by is None
        ]

    def describe(self, record: MessageRecord, second: int) -> Pending:
        """Say what is known of a waiting message."""
        return pending_of(
            record,
            due_ms=second * SECOND_MS,
            root=record.commit_log_offset,
            accepted_ms=self._accepted_ms(record),
            read=lambda: record,
        )

    def _accepted_ms(self, record: MessageRecord) -> int:
        """Give the store time of the first copy, over changes of its time; else of the oldest."""
        for _ in range(_STEPS_BACK):
            back = victim_root(record.properties)
            earlier = None if back is None else self.state.store.record(back)
            if earlier is None or earlier.topic != self.state.topic:
                break
            record = earlier
        return record.store_timestamp

    def wheel(self, number: int) -> Iterator[SliceWheel | None]:
        """Read a slice as far as needed; gives None in between, and last its cells."""
        state = self.state
        found = state.wheel_of(number)
        if found is not None and not found.is_loading:
            yield found
            return
        kept = self._kept
        if kept is None or kept.number != number:
            kept = SliceWheel(number, state.length, load_to=0, keeps_messages=False)
            self._kept = kept
        log = state.log.slices.get(number)
        kept.load_to = 0 if log is None else log.end
        for position, record in state.log.scan(number, kept.loaded_to, kept.load_to):
            if position >= kept.loaded_to:  # else another walk was here meanwhile
                seen = glance(record)
                if seen is not None and state.slice_of(seen.second) == number:
                    take_into(state, kept, seen, position, record)
                kept.loaded_to = position + len(record)
            yield None
        if state.log.slices.get(number) is not log:
            self._kept = None
            return
        kept.loaded_to = max(kept.loaded_to, kept.load_to)
        yield kept

    def strays(self, marks: dict[int, dict[str, list[Mark]]]) -> Iterator[_Stray | None]:
        """Give what lies in no slice's log, unsorted; None in between.

        `marks` takes the marks that are still in the inbound queue, by second and key.
        """
        state = self.state
        for late in state.late:
            yield _Stray(late.second, late.source)
        queue = state.queue
        for queue_offset in range(state.queue_offset, state.queue_end):
            entry = None if queue is None else queue.entry(queue_offset)
            if entry is None or entry[0] in state.already_logged:
                continue
            record = state.store.log.read(entry[0], entry[1])
            seen = None if record is None else glance(record)
            if seen is not None and not seen.is_mark:
                yield _Stray(seen.second, seen.source)
                continue
            mark = None if seen is None else mark_of(seen)
            if seen is not None and mark is not None:
                marks.setdefault(seen.second, {}).setdefault(mark[0], []).append(mark[1])
            yield None


class SliceWalk:
    """One listing; see `listing.Walk`. Everything it reads comes in order already."""

    def __init__(self, listing: SliceListing, wanted: Wanted) -> None:
        self.found: list[Pending] = []
        self.done = wanted.limit <= 0
        self._listing = listing
        self._state = listing.state
        self._wanted = wanted
        self._stray_marks: dict[int, dict[str, list[Mark]]] = {}
        self._sources: set[int] = set()
        """Of what was found: between two turns a stray may enter the log of a slice."""
        self._turns = self._run()

    @property
    def first_due_ms(self) -> int | None:
        """When the first of the page leaves."""
        return self.found[0].due_ms if self.found else None

    def step(self, budget: Budget) -> None:
        """Go on until the budget is used up; under the door."""
        while not self.done:
            if next(self._turns, True) is True:
                self.done = True
            elif budget.exhausted():
                return

    def arrange(self) -> None:
        """Nothing is to be put in order."""

    def _run(self) -> Iterator[None]:
        """Yield where it may be interrupted."""
        strays: list[_Stray] = []
        for stray in self._listing.strays(self._stray_marks):
            if stray is not None:
                strays.append(stray)
            yield
        strays.sort(reverse=True)
        first = max(self._state.current_second, self._wanted.after.due_ms // SECOND_MS)
        number = self._next_slice(self._state.slice_of(first) - 1)
        while number is not None and not self._is_full:
            wheel: SliceWheel | None = None
            for wheel in self._listing.wheel(number):
                if wheel is None:
                    yield
            for second in [] if wheel is None else wheel.seconds():
                cell = None if wheel is None or second < first else wheel.cell(second)
                if cell is None:
                    continue
                yield from self._take_strays(strays, second)
                if second * SECOND_MS >= self._wanted.before_ms or self._is_full:
                    break
                yield from self._take_cell(number, second, cell)
            if (number + 1) * self._state.length * SECOND_MS >= self._wanted.before_ms:
                break
            number = self._next_slice(number)
        yield from self._take_strays(strays, None)

    def _next_slice(self, after: int) -> int | None:
        return min((one for one in self._state.log.slices if one > after), default=None)

    @property
    def _is_full(self) -> bool:
        return len(self.found) >= self._wanted.limit

    def _take_strays(self, strays: list[_Stray], before: int | None) -> Iterator[None]:
        """Take the strays of earlier seconds, from the end of the list; None: all that are left."""
        while strays and (before is None or strays[-1].second < before):
            stray = strays.pop()
            record = self._state.store.record(stray.source)
            if record is not None and record.topic == self._state.topic:
                marks = self._stray_marks.get(stray.second, {})
                self._take(record, stray.second, marks, self._state.late.marks(stray.second))
            yield

    def _take_cell(self, number: int, second: int, cell: Cell) -> Iterator[None]:
        cell_marks, stray_marks = cell.marks, self._stray_marks.get(second, {})
        for position, kept in sorted(cell.left()):
            if self._is_full:
                return
            view = self._state.log.read(number, position) if kept is None else memoryview(kept)
            try:
                record = None if view is None else decode_record(view, check_crc=False)
            except RecordError:
                record = None
            if record is not None:
                self._take(record, second, cell_marks, stray_marks)
            yield

    def _take(self, record: MessageRecord, second: int, *marks: Mapping[str, list[Mark]]) -> None:
        state, wanted = self._state, self._wanted
        source, due_ms = record.commit_log_offset, second * SECOND_MS
        if self._is_full or due_ms >= wanted.before_ms or Place(due_ms, source) <= wanted.after:
            return
        if source in state.done or source in state.fired or source in self._sources:
            return
        topic = record.properties.get(Prop.REAL_TOPIC, "")
        key = delete_key(topic, record.properties.get(Prop.UNIQ_KEY, ""))
        moved = is_moved(record.properties)
        if any(mark.hits(source, is_moved=moved) for one in marks for mark in one.get(key, ())):
            return
        found = self._listing.describe(record, second)
        if wanted.fits(found):
            self._sources.add(source)
            self.found.append(found)


class SliceDistribution:
    """How many timers are due within five seconds, a minute, ... a day; see `Distribution`.

    Unlike the wheel's it reads every record: the slices do not know how many each second has.
    """

    def __init__(self, state: SliceState, now_ms: int) -> None:
        self.buckets: dict[int, int] = dict.fromkeys(DISTRIBUTION_BOUNDS_S, 0)
        """Upper bound in seconds to the number of timers between it and the bound before."""
        self.done = False
        self._now_ms = now_ms // SECOND_MS * SECOND_MS
        self._turns = Recount(state, self._count).run()

    def step(self, budget: Budget) -> None:
        """Go on until the budget is used up."""
        while not self.done and not budget.exhausted():
            self.done = next(self._turns, True) is True

    def _count(self, second: int) -> None:
        distance = max(0, (second - 1) - self._now_ms // SECOND_MS)
        index = bisect_right(DISTRIBUTION_BOUNDS_S, distance)
        if index < len(DISTRIBUTION_BOUNDS_S):
            self.buckets[DISTRIBUTION_BOUNDS_S[index]] += 1
