"""State of the sliced engine: logs, wheels and pointers that its services share.

Answers: where a sliced store stands. Must not know: who moves it. Times are seconds of the epoch
where a name says `second`.

* `queue_offset`: the next entry of the inbound queue to be sent on its way,
* `current_second`: the first second that is not fully fired; every earlier one is,
* `current`, `following`: the slice of that second, and the next one once it is near,
* `late`: what arrived for a second that was over already, and marks for such seconds.

Read on: `engine.py` for the order in which things happen.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from heapq import heappop, heappush
from typing import NamedTuple

from attrs import define, field

from embedded_broker.clocks.timeline import Alarm
from embedded_broker.store.consume_queue import ConsumeQueue, Entry
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.metrics import TimerMetrics
from embedded_broker.timer.slices.cells import SliceWheel
from embedded_broker.timer.slices.dcommit_log import DCommitLog, SliceSum
from embedded_broker.timer.slices.marks import MarksByKey, MarkTable
from embedded_broker.timer.slices.progress import SliceProgress
from embedded_broker.timer.slices.record import Glance, glance


class SliceRole(Enum):
    """What a node of a group does with its timers."""

    MASTER = "master"
    """Everything."""
    FOLLOWER = "follower"
    """Sends what arrives to the logs of the slices and fires nothing; may take over."""
    SLAVE = "slave"
    """Nothing at all."""


class Late(NamedTuple):
    """A timer whose second was over when it came; in the order in which they leave."""

    second: int
    source: int
    queue_offset: int


class LateComers:
    """Timers and marks for seconds that are over; they lie in no slice's log.

    Usually they leave at once. Only where the clock was set back, or a follower holds them, do
    they wait; their queue offsets are saved, so that the next life reads them again.
    """

    def __init__(self) -> None:
        self._heap: list[Late] = []
        self._marks = MarkTable()
        self._mark_offsets: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Late]:
        return iter(sorted(self._heap))

    @property
    def next_second(self) -> int | None:
        """The second of the first one."""
        return self._heap[0].second if self._heap else None

    def add(self, entry: Late) -> None:
        """Take a timer."""
        heappush(self._heap, entry)

    def add_mark(self, seen: Glance, queue_offset: int) -> None:
        """Take a mark; it works until nothing of its kind is left here."""
        if self._marks.add(seen):
            self._mark_offsets[queue_offset] = seen.source

    def marks(self, second: int) -> MarksByKey:
        """Give the marks of a second by key."""
        return self._marks.at(second)

    def peek(self) -> Late:
        """Give the first one."""
        return self._heap[0]

    def pop(self) -> None:
        """Be done with the first one."""
        heappop(self._heap)

    def keep(self, is_wanted: Callable[[Late], bool]) -> None:
        """Forget every timer but the wanted ones."""
        self._heap = sorted(one for one in self._heap if is_wanted(one))

    def forget_marks(self) -> None:
        """Forget every mark; when no timer is left for them."""
        self._marks.clear()
        self._mark_offsets.clear()

    def sources(self) -> set[int]:
        """Give the commit-log offsets of the timers."""
        return {one.source for one in self._heap}

    def queue_offsets(self) -> frozenset[int]:
        """Give the queue offsets of timers and marks."""
        return frozenset([*(one.queue_offset for one in self._heap), *self._mark_offsets])

    def first_source(self) -> int | None:
        """Give the lowest commit-log offset of all."""
        sources = [*(one.source for one in self._heap), *self._mark_offsets.values()]
        return min(sources, default=None)


@define(slots=True, kw_only=True, eq=False)
class SliceState:
    """Pointers and what they point into; `lost` counts by reason what was given up."""

    store: MessageStore
    log: DCommitLog
    metrics: TimerMetrics
    inbound: tuple[str, int]
    length: int
    preload_seconds: int
    role: SliceRole = SliceRole.MASTER
    queue_offset: int = 0
    current_second: int = 0
    current: SliceWheel | None = None
    following: SliceWheel | None = None
    late: LateComers = field(factory=LateComers)
    kept_out: MarkTable = field(factory=MarkTable)
    """Marks that a hold keeps in the inbound queue: they work from here."""
    kept_out_to: int = 0
    """Up to this entry of the inbound queue, `kept_out` is complete."""
    already_logged: set[int] = field(factory=set)
    """Sources that a former life appended to a slice's log and did not account for."""
    logged_from: dict[int, int] = field(factory=dict)
    """By slice, where in its log their records begin."""
    logged_until: int = 0
    """Behind their last entry of the inbound queue."""
    done: set[int] = field(factory=set)
    """Sources that a former life, or another node, released already."""
    fired: set[int] = field(factory=set)
    """Sources released in the current second."""
    cell_scan_pos: int = 0
    """Every release of the current second or a later one lies at or behind this offset."""
    old_scan_pos: int | None = None
    """The same for what is in `done`, until `old_until_second` is over."""
    old_until_second: int = 0
    old_queue_end: int = 0
    master: SliceProgress | None = None
    """Where the master was when it was heard of last."""
    passed: list[int] = field(factory=list)
    """Slices that are over; their files go once that is saved."""
    changes: int = 0
    """Counts what is worth saving."""
    damaged_slices: int = 0
    """Slices whose logs did not hold what was flushed when the store was opened."""
    unchecked: dict[int, SliceSum] = field(factory=dict)
    """Slices whose logs are to be compared with this when they are loaded."""
    lost: Counter[str] = field(factory=Counter)
    alarm: Alarm = field(factory=Alarm)

    @property
    def topic(self) -> str:
        """The inbound topic."""
        return self.inbound[0]

    @property
    def queue(self) -> ConsumeQueue | None:
        """The inbound queue; None when nothing ever arrived."""
        return self.store.consume_queue(*self.inbound)

    @property
    def queue_end(self) -> int:
        """Behind the last entry of the inbound queue."""
        queue = self.queue
        return 0 if queue is None else queue.max_offset

    def entry(self, queue_offset: int) -> Entry | None:
        """Give offset, size and tags code of an entry of the inbound queue."""
        queue = self.queue
        return None if queue is None else queue.entry(queue_offset)

    def glance_at(self, queue_offset: int) -> Glance | None:
        """Look at the message of an entry of the inbound queue; None when it is no timer's."""
        entry = self.entry(queue_offset)
        record = None if entry is None else self.store.log.read(entry[0], entry[1])
        return None if record is None else glance(record)

    def slice_of(self, second: int) -> int:
        """Give the number of the slice that a second belongs to."""
        return second // self.length

    def wheel_of(self, number: int) -> SliceWheel | None:
        """Give the cells of a slice if they are in memory."""
        if self.current is not None and self.current.number == number:
            return self.current
        if self.following is not None and self.following.number == number:
            return self.following
        return None

    def make_wheel(self, number: int) -> SliceWheel:
        """Make the cells of a slice; what its log holds by now is still to be loaded."""
        log = self.log.slices.get(number)
        return SliceWheel(number, self.length, load_to=0 if log is None else log.end)

    def enter(self, second: int) -> None:
        """Let this be the current second: all before it are fully fired."""
        if second <= self.current_second:
            return
        if self.current is not None:
            self.current.clear(self.current_second)
        self.current_second = second
        self.cell_scan_pos = self.store.log.max_offset
        self.fired.clear()
        if (
            self.old_scan_pos is not None
            and second > self.old_until_second
            and self.queue_offset >= self.old_queue_end
            and not self.late
        ):
            self.old_scan_pos = None
            self.done.clear()

    def ends(self) -> dict[int, int]:
        """Give the end of each slice's log, up to which `queue_offset` accounts for its records.

        While entries are unread whose records a former life left in a log, the next life has to
        find these as well.
        """
        ends = {number: log.end for number, log in self.log.slices.items()}
        if self.queue_offset >= self.logged_until:
            self.logged_from.clear()
        for number, start in self.logged_from.items():
            if number in ends:
                ends[number] = start
        return ends

    def scan_pos(self) -> int:
        """Give the commit-log offset behind which every release lies that recovery must know.

        What is late, or still in the queue, may have been released by another node: behind its
        own message.
        """
        positions = [self.cell_scan_pos, *self.needed()]
        if self.old_scan_pos is not None:
            positions.append(self.old_scan_pos)
        return min(positions)

    def needed(self) -> list[int]:
        """Give the offsets of messages that lie in no slice: not sent on their way yet, or late."""
        entry = self.entry(self.queue_offset)
        found = [self.late.first_source(), None if entry is None else entry[0]]
        return [offset for offset in found if offset is not None]


class SliceNeededOffsets:
    """Which messages of the commit log a sliced engine needs: it keeps those of its slices."""

    def __init__(self, state: SliceState) -> None:
        self._state = state

    def ahead(self) -> Iterator[int]:
        """Give nothing: what waits in slices needs no commit log."""
        return iter(())

    def now(self) -> list[int]:
        """Give the offsets of what is in no slice."""
        return self._state.needed()
