"""Removal of old files, or of consumed ones when memory is short, and the rhythm of timer upkeep.

Answers: how the files that are too old leave a running broker: which may go is found out without
the door, what timers still need is looked up in turns of a few milliseconds, and the files are
removed by the flush thread. Consume queues, the key index and the timer log follow the commit log,
as after ``CleanConsumeQueueService``. A store in memory lets files go as well when it comes near
its budget: what waits for a group, for its time or for its end is never among them. And in which
rhythm of the session clock counts of timers are revised, their old log files removed and their
progress is logged, as in
``TimerMessageStore.start``. Must not know: formats; the rules are in
``embedded_broker/store/retention.py`` and ``embedded_broker/timer/upkeep.py``.
"""

import logging
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Final

from attrs import define

from embedded_broker.clocks.clock import BrokerClock
from embedded_broker.clocks.timeline import Budget
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.store.retention import Retention
from embedded_broker.tables.offsets.table import NOT_STORED
from embedded_broker.timer.upkeep import CLEAN_EVERY_MS, FORGET_EVERY_MS, REVISE_EVERY_MS
from rocketmq_py.clock import monotonic_ns
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.names import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    SLICE_TIMER_TOPIC,
    TIMER_TOPIC,
    is_system_topic,
)

logger = get_logger(__name__)

LOOK_EVERY_MS: Final = 10_000
"""``cleanResourceInterval``."""
FILES_AT_ONCE: Final = 10
"""``deleteFileBatchMax``: the next ones go with the next look."""
ALL_FILES: Final = 1 << 31
REST_NS: Final = 50_000_000
REST_FACTOR: Final = 20
"""After a look for room the next one waits so many times as long as it took, if it found none."""
_WITHOUT_READERS: Final = frozenset(
    {HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, SLICE_TIMER_TOPIC, TIMER_TOPIC}
)
"""What is in these is needed as long as their services say."""


