"""What a stream has to read by the bounds of its queues, and how much of it one micro-batch takes.

A pure calculation. Offsets are written so that they survive what Spark forgets: it stores no first
offset and asks for it twice, so the first real offset carries the lower bounds itself. Must not
know who asked for the bounds, or how old they are. Read on: ``stream_offset.py``.
"""

from collections.abc import Mapping
from typing import TypeVar

from attrs import define, field

from rocketmq_py import MessageQueue, QueueBounds
from spark_connector.options.positions import Positions, in_order
from spark_connector.planning.stream_offset import StreamOffset

_K = TypeVar("_K")


@define
class Backlog:
    """Where each queue goes on, and how many offsets are there, of those where there are any.

    `went_back` has the offset and the bounds of queues that end before the stream's offset: they
    are read anew from their beginning. `lower` and `reset` are those of a `StreamOffset`.
    """

    begins: dict[MessageQueue, int] = field(factory=dict)
    sizes: dict[MessageQueue, int] = field(factory=dict)
    went_back: dict[MessageQueue, tuple[int, QueueBounds]] = field(factory=dict)
    lower: Positions = field(factory=dict)
    reset: Positions = field(factory=dict)

    def after(self, taken: Mapping[MessageQueue, int]) -> StreamOffset:
        """Return the offset behind so many of each queue."""
        topics = self.begins.copy()
        for queue, count in taken.items():
            topics[queue] += count
        return StreamOffset(topics, lower=self.lower, reset=self.reset)


def backlog_of(
    start: StreamOffset,
    bounds: Mapping[MessageQueue, QueueBounds],
    targets: Mapping[MessageQueue, int] | None,
) -> Backlog:
    """Return what lies behind an offset; nothing of a queue without bounds.

    ``targets`` are the ends of a run that ends when they are reached.
    """
    found = Backlog(begins=dict(start.topics), lower=dict(start.topics) if start.is_initial else {})
    for queue, offset in start.topics.items():
        one = bounds.get(queue)
        if one is None:
            continue
        begin, end = offset, one.max_offset
        if end < offset:
            begin = one.min_offset
            found.went_back[queue] = offset, one
            found.reset[queue] = found.begins[queue] = begin
        elif targets is not None:
            end = targets.get(queue, offset)
        if end > begin:
            found.sizes[queue] = end - begin
    new = {queue: bounds[queue] for queue in bounds.keys() - found.begins.keys()}
    for queue, one in in_order(new):
        end = one.max_offset if targets is None else targets.get(queue, one.min_offset)
        if end > one.min_offset:
            found.begins[queue] = found.lower[queue] = one.min_offset
            found.sizes[queue] = end - one.min_offset
    return found


@define
class Limit:
    """What one micro-batch may take: offsets, bytes, and how few are not worth one (None: any)."""

    offsets_most: int | None = None
    bytes_most: int | None = None
    offsets_least: int | None = None

    def wants_more(self, total: int) -> bool:
        """Whether so few offsets are not worth a micro-batch yet."""
        return self.offsets_least is not None and total < self.offsets_least

    def admitted(self, backlog: Mapping[_K, int], size_of_one: float) -> dict[_K, int]:
        """Return how many offsets of each queue are taken; a message has about so many bytes."""
        limits = [] if self.offsets_most is None else [self.offsets_most]
        if self.bytes_most is not None:
            limits.append(max(1, int(self.bytes_most / size_of_one)))
        return share(backlog, min(limits)) if limits else dict(backlog)


def share(backlog: Mapping[_K, int], limit: int) -> dict[_K, int]:
    """Split ``limit`` in proportion to the backlogs, never more than there is.

    Every non-empty queue gets at least 1 as long as the limit reaches, so small queues go on.

    >>> share({"big": 900, "small": 10, "empty": 0}, 91)
    {'big': 89, 'small': 2, 'empty': 0}
    """
    total = sum(backlog.values())
    if total <= limit:
        return dict(backlog)
    waiting = [key for key, size in backlog.items() if size]
    shares = dict.fromkeys(backlog, 0)
    # The smallest first: when the limit is below the number of queues, the others come next time.
    order = sorted(waiting, key=lambda key: backlog[key])
    for key in order[:limit]:
        shares[key] = 1
    left = limit - min(limit, len(order))
    rest = total - len(order)
    exact = {key: left * (backlog[key] - 1) / rest if rest else 0.0 for key in waiting}
    for key in waiting:
        shares[key] += int(exact[key]) if shares[key] else 0
    spare = limit - sum(shares.values())
    for key in sorted(waiting, key=lambda one: int(exact[one]) - exact[one]):
        if spare and shares[key] and shares[key] < backlog[key]:
            shares[key] += 1
            spare -= 1
    return shares
