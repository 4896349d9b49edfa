"""The timers of a sliced store in the order in which they are due.

Answers: which timers come next after a given place, without changing anything. They are walked
slice by slice and second by second. A slice that is not in memory is read once, in turns, and an
index of it is kept (`../waiting_index.py`); what its log got since is added when somebody asks.
What is still in the inbound queue, or late, is sorted in between. Time may pass between two turns:
a slice that is over then is passed, for all of it has left. Must not know: who asks, the door.

Read on: `../listing.py` for what is given, `engine.py` (`pending`, `find`, `look_ahead`).
"""

from bisect import bisect_right
from collections.abc import Generator, Iterator
from functools import partial

from embedded_broker.timer.listing import (
    BEFORE_ALL,
    ListPosition,
    Pending,
    Source,
    Walk,
    Wanted,
    first_stored_ms,
)
from embedded_broker.timer.slices.cells import SliceWheel
from embedded_broker.timer.slices.change import find_copies
from embedded_broker.timer.slices.dcommit_log import SliceLog
from embedded_broker.timer.slices.marks import MarksByKey, MarkTable, hits_among
from embedded_broker.timer.slices.record import SECOND_MS, Glance, glance, second_of, source_of
from embedded_broker.timer.slices.state import Late, SliceState
from embedded_broker.timer.waiting_index import WaitingIndex
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.message_codec import MessageRecord, RecordHead, decode_record, record_head


class _Slice:
    """What the log of a slice holds, as far as it was read."""

    def __init__(self, log: SliceLog | None) -> None:
        self.log = log
        self.read_to = 0
        self.index = WaitingIndex()
        """The newest copy of a timer is its record in this log."""
        self.marks = MarkTable()

    def take(self, seen: Glance | None, position: int) -> None:
        """Take in a record."""
        if seen is not None and seen.is_mark:
            self.marks.add(seen)
        elif seen is not None:
            self.index.add(seen.second * SECOND_MS, seen.source, position, seen.topic)


class SliceListing:
    """What walks share: an index of every slice that is not in memory."""

    def __init__(self, state: SliceState) -> None:
        self.state = state
        self._kept: dict[int, _Slice] = {}

    def walk(self, wanted: Wanted) -> Walk:
        """Begin a listing."""
        return Walk(SliceSource(self), wanted)

    def find(self, unique_key: str, topic: str | None) -> list[Pending]:
        """Give every waiting timer with this id, oldest first."""
        return [
            self.describe(RecordHead.of(copy.record), second_of(copy.request.out_ms))
            for copy in find_copies(self.state, unique_key, topic)
            if copy.waits and copy.marked_by is None
        ]

    def describe(self, stored: RecordHead, second: int, position: int | None = None) -> Pending:
        """Say what is known of a waiting message, which lies at a position of its slice's log."""
        return Pending(
            due_ms=second * SECOND_MS,
            root=stored.commit_log_offset,
            accepted_ms=first_stored_ms(stored, self.stored),
            stored=stored,
            reader=partial(self._record, second, position),
        )

    def stored(self, offset: int) -> RecordHead | None:
        """Read a message of the inbound queue's topic, without its body."""
        stored = self.state.store.log.head(offset)
        return None if stored is None or stored.topic != self.state.topic.encode() else stored

    def _record(
        self, second: int, position: int | None, stored: RecordHead
    ) -> MessageRecord | None:
        state = self.state
        view = None if position is None else state.log.read(state.slice_of(second), position)
        if view is not None:
            return decode_record(view, check_crc=False)
        record = state.store.record(stored.commit_log_offset)
        return None if record is None or record.topic != state.topic else record

    def slice(self, number: int) -> Generator[None, None, _Slice]:
        """Read a slice that is not in memory as far as needed, in turns."""
        state = self.state
        log = state.log.slices.get(number)
        kept = self._kept.get(number)
        if kept is None or kept.log is not log:
            kept = self._kept[number] = _Slice(log)
            for over in [one for one in self._kept if one not in state.log.slices]:
                del self._kept[over]
        end = 0 if log is None else log.end
        for position, record in state.log.scan(number, kept.read_to, end):
            if position >= kept.read_to:  # else another walk was here meanwhile
                kept.take(glance(record), position)
                kept.read_to = position + len(record)
            yield
        kept.read_to = max(kept.read_to, end)
        return kept

    def strays(self, marks: MarkTable) -> Generator[None, None, list[Late]]:
        """Give what lies in no slice's log, the first last: late, or still in the inbound queue.

        `marks` takes the marks that are still in the inbound queue.
        """
        state = self.state
        found = list(state.late)
        for queue_offset in range(state.queue_offset, state.queue_end):
            entry = state.entry(queue_offset)
            if entry is None or entry[0] in state.already_logged:
                continue
            seen = state.glance_at(queue_offset)
            if seen is not None and seen.is_mark:
                marks.add(seen)
            elif seen is not None:
                found.append(Late(seen.second, seen.source, queue_offset))
            yield
        return sorted(found, reverse=True)


