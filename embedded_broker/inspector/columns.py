"""Table of a store's pending timers, a row of 29 bytes each, and their due order.

Answers: in which order the messages that were found in the files are due, and where each of them
lies. A walk (`timer/listing.py`) lists them as it lists those of an engine; nothing of the store is
recovered for it. A waiting message costs 29 bytes, and 4 more once its order is asked for. Must not
know: how they are found. Read on: `pending.py` and `sliced.py` for that, `report.py` for who asks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from enum import IntEnum
from functools import partial

from embedded_broker.clocks.timeline import Budget
from embedded_broker.inspector.reader import Finding, Severity, StoreFiles
from embedded_broker.timer.listing import Pending, Source, Walk, Wanted, first_stored_ms
from embedded_broker.timer.slices.record import SECOND_MS
from rocketmq_py.protocol.message_codec import MessageRecord, RecordHead


class Whereabouts(IntEnum):
    """Where a waiting message lies."""

    WHEEL = 0
    """In its own slot."""
    HOP = 1
    """In the slot where it is put anew, because its own is too far away."""
    QUEUED = 2
    """In the timer topic's queue, not yet in the wheel."""
    LEVEL = 3
    """In the queue of a delay level."""
    SLICE = 4
    """In the log of its slice; the column `offset` counts there."""


class PendingTimers(Source):
    """All waiting messages as columns; row `i` is the same message in each of them."""

    def __init__(self, files: StoreFiles) -> None:
        super().__init__(files)
        self.files = files
        self.due_ms = array("q")
        self.root = array("q")
        self.topic = array("i")
        self.offset = array("q")
        self.where = array("b")
        self.topics: list[str] = []
        self.numbers: dict[str, int] = {}
        """Where each topic stands among them."""
        self.marks = 0
        """Delete marks that wait beside them."""
        self.recalled = 0
        """Timers that a mark removes; not among the rows."""
        self.released = 0
        """Timers of unfinished slots whose copy is already delivered; not among the rows."""
        self.findings: list[Finding] = []
        self._order: array[int] | None = None

    def __len__(self) -> int:
        return len(self.due_ms)

    # --- listing -----------------------------------------------------------------------------

    def turns(self, wanted: Wanted) -> Iterator[Pending | None]:
        """Read back what is asked for; None where a record is gone."""
        for row in self.rows(wanted):
            yield self._pending(row)

    def page(self, wanted: Wanted) -> list[Pending]:
        """Walk to the end of what is asked for."""
        walk = Walk(self, wanted)
        while not walk.done:
            walk.step(Budget())
        return walk.found

    def rows(self, wanted: Wanted) -> Iterator[int]:
        """Give the rows that may be asked for, in the order of their places; kinds are not known.

        Nothing is read for it, so it also serves to count.
        """
        order = self._in_order()
        topic = None if wanted.topic is None else self.numbers.get(wanted.topic, -1)
        begin = self._rank(wanted.after.due_ms, wanted.after.root + 1)
        end = self._rank(wanted.before_ms, -1)
        rows = map(order.__getitem__, range(begin, end))
        return rows if topic is None else (row for row in rows if self.topic[row] == topic)

    def whereabouts(self, one: Pending) -> Whereabouts:
        """Say where a message of a walk lies."""
        return Whereabouts(self.where[self._in_order()[self._rank(one.due_ms, one.root)]])

    def _in_order(self) -> array[int]:
        if self._order is None:
            by_root = sorted(range(len(self)), key=self.root.__getitem__)
            self._order = array("i", sorted(by_root, key=self.due_ms.__getitem__))
        return self._order

    def _rank(self, due_ms: int, root: int) -> int:
        """Say how many stand before a place."""
        order, due_of = self._in_order(), self.due_ms.__getitem__
        first = bisect_left(order, due_ms, key=due_of)
        end = bisect_right(order, due_ms, first, key=due_of)
        return bisect_left(order, root, first, end, key=self.root.__getitem__)

    def record(self, row: int) -> MessageRecord | None:
        """Read a message back; None when it is gone: somebody else may use the store."""
        if self.where[row] == Whereabouts.SLICE:
            return self.files.sliced_record(self.due_ms[row] // SECOND_MS, self.offset[row])
        return self.files.record(self.offset[row])

    def _pending(self, row: int) -> Pending | None:
        record = self.record(row)
        if record is None:
            return None
        stored = RecordHead.of(record)
        accepted_ms = stored.store_timestamp
        if self.where[row] != Whereabouts.LEVEL:
            accepted_ms = first_stored_ms(stored, partial(self._earlier, record.topic))
        return Pending(
            due_ms=self.due_ms[row],
            root=self.root[row],
            accepted_ms=accepted_ms,
            stored=stored,
            reader=lambda _: self.record(row),
        )

    def _earlier(self, topic: str, offset: int) -> RecordHead | None:
        record = self.files.record(offset)
        return None if record is None or record.topic != topic else RecordHead.of(record)

    # --- filling -----------------------------------------------------------------------------

    def add(self, due_ms: int, root: int, topic: str, offset: int, where: Whereabouts) -> None:
        """Add a row."""
        number = self.numbers.get(topic)
        if number is None:
            number = self.numbers[topic] = len(self.topics)
            self.topics.append(topic)
        self.due_ms.append(due_ms)
        self.root.append(root)
        self.topic.append(number)
        self.offset.append(offset)
        self.where.append(where)
        self._order = None

    def drop(self, rows: set[int]) -> None:
        """Remove rows."""
        if not rows:
            return
        for name in ("due_ms", "root", "topic", "offset", "where"):
            old: array[int] = getattr(self, name)
            kept = (one for row, one in enumerate(old) if row not in rows)
            setattr(self, name, array(old.typecode, kept))
        self._order = None

    def note(self, severity: Severity, file: str, position: int, text: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(severity, file, position, text))
