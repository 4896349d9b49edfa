"""Delivery log: what each group was handed, and when it said that it was done.

Answers: which offset of a queue a group gets next, and when a message was handed out and its offset
covered by a commit. The first is exact and kept for every queue that was ever pulled; the times are
kept for the last 10,000 messages of each group, in plain integers, so that a pull costs a few
numbers and no object per message. Nothing is saved: after a restart the times are gone, and how far
a group is comes from the committed offsets alone. Must not know: messages, clocks, requests. Read
on: `embedded_broker/core/consume.py` and `table.py`, which feed it, `api/views/trace.py`,
which asks.
"""

from array import array
from collections.abc import Callable
from itertools import count
from typing import Final, NamedTuple

DELIVERIES_KEPT: Final = 10_000
"""Messages per group whose times are known; older ones still have an exact state."""

_HANDED: Final = 5
"""Numbers of a pull's answer: queue, first offset, offset behind the last, messages, time."""
_COMMITTED: Final = 4
"""Numbers of a commit: queue, offset before, offset after, time."""
_SWEEP_AT: Final = 1024
"""Rows that have left a ring are removed together, when there are this many."""


class DeliveryTimes(NamedTuple):
    """When a message was last handed out and when a commit covered it; None: not known."""

    in_flight_ms: int | None
    acknowledged_ms: int | None


class DeliveryLog:
    """The deliveries of one broker. Used under the door; `now_ms` reads the message clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._groups: dict[str, _GroupLog] = {}

    def handed_out(
        self, group: str, topic: str, queue_id: int, begin: int, end: int, count: int
    ) -> None:
        """Note a pull's answer: `count` messages, found from offset `begin` to before `end`.

        `count` is smaller than the span when some were passed over, and 0 when nothing was found;
        then the group waits at `end`.
        """
        log = self._groups.get(group)
        if log is None:
            log = self._groups[group] = _GroupLog()
        place = log.places.get((topic, queue_id))
        if place is None or begin < place.first_offset:
            place = log.place(topic, queue_id, begin)
        place.next_offset = end
        if count:
            place.handed_end = end
            log.hand_out(place.number, begin, end, count, self._now_ms())

    def committed(self, group: str, topic: str, queue_id: int, before: int, after: int) -> None:
        """Note that a group's offset went from `before` (-1: none) to `after`.

        A step backwards acknowledges nothing and is not kept.
        """
        if after <= before:
            return
        log = self._groups.get(group)
        if log is None:
            log = self._groups[group] = _GroupLog()
        place = log.places.get((topic, queue_id)) or log.place(topic, queue_id, after)
        log.commit(place.number, before, after, self._now_ms())

    def moved(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Note that a group continues elsewhere, because its offset was reset."""
        place = self._place(group, topic, queue_id)
        if place is not None:
            place.next_offset = offset
            place.first_offset = min(place.first_offset, offset)

    def next_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Give the first offset that was not handed out; None when the group never pulled."""
        place = self._place(group, topic, queue_id)
        return None if place is None else place.next_offset

    def handed_end(self, group: str, topic: str, queue_id: int) -> int | None:
        """Give the offset behind the last message that was handed out; None when none was."""
        place = self._place(group, topic, queue_id)
        return None if place is None else place.handed_end

    def first_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Give the lowest offset that the group ever pulled from; None when it never did."""
        place = self._place(group, topic, queue_id)
        return None if place is None else place.first_offset

    def forget_group(self, group: str) -> None:
        """Forget what a group was handed."""
        self._groups.pop(group, None)

    def forget_topic(self, topic: str) -> None:
        """Forget what was handed out of a topic; the times of other topics stay."""
        for log in self._groups.values():
            for key in [key for key in log.places if key[0] == topic]:
                del log.places[key]

    def groups(self) -> list[str]:
        """Name the groups that have pulled anything."""
        return list(self._groups)

    def topics_of(self, group: str) -> list[str]:
        """Name the topics that a group has pulled from, each once."""
        log = self._groups.get(group)
        return [] if log is None else list(dict.fromkeys(topic for topic, _ in log.places))

    def times(self, group: str, topic: str, queue_id: int, offset: int) -> DeliveryTimes:
        """Give what is still known of one message's delivery to a group."""
        log = self._groups.get(group)
        place = None if log is None else log.places.get((topic, queue_id))
        if log is None or place is None:
            return DeliveryTimes(None, None)
        return DeliveryTimes(
            log.handed.last_time(place.number, offset),
            log.commits.last_time(place.number, offset),
        )

    def _place(self, group: str, topic: str, queue_id: int) -> "_QueueProgress | None":
        log = self._groups.get(group)
        return None if log is None else log.places.get((topic, queue_id))


class _QueueProgress:
    """How far a group is in one queue; `number` stands for the queue in the rings."""

    __slots__ = ("first_offset", "handed_end", "next_offset", "number")

    def __init__(self, number: int, first_offset: int) -> None:
        self.number = number
        self.first_offset = first_offset
        self.next_offset = first_offset
        self.handed_end: int | None = None


class _Ring:
    """Rows of integers: the newest at the end, the oldest leave in front.

    A row begins with a queue's number and a range of offsets, and ends with a time.
    """

    __slots__ = ("begin", "rows", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows = array("q")
        self.begin = 0

    def __len__(self) -> int:
        return (len(self.rows) - self.begin) // self.width

    def drop_oldest(self) -> None:
        self.begin += self.width
        if self.begin >= _SWEEP_AT * self.width:
            del self.rows[: self.begin]
            self.begin = 0

    def last_time(self, number: int, offset: int) -> int | None:
        """Give the time of the newest row of a queue whose range holds the offset."""
        rows, width = self.rows, self.width
        for at in range(len(rows) - width, self.begin - 1, -width):
            if rows[at] == number and rows[at + 1] <= offset < rows[at + 2]:
                return rows[at + width - 1]
        return None


class _GroupLog:
    """The places and the two rings of one group."""

    __slots__ = ("commits", "handed", "numbers", "places", "remembered")

    def __init__(self) -> None:
        self.places: dict[tuple[str, int], _QueueProgress] = {}
        self.numbers = count()
        self.handed = _Ring(_HANDED)
        self.commits = _Ring(_COMMITTED)
        self.remembered = 0
        """Messages in the rows of `handed`."""

    def place(self, topic: str, queue_id: int, begin: int) -> _QueueProgress:
        """Find the place of a queue that is pulled from `begin` on."""
        key = (topic, queue_id)
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = _QueueProgress(next(self.numbers), begin)
        elif begin < place.first_offset:
            place.first_offset = begin
        return place

    def hand_out(self, number: int, begin: int, end: int, count: int, now_ms: int) -> None:
        """Add a row; rows leave as long as enough messages stay."""
        ring, remembered = self.handed, self.remembered + count
        rows = ring.rows
        rows.extend((number, begin, end, count, now_ms))
        while remembered - (oldest := rows[ring.begin + 3]) >= DELIVERIES_KEPT:
            remembered -= oldest
            ring.drop_oldest()
        self.remembered = remembered

    def commit(self, number: int, before: int, after: int, now_ms: int) -> None:
        """Add a row; each stands for at least one message."""
        self.commits.rows.extend((number, before, after, now_ms))
        if len(self.commits) > DELIVERIES_KEPT:
            self.commits.drop_oldest()
