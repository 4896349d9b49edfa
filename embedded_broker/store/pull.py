"""What a consumer gets that asks a queue from an offset on.

The status table and the limits of ``DefaultMessageStore.getMessage`` and ``isTheBatchFull``. Must
not know: requests, groups, long polling. Read on: ``remoting/handlers/consume/pull_message.py`` for
what is answered, ``message_store.py`` for the face.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from enum import Enum
from itertools import accumulate
from typing import Final

from attrs import define, frozen

from embedded_broker.store.commit_log import CommitLog
from embedded_broker.store.consume_queue import ENTRY_SIZE, ConsumeQueue

__all__ = ["Boundary", "GetResult", "GetStatus", "PullLimits", "read_queue", "search_by_time"]

FILTER_BYTES_MAX: Final = 16_000
"""Consume-queue bytes looked at for one pull, at least; ``maxFilterMessageSize``."""


class GetStatus(Enum):
    """How a get ended; the names of the original, which are also the remarks on the wire."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"


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
    ``count`` messages. ``min_offset`` and ``max_offset`` are the queue's bounds.
    """

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    buffers: list[memoryview]
    count: int


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
    codes: frozenset[int] | None,
    limits: PullLimits,
    *,
    max_bytes: int,
) -> GetResult:
    """Read messages whose tags code is in ``codes`` (None: all), from ``offset`` on.

    At least one message is returned when one matches, however large it is. One file of the
    queue is walked at most, as ``travelCqFileNumWhenGetMessage`` = 1 does.
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

    most = max(min(max_count, limits.count), 1)
    bytes_max = min(max(max_bytes, 100), limits.total_bytes)
    last = offset + max(FILTER_BYTES_MAX, max_count * ENTRY_SIZE) // ENTRY_SIZE
    if codes is None:
        all_there = _read_all(log, queue, offset, most, bytes_max)
        if all_there is not None:
            views, count = all_there
            return GetResult(GetStatus.FOUND, offset + count, low, high, views, count)
    spans: list[tuple[int, int]] = []  # begin and end in the log; neighbours are joined
    count = total = 0
    begin = end = -1
    removed = False
    next_offset = offset
    log_min = log.min_offset
    for at, size, code in queue.file_entries(offset):
        if next_offset >= last or (count and (count >= most or total + size > bytes_max)):
            break
        next_offset += 1
        if codes is not None and code not in codes:
            removed = False
            continue
        if at < log_min or log.files.read(at, size) is None:
            removed = not count
            continue
        if at == end:
            end += size
        else:
            if count:
                spans.append((begin, end))
            begin, end = at, at + size
        count += 1
        total += size
    if not count:
        status = GetStatus.MESSAGE_WAS_REMOVING if removed else GetStatus.NO_MATCHED_MESSAGE
        return GetResult(status, next_offset, low, high, [], 0)
    spans.append((begin, end))
    buffers = []
    for start, stop in spans:
        view = log.files.read(start, stop - start)
        if view is not None:
            buffers.append(view)
    return GetResult(GetStatus.FOUND, next_offset, low, high, buffers, count)


def _read_all(
    log: CommitLog, queue: ConsumeQueue, offset: int, most: int, bytes_max: int
) -> tuple[list[memoryview], int] | None:
    """Read without a filter: records and how many, None when one of them is not in the log.

    The log is only asked for whole runs of records that lie back to back.
    """
    places, sizes = queue.places_from(offset, most)
    if not places or places[0] < log.min_offset:
        return None
    totals = list(accumulate(sizes))
    count = max(bisect_right(totals, bytes_max), 1)
    begin, last = places[0], count - 1
    spans = [(begin, totals[last])]
    # Places grow by the size of the record at least: only equality leaves no gap.
    if places[last] + sizes[last] - begin != totals[last]:
        spans.clear()
        end = begin
        for at, size in zip(places[:count], sizes[:count], strict=True):
            if at != end:
                spans.append((begin, end - begin))
                begin = at
            end = at + size
        spans.append((begin, end - begin))
    views = []
    for at, size in spans:
        view = log.files.read(at, size)
        if view is None:
            return None
        views.append(view)
    return views, count


def search_by_time(
    queue: ConsumeQueue, timestamp: int, boundary: Boundary, store_time: Callable[[int], int]
) -> int:
    """Find the queue offset that belongs to a store time.

    ``store_time`` gives the store time of a commit-log offset. LOWER: the first message at or
    behind the time, the maximum when none; UPPER: the last at or before it, the minimum when
    none; both as 5.x. NEAREST: the message whose store time is nearest, the earlier of two
    equally near ones, as 4.9. 0 for an empty queue.
    """
    low, high = queue.min_offset, queue.max_offset
    if low >= high:
        return 0 if boundary is Boundary.NEAREST else high
    if boundary is Boundary.UPPER:
        return max(_first(queue, low, high, lambda at: store_time(at) > timestamp) - 1, low)
    first = _first(queue, low, high, lambda at: store_time(at) >= timestamp)
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
    """Give the first queue offset whose message fulfils a condition that stays true behind it."""
    while low < high:
        middle = (low + high) // 2
        entry = queue.entry(middle)
        if entry is not None and holds(entry[0]):
            high = middle
        else:
            low = middle + 1
    return low
