"""How the ranges of queues are cut into tasks.

A task reads one piece of one queue. Must not know Spark or the network. Read on:
``reading/pulling.py``.
"""

from collections.abc import Iterable
from itertools import pairwise

from attrs import frozen


@frozen
class QueueRange:
    """Offsets `start` to before `until` of one queue, and its master's address when known."""

    topic: str
    broker_name: str
    queue_id: int
    start: int
    until: int
    address: str | None = None

    def __len__(self) -> int:
        return max(0, self.until - self.start)

    def __str__(self) -> str:
        place = f"topic {self.topic}, broker {self.broker_name}, queue {self.queue_id}"
        return f"{place}, offsets {self.start} to {self.until}"


def split(
    ranges: Iterable[QueueRange], *, min_partitions: int | None, max_records: int | None
) -> list[QueueRange]:
    """Cut ranges so that there are about ``min_partitions`` and none over ``max_records``.

    Empty ranges are left out; a large range is cut more often than a small one.

    >>> whole = QueueRange("T", "b", 0, 0, 10)
    >>> [len(part) for part in split([whole], min_partitions=3, max_records=None)]
    [3, 3, 4]
    """
    present = [one for one in ranges if len(one)]
    total = sum(len(one) for one in present)
    pieces: list[QueueRange] = []
    for one in present:
        count = 1
        if min_partitions is not None and min_partitions > len(present):
            count = max(1, round(len(one) * min_partitions / total))
        if max_records is not None:
            count = max(count, -(-len(one) // max_records))
        pieces += _cut(one, min(count, len(one)))
    return pieces


def _cut(one: QueueRange, count: int) -> list[QueueRange]:
    size = len(one)
    edges = [one.start + size * number // count for number in range(count + 1)]
    return [
        QueueRange(one.topic, one.broker_name, one.queue_id, first, past, one.address)
        for first, past in pairwise(edges)
    ]
