"""Reading of a queue: what a consumer gets that asks from an offset on.

The status table and the limits of ``DefaultMessageStore.getMessage`` and ``isTheBatchFull``. Must
not know: requests, groups, long polling. Read on: ``embedded_broker/core/consume.py``
for who asks, ``message_store.py`` for the face.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import accumulate
from typing import Final

from attrs import define, frozen

from embedded_broker.errors import StoreDamagedError
from embedded_broker.store.commit_log import CommitLog
from embedded_broker.store.consume_queue import ConsumeQueue, Entry
from embedded_broker.store.damaged_folder import ways_out
from embedded_broker.store.filter_budget import Filter, FilterBudget, Unjudged
from embedded_broker.store.queue_recovery import NOT_QUEUED
from rocketmq_py.protocol.frame import FRAME_SIZE_MAX
from rocketmq_py.protocol.properties import decode_properties
from rocketmq_py.protocol.sysflag import TRANSACTION_MASK

ANSWER_BYTES_MAX: Final = FRAME_SIZE_MAX - 65_536
"""Most bytes of records in one answer: a frame has room for them and for the header."""
COUNT_MAX: Final = 16_384
"""Most messages of one pull, whatever the settings say: their places are read at once."""
WALK_MAX: Final = 65_536
"""Most entries of a queue that are looked at for one pull."""
FILTER_BYTES_MAX: Final = 16_000
"""Consume-queue bytes looked at for one pull, at least; ``maxFilterMessageSize``."""


class GetStatus(Enum):
    """How a get ended; the names of the original, which are also the remarks on the wire."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"


WRONG_OFFSET: Final = frozenset({GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY})
"""A read that begins where nothing is nor will be next: the result says where to begin."""


class Boundary(Enum):
    """Which offset a search by time gives when no message has exactly that store time."""

    NEAREST = "NEAREST"
    LOWER = "LOWER"
    UPPER = "UPPER"


@define(slots=True, eq=False)
class GetResult:
    """Records, or why there are none, and where to go on.

    ``buffers`` hold whole records back to back and are live views of the store: join them into
    the answer, or copy. Neighbours in the log share a buffer, so there may be fewer buffers than
    ``count`` messages of ``size`` bytes. ``min_offset`` and ``max_offset`` are the queue's bounds.
    """

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    buffers: list[memoryview]
    count: int
    size: int = 0
    places: Sequence[tuple[int, int]] = ()
    """Where the buffers lie in the log, and how long they are: the same places, the same bytes."""


@frozen
class PullLimits:
    """How much one pull may return; the broker's ``maxTransfer...OnMessageInMemory``."""

    count: int
    total_bytes: int