class SliceSource(Source):
    """What waits in one sliced store, for one walk. Everything it reads comes in order already."""

    def __init__(self, listing: SliceListing) -> None:
        super().__init__(listing.state.store)
        self._listing = listing
        self._state = listing.state
        self._after = BEFORE_ALL
        self._stray_marks = MarkTable()
        self._strays: set[int] = set()
        self._given: set[int] = set()
        """Strays that were given: between two turns one may enter the log of a slice."""

    def turns(self, wanted: Wanted) -> Iterator[Pending | None]:
        """Go through slices and seconds, with the strays in between."""
        self._after = wanted.after
        strays = yield from self._listing.strays(self._stray_marks)
        self._strays = {stray.source for stray in strays}
        first = max(self._state.current_second, wanted.after.due_ms // SECOND_MS)
        number = self._next_slice(self._state.slice_of(first) - 1)
        while number is not None:
            before_ms = min(wanted.before_ms, (number + 1) * self._state.length * SECOND_MS)
            wheel = self._state.wheel_of(number)
            if wheel is None or wheel.is_loading:
                kept = yield from self._listing.slice(number)
                yield from self._of_index(kept, number, strays, wanted, before_ms)
            else:
                for second in [one for one in wheel.seconds() if one >= first]:
                    if second * SECOND_MS >= before_ms:
                        break
                    yield from self._of_strays(strays, second)
                    yield from self._of_cell(wheel, second)
            if before_ms == wanted.before_ms:
                break
            number = self._next_slice(number)
        yield from self._of_strays(strays, None)

    def _next_slice(self, after: int) -> int | None:
        return min((one for one in self._state.log.slices if one > after), default=None)

    def _of_strays(self, strays: list[Late], before: int | None) -> Iterator[Pending | None]:
        """Give the strays of earlier seconds, from the end of the list; None: all that are left."""
        while strays and (before is None or strays[-1].second < before):
            stray = strays.pop()
            stored = self._listing.stored(stray.source)
            marks = self._state.late.marks(stray.second)
            yield None if stored is None else self._pending(stored, stray.second, marks)

    def _of_index(
        self, kept: _Slice, number: int, strays: list[Late], wanted: Wanted, before_ms: int
    ) -> Iterator[Pending | None]:
        """Give the timers of a slice that is not in memory."""
        after = self._after
        while after.due_ms < before_ms:
            rows, after = kept.index.part(wanted, after, before_ms)
            for due_ms, _, position, _ in rows:
                second = due_ms // SECOND_MS
                yield from self._of_strays(strays, second)
                yield self._stored(number, position, second, kept.marks.at(second))
            yield None

    def _of_cell(self, wheel: SliceWheel, second: int) -> Iterator[Pending | None]:
        cell, marks = wheel.cell(second), wheel.marks.at(second)
        positions = () if cell is None else cell.left()
        begin = 0
        if second * SECOND_MS == self._after.due_ms:
            begin = bisect_right(
                positions, self._after.root, key=partial(self._source, wheel.number)
            )
        for position in positions[begin:]:
            yield self._stored(wheel.number, position, second, marks)

    def _source(self, number: int, position: int) -> int:
        view = self._state.log.read(number, position)
        return -1 if view is None else source_of(view)

    def _stored(self, number: int, position: int, second: int, marks: MarksByKey) -> Pending | None:
        """Read a timer of a slice's log, unless its second is over."""
        view = self._state.log.read(number, position)
        if view is None or second < self._state.current_second:
            return None
        try:
            return self._pending(record_head(view), second, marks, position)
        except RecordError:
            return None

    def _pending(
        self, stored: RecordHead, second: int, marks: MarksByKey, position: int | None = None
    ) -> Pending | None:
        """Describe a timer behind the place asked for, unless it is done, given or marked."""
        state, several = self._state, (marks, self._stray_marks.at(second))
        source = stored.commit_log_offset
        if ListPosition(second * SECOND_MS, source) <= self._after:
            return None
        if source in state.done or source in state.fired or source in self._given:
            return None
        one = self._listing.describe(stored, second, position)
        if hits_among(several, source, one.properties):
            return None
        if source in self._strays:
            self._given.add(source)
        return one