class Aging:
    """The aging of one broker's messages; slow work is done on the flush thread."""

    def __init__(self, parts: BrokerParts, clock: BrokerClock) -> None:
        self._parts = parts
        self._clock = clock
        self._rule = Retention(parts.store.fs, parts.store.log, parts.config, clock)
        self._asked = False
        self._rests_until_ns = 0
        self._told_of_spare = False
        self._rule.budget.on_pressure = self.make_room
        self._rule.budget.on_full = self._make_room_now

    def describe(self) -> str:
        """Say what is kept, and for how long."""
        return self._rule.describe()

    def look(self) -> None:
        """Let old files go if it is time. Under the door; the work is done in background.

        Nothing grows old while the clock stands still.
        """
        if self._rule.consumed_end() > self._parts.store.log.min_offset:
            self.make_room()
        if self._clock.flows:
            self._parts.in_background(self._clean_if_time)

    def _clean_if_time(self) -> None:
        if self._rule.is_time():
            self.clean(FILES_AT_ONCE)

    def look_at_once(self) -> None:
        """Let everything go that is old now, whatever the hour. Outside the door."""
        self._parts.in_background(lambda: self.clean(ALL_FILES))

    def clean(self, files_max: int) -> None:
        """Remove old files that nobody needs. On the flush thread, outside the door."""
        if not self._is_open():
            return
        end = self._rule.old_end(files_max)
        if end <= self._parts.store.log.min_offset:
            return
        self._let_go(self._lowest_in_turns(self._parts.timers.needed_offsets.ahead(), end))

    def make_room(self) -> None:
        """Let files go that a store in memory has no room for. Under the door, or outside.

        It is done soon, in background; not at once again if nothing could go.
        """
        if not self._asked and not self._rests():
            self._asked = True
            self._parts.in_background(self._make_room)

    def _make_room(self) -> None:
        try:
            self._look_for_room(self._let_go)
        finally:
            self._asked = False

    def _make_room_now(self) -> None:
        """Do so before a message is refused: the thread that should have may be behind.

        Under the door.
        """
        if not self._rests():
            self._look_for_room(self._let_go_here)

    def _rests(self) -> bool:
        return monotonic_ns() < self._rests_until_ns

    def _look_for_room(self, let_go: Callable[[int], None]) -> None:
        """Look what may go; rest if nothing did, however much was stored meanwhile."""
        started_ns = monotonic_ns()
        before = self._parts.store.log.min_offset
        end = self._room_end()
        if end > before:
            let_go(end)
        if self._parts.store.log.min_offset <= before:
            ended_ns = monotonic_ns()
            self._rests_until_ns = ended_ns + max(REST_NS, REST_FACTOR * (ended_ns - started_ns))

    def _room_end(self) -> int:
        """Give up to where may go first what every group has consumed, then what no group reads."""
        if not self._is_open():
            return 0
        consumed, spare = self._rule.consumed_end(), self._rule.spare_end()
        needed = chain(
            self._parts.timers.needed_offsets.ahead(),
            self._awaited(),
            self._at_levels(),
            self._at_transactions(),
            self._parts.pop.revive.needed_offsets(),
        )
        needed_from = self._lowest_in_turns(needed, max(consumed, spare))
        unread_from = self._lowest_in_turns(self._unread(), min(consumed, needed_from))
        end = max(unread_from, min(spare, needed_from))
        if end > unread_from and not self._told_of_spare:
            self._told_of_spare = True
            logger.warning(
                "memory_store_full: messages that no group reads go, from the oldest on, to keep "
                "memoryStoreMaxBytes=%d",
                self._rule.budget.bytes_max,
            )
        return end

    def _awaited(self) -> Iterator[int]:
        """Give the offset of the first message of each queue that some group has not consumed."""
        readers = self._readers()
        offsets, deliveries = self._parts.tables.offsets, self._parts.tables.deliveries
        for (topic, queue_id), queue in list(self._parts.store.queues.items()):
            first = queue.max_offset
            for group in readers.get(topic, ()):
                reached: int | None = offsets.query(group, topic, queue_id)
                if reached == NOT_STORED:
                    reached = deliveries.first_offset(group, topic, queue_id)
                first = min(first, reached or 0)
            for _, entry in islice(queue.iterate(first), 1):
                yield entry[0]

    def _unread(self) -> Iterator[int]:
        """Give the offset of the first message of each queue of users that no group reads."""
        readers = self._readers()
        for (topic, _), queue in list(self._parts.store.queues.items()):
            if topic not in readers and not is_system_topic(topic):
                for _, entry in islice(queue.iterate(queue.min_offset), 1):
                    yield entry[0]

    def _readers(self) -> dict[str, list[str]]:
        """Give the groups that read each topic: those that have committed, or are connected.

        Members of a broadcasting group commit nothing here.
        """
        readers = self._parts.tables.offsets.readers()
        for name in self._parts.tables.consumers.groups():
            group = self._parts.tables.consumers.get(name)
            if group is not None and not group.is_broadcasting:
                for topic in group.subscriptions:
                    readers.setdefault(topic, []).append(name)
        return {topic: names for topic, names in readers.items() if topic not in _WITHOUT_READERS}

    def _at_transactions(self) -> Iterator[int]:
        """Give the offset of the oldest half message that has no end."""
        offset = self._parts.transactions.needed_offset()
        if offset is not None:
            yield offset

    def _let_go(self, end: int) -> None:
        """Remove the files before an offset, but what timers and levels need meanwhile."""
        with self._parts.door:
            remove = self._forget_before(end)
        if remove is not None:
            remove()
            self._follow()

    def _let_go_here(self, end: int) -> None:
        """Do the same under the door; what follows the commit log does so later."""
        remove = self._forget_before(end)
        if remove is not None:
            remove()
            self._parts.in_background(self._follow)

    def _forget_before(self, end: int) -> Callable[[], None] | None:
        if not self._is_open():
            return None
        end = min([end, *self._parts.timers.needed_offsets.now(), *self._at_levels()])
        return self._parts.store.let_go_before(end)

    def _is_open(self) -> bool:
        """Whether the store is still there: a call, since it may close between two looks."""
        return self._parts.store.is_open

    def _lowest_in_turns(self, offsets: Iterator[int], lowest: int) -> int:
        """Go through offsets that are needed; in one turn by who is under the door already."""
        if self._parts.door.held:
            return min(chain((lowest,), offsets))
        while True:
            budget = Budget()
            with self._parts.door.quiet:
                for offset in offsets:
                    lowest = min(lowest, offset)
                    if budget.exhausted():
                        break
                else:
                    return lowest

    def _at_levels(self) -> Iterator[int]:
        """Give the offset of the first message that waits at each level."""
        for level, offset in self._parts.levels.offsets().items():
            queue = self._parts.store.consume_queue(SCHEDULE_TOPIC, level - 1)
            entry = None if queue is None else queue.entry(max(offset, queue.min_offset))
            if entry is not None:
                yield entry[0]

    def _follow(self) -> None:
        """Let queues, index and timer log forget what the commit log has forgotten."""
        log_min = self._parts.store.log.min_offset
        queues = list(self._parts.store.queues.values())
        while queues:
            removals: list[Callable[[], None] | None] = []
            budget = Budget()
            with self._parts.door:
                while queues and not budget.exhausted() and self._is_open():
                    removals.append(queues.pop().follow(log_min))
                if not self._is_open():
                    return
            _run(removals)
        with self._parts.door:
            index = self._parts.store.index
            removals = [
                None if index is None else index.let_go_before(log_min),
                self._parts.timers.upkeep.begin_cleaning(),
            ]
        _run(removals)


def _run(removals: list[Callable[[], None] | None]) -> None:
    for remove in removals:
        if remove is not None:
            remove()


@define(eq=False)
class TimerHousekeeping:
    """Keeps the timers of one broker tidy; everything is called under the door."""

    _parts: BrokerParts

    def start(self) -> None:
        """Plan the first of everything."""
        every = self._parts.session.every
        every(CLEAN_EVERY_MS, self._clean)
        every(FORGET_EVERY_MS, self._forget_topics)
        every(REVISE_EVERY_MS, self._revise_counts)
        every(self._parts.config.int("timerProgressLogIntervalMs"), self._log_progress)

    def _clean(self) -> None:
        """Files are let go under the door and removed outside of it."""
        work = self._parts.timers.upkeep.begin_cleaning()
        if work is not None:
            self._parts.in_background(work)

    def _forget_topics(self) -> None:
        self._parts.timers.upkeep.forget_topics(self._parts.tables.topics.names())

    def _revise_counts(self) -> None:
        if self._parts.timers.upkeep.begin_revision(self._parts.session.now_ms):
            self._go_on_revising()

    def _go_on_revising(self) -> None:
        """Count in turns: each holds the door for a few milliseconds."""
        if self._parts.timers.upkeep.go_on(self._parts.clock.now_ms, Budget()):
            self._parts.session.after(1, self._go_on_revising, "housekeeping")

    def _log_progress(self) -> None:
        if logger.isEnabledFor(logging.INFO):
            text = self._parts.timers.upkeep.progress(self._parts.clock.now_ms)
            self._parts.in_background(lambda: logger.info("%s", text))