def read_queue(
    log: CommitLog,
    queue: ConsumeQueue | None,
    offset: int,
    max_count: int,
    wanted: Filter | None,
    limits: PullLimits,
    filter_budget: FilterBudget,
    *,
    max_bytes: int | None,
) -> GetResult:
    """Read messages that are wanted (None: all), from ``offset`` on.

    At least one message is returned when one matches, however large it is. One file of the
    queue is walked at most, as ``travelCqFileNumWhenGetMessage`` = 1 does. It ends before a message
    that a filter has no room to judge; raises ``Unjudged`` when that is the first one.
    """
    if queue is None:
        # The original creates the queue it looks for, so a queue nobody wrote to is empty.
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0, [], 0)
    low, high = queue.min_offset, queue.max_offset
    if high == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high, [], 0)
    if offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high, [], 0)
    if offset >= high:
        one = offset == high
        status = GetStatus.OFFSET_OVERFLOW_ONE if one else GetStatus.OFFSET_OVERFLOW_BADLY
        return GetResult(status, high, low, high, [], 0)

    most, bytes_max = limits.count, limits.total_bytes
    if max_count < most:
        most = max(max_count, 1)
    if max_bytes is not None:
        bytes_max = min(max(max_bytes, 100), bytes_max)
    found = _read_all(log, queue, offset, most, bytes_max) if wanted is None else None
    if found is not None:
        return found
    span = max(FILTER_BYTES_MAX // queue.entry_size, max_count)
    last = offset + (span if queue.is_batch else min(span, WALK_MAX))
    return _walk(log, queue, offset, last, most, bytes_max, wanted, filter_budget)


def _walk(
    log: CommitLog,
    queue: ConsumeQueue,
    offset: int,
    last: int,
    most: int,
    bytes_max: int,
    wanted: Filter | None,
    filter_budget: FilterBudget,
) -> GetResult:
    """Look at entries from ``offset`` to before ``last``, one by one, until enough are wanted.

    The entry of a batch is given whole or not at all, and the first one that is wanted always, as
    the original does: so there may be more messages than ``most``, and some before ``offset``.
    """
    low, high = queue.min_offset, queue.max_offset
    places: list[int] = []
    sizes: list[int] = []
    count = total = 0
    removed, begin = False, offset
    log_min, doubtful = log.min_offset, log.checked_from
    codes = None if wanted is None else wanted.codes
    judge = wanted if wanted is not None and wanted.reads_properties else None
    if judge is not None:
        filter_budget.begin()
    for first, messages, entry in queue.file_batches(offset):
        at, size, code = entry
        if first >= last or (count and (count + messages > most or total + size > bytes_max)):
            break
        offset = first + messages
        if codes is not None and code not in codes:
            removed = False
            continue
        if at < log_min or log.files.read(at, size) is None:
            removed = not count
            continue
        is_left_out = at < doubtful and not _is_sound(log, queue, first, entry)
        if judge is not None and not is_left_out:
            try:
                is_left_out = not filter_budget.is_wanted(judge, entry, log)
            except Unjudged:
                offset = first
                if first <= begin:
                    raise
                break
        if is_left_out:
            removed = False
            continue
        places.append(at)
        sizes.append(size)
        count += messages
        total += size
    if not count:
        status = GetStatus.MESSAGE_WAS_REMOVING if removed else GetStatus.NO_MATCHED_MESSAGE
        return GetResult(status, offset, low, high, [], 0)
    spans = _spans(places, sizes)
    views = (log.files.read(at, size) for at, size in spans)
    buffers = [view for view in views if view is not None]
    return GetResult(GetStatus.FOUND, offset, low, high, buffers, count, total, spans)


def _is_sound(log: CommitLog, queue: ConsumeQueue, number: int, entry: Entry) -> bool:
    """Check a record that was not read when the store was opened, and the entry that names it.

    False for one that is to be left out; raises ``StoreDamagedError`` unless damage is skipped.
    """
    at, size, _ = entry
    record = log.record(at)
    if record is None:
        wrong = f"the record at {at} of the commit log is damaged ({log.damaged.get(at)})"
    elif (record.topic, record.queue_id, record.queue_offset, record.size) != (
        queue.topic,
        queue.queue_id,
        number,
        size,
    ):
        wrong = f"the record at {at} of the commit log is another one"
    elif record.sys_flag & TRANSACTION_MASK in NOT_QUEUED:
        wrong = f"the record at {at} of the commit log is one that no queue shows"
    else:
        return True
    if log.skip_damage:
        return False
    raise StoreDamagedError(
        f"consume queue {queue.topic} {queue.queue_id}, entry {number}: {wrong}. "
        f"{ways_out(log.files.fs)}"
    )


def is_wanted(wanted: Filter, entry: Entry, log: CommitLog) -> bool:
    """Ask a filter about one message; its record is read only if that is needed."""
    if not wanted.reads_properties:
        return wanted.accepts(entry, None)
    if wanted.codes is not None and entry[2] not in wanted.codes:
        return False
    properties = log.properties(entry[0])
    return properties is not None and wanted.accepts(entry, decode_properties(properties))


def _read_all(
    log: CommitLog, queue: ConsumeQueue, offset: int, most: int, bytes_max: int
) -> GetResult | None:
    """Read without a filter; None when one of the records is not in the log.

    The log is only asked for whole runs of records that lie back to back.
    """
    places = queue.places_from(offset, most)
    if not places or places[0] < log.min_offset or places[0] < log.checked_from:
        return None
    begin, sizes = places[0], places[1::2]
    count, total = len(sizes), places[-2] + places[-1] - begin
    # Places grow by the size of the record at least: only equality leaves no gap.
    if total <= bytes_max and total == sum(sizes):
        spans = [(begin, total)]
    else:
        totals = list(accumulate(sizes))
        count = max(bisect_right(totals, bytes_max), 1)
        total = totals[count - 1]
        spans = _spans(places[: 2 * count : 2], sizes[:count])
    views = []
    for at, size in spans:
        view = log.files.read(at, size)
        if view is None:
            return None
        views.append(view)
    low, high = queue.min_offset, queue.max_offset
    return GetResult(GetStatus.FOUND, offset + count, low, high, views, count, total, spans)


def _spans(places: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Give begins and lengths of the runs of records that lie back to back."""
    spans: list[tuple[int, int]] = []
    begin = end = places[0]
    for at, size in zip(places, sizes, strict=True):
        if at != end:
            spans.append((begin, end - begin))
            begin = at
        end = at + size
    spans.append((begin, end - begin))
    return spans


def search_by_time(
    queue: ConsumeQueue, timestamp: int, boundary: Boundary, store_time: Callable[[int], int]
) -> int:
    """Find the queue offset that belongs to a store time.

    ``store_time`` gives the store time of a commit-log offset. LOWER: the first message at or
    behind the time, the maximum when none; UPPER: the last at or before it, the minimum when
    none; both as 5.x. In a queue of batches they name a batch by its first message, and LOWER the
    last one when none is behind the time, as its original. NEAREST: the message whose store time is
    nearest, the earlier of two equally near ones, as 4.9. 0 for an empty queue.
    """
    low, high = queue.min_offset, queue.max_offset
    if low >= high:
        return 0 if boundary is Boundary.NEAREST else high
    if boundary is Boundary.UPPER:
        behind = _first(queue, low, high, lambda at: store_time(at) > timestamp)
        return queue.begin_of(max(behind - 1, low))
    first = _first(queue, low, high, lambda at: store_time(at) >= timestamp)
    if first == high and queue.is_batch:
        return queue.begin_of(high - 1)
    if boundary is Boundary.LOWER:
        return first
    if first == high:
        return high - 1
    if first == low:
        return low
    after, before = queue.entry(first), queue.entry(first - 1)
    if after is None or before is None:
        return first
    nearer_before = timestamp - store_time(before[0]) <= store_time(after[0]) - timestamp
    return first - 1 if nearer_before and store_time(after[0]) != timestamp else first


def _first(queue: ConsumeQueue, low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Give the first queue offset whose message fulfils a condition that stays true behind it.

    An entry that was left out or never written counts as the next one that was.
    """
    while low < high:
        middle = at = (low + high) // 2
        while (entry := queue.entry(at)) is None and at < high - 1:
            at += 1
        if entry is None or holds(entry[0]):
            high = middle
        else:
            low = at + 1
    while low < queue.max_offset and queue.entry(low) is None:
        low += 1
    return low
