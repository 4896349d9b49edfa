"""Search of pending timers by reading a timer topic through a client, without any file.

Answers: what a broker has still to release, for a reader that can only pull its topic. The queue is
read twice. The first reading learns what changes other messages: which copies were rolled into
later ones, and which delete marks wait (`timer/recall.py`). The second reading gives what waits, in
the order of the queue, and skips stretches in which nothing does. How far the broker has come is
told from outside (`Progress`).

Must not know: how messages are pulled, who asks. In memory there is, besides the records that one
pull brings, an entry of some 500 bytes for each waiting mark, each copy of a waiting timer that
was rolled or given another time, and each stretch (`STRETCH` messages without a waiting one part
two of them); nothing for a timer that only waits, and no body.

Read on: `pending.py` for the same question put to files.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from attrs import define, field, frozen

from embedded_broker.inspector.pending import MESSAGE_STEP_MS
from embedded_broker.timer.listing import ListPosition, Pending, Wanted
from embedded_broker.timer.recall import Hop, Mark, MarksOfSlots
from embedded_broker.timer.request import (
    TimerRequest,
    is_rootless,
    parse_request,
    root_offset,
    victim_root,
)
from rocketmq_py.protocol.delay import release_due_ms
from rocketmq_py.protocol.message_codec import MessageRecord, RecordHead, iter_records

STRETCH: Final = 1024
"""So many messages in a row of which none waits are not read a second time."""

Pull: TypeAlias = Callable[[int, int], Iterator[bytes]]
"""Gives the stored records from a queue offset to before another one, in order, back to back."""


@frozen(kw_only=True)
class Progress:
    """How far a broker has come with its timers; times in epoch ms.

    RocketMQ's wheel releases slots of `precision_ms` as a whole: those before `read_ms` are done.
    Messages of the topic's queue from `queue_offset` on are not in the wheel yet. A broker of ours
    releases each timer at its own time: what is due at `released_ms` or before is done.
    """

    read_ms: int
    queue_offset: int
    precision_ms: int
    released_ms: int | None = None

    def waits(self, out_ms: int, due_ms: int, queue_offset: int) -> bool:
        """Say whether a message at a queue offset, of a slot and due then, is still to be done."""
        if self.released_ms is not None:
            return due_ms > self.released_ms
        return out_ms >= self.read_ms or queue_offset >= self.queue_offset


def pending_of_topic(
    pull: Pull, begin: int, end: int, progress: Progress, wanted: Wanted
) -> Iterator[Pending]:
    """Give what waits among the queue offsets from `begin` to before `end`, in their order.

    `wanted` chooses topic and due times; its limit does not count. `pull` is called for the whole
    range, and again for parts of it; what it does not give any more is passed over.
    """
    fold = _Fold(progress, wanted)
    for records in pull(begin, end):
        for record in iter_records(records, check_crc=False):
            fold.note(record)
    for start, past in fold.stretches(begin):
        for records in pull(start, past):
            for record in iter_records(records):
                found = fold.pending(record)
                if found is not None:
                    yield found


@define
class _Fold:
    """What the first reading has learned, and what the second makes of each message."""

    _progress: Progress
    _wanted: Wanted
    _marks: MarksOfSlots = field(factory=MarksOfSlots)
    _newest: dict[int, int] = field(factory=dict)
    """Queue offset of the newest copy, by the commit-log offset of the first one."""
    _rolled: Counter[Hop] = field(factory=Counter)
    """How many copies a real broker has rolled into later ones, which do not name them."""
    _accepted_ms: dict[int, int | None] = field(factory=dict)
    """When a timer was first stored, by the commit-log offset of a copy that others name."""
    _stretches: list[tuple[int, int]] = field(factory=list)
    _is_moved: bool = False

    def note(self, record: MessageRecord) -> None:
        """Take a message of the first reading."""
        properties, offset = record.properties, record.commit_log_offset
        request = parse_request(properties)
        if request is None or not self._waits(record, request, self._slot_end(request)):
            return
        if request.deletes is not None:
            self._marks.add(request, Mark.of(properties, offset))
            return
        if not self._is_near(request):
            return
        root, replaced = root_offset(properties, offset), victim_root(properties)
        if root != offset:
            self._newest[root] = record.queue_offset
            self._accepted_ms[root] = None
        elif is_rootless(properties):
            self._rolled[Hop.of(properties, request).before] += 1
        if replaced is not None:
            self._accepted_ms[replaced] = None
            self._is_moved = True
        at = record.queue_offset
        if self._stretches and at < self._stretches[-1][1] + STRETCH:
            self._stretches[-1] = self._stretches[-1][0], at + 1
        else:
            self._stretches.append((at, at + 1))

    def stretches(self, begin: int) -> list[tuple[int, int]]:
        """Give the queue offsets of the second reading.

        What was replaced by a timer with another time may lie anywhere before.
        """
        if self._is_moved:
            return [(begin, self._stretches[-1][1])]
        return self._stretches

    def pending(self, record: MessageRecord) -> Pending | None:
        """Take a message of the second reading; give it if it waits and is asked for."""
        properties, offset = record.properties, record.commit_log_offset
        request = parse_request(properties)
        if request is None or request.deletes is not None:
            return None
        root, accepted_ms = root_offset(properties, offset), self._first_stored_ms(record)
        due_ms = release_due_ms(
            properties,
            record.store_timestamp,
            request.out_ms,
            self._progress.precision_ms,
            MESSAGE_STEP_MS,
        )
        wanted = self._wanted
        if (
            not self._waits(record, request, due_ms)
            or self._newest.get(root, -1) > record.queue_offset
            or self._was_rolled(Hop.of(properties, request))
            or self._marks.hit(request, properties, offset)
            or not wanted.goes_to(request.real_topic)
            or not wanted.after < ListPosition(due_ms, root)
            or due_ms >= wanted.before_ms
        ):
            return None
        return Pending(
            due_ms=due_ms,
            root=root,
            topic=request.real_topic,
            accepted_ms=accepted_ms,
            stored=RecordHead.of(record),
            reader=lambda _: record,
            properties=properties,
        )

    def _first_stored_ms(self, record: MessageRecord) -> int:
        """Give when the first copy was stored that is still there, and note it for later copies."""
        if not self._accepted_ms:
            return record.store_timestamp
        properties, offset = record.properties, record.commit_log_offset
        back: int | None = root_offset(properties, offset)
        if back == offset:
            back = victim_root(properties)
        earlier = None if back is None else self._accepted_ms.get(back)
        accepted_ms = record.store_timestamp if earlier is None else earlier
        if offset in self._accepted_ms:
            self._accepted_ms[offset] = accepted_ms
        return accepted_ms

    def _was_rolled(self, hop: Hop) -> bool:
        """Say whether it is the oldest copy of a kind of which one was rolled."""
        if not self._rolled[hop]:
            return False
        self._rolled[hop] -= 1
        return True

    def _waits(self, record: MessageRecord, request: TimerRequest, due_ms: int) -> bool:
        return self._progress.waits(request.out_ms, due_ms, record.queue_offset)

    def _slot_end(self, request: TimerRequest) -> int:
        return request.out_ms + self._progress.precision_ms

    def _is_near(self, request: TimerRequest) -> bool:
        """Say whether timers of this slot may be asked for; of a timer all copies have one slot."""
        wanted, span_ms = self._wanted, self._progress.precision_ms
        return (
            wanted.goes_to(request.real_topic)
            and request.out_ms + span_ms >= wanted.after.due_ms
            and request.out_ms - span_ms < wanted.before_ms
        )
