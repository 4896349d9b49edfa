"""What a stream has to read by the bounds of its queues, and how much of it one micro-batch takes.

A pure calculation. Offsets are written so that they survive what Spark forgets: it stores no first
offset and asks for it twice, so the first real offset carries the lower bounds itself. Must not
know who asked for the bounds, or how old they are. Read on: ``stream_offset.py``.
"""

from collections.abc import Callable, Mapping
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
    since_ms: int | None = None

    def after(self, taken: Mapping[MessageQueue, int]) -> StreamOffset:
        """Return the offset behind so many of each queue."""
        topics = self.begins.copy()
        for queue, count in taken.items():
            topics[queue] += count
        return StreamOffset(topics, lower=self.lower, reset=self.reset, since_ms=self.since_ms)


def backlog_of(
    start: StreamOffset,
    bounds: Mapping[MessageQueue, QueueBounds],
    targets: Mapping[MessageQueue, int] | None,
) -> Backlog:
    """Return what lies behind an offset; nothing of a queue without bounds.

    ``targets`` are the ends of a run that ends when they are reached.
    """
    found = Backlog(
        begins=dict(start.topics),
        lower=dict(start.topics) if start.is_initial else {},
        since_ms=start.since_ms,
    )
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
    new = {queue: bounds[queue] for queue in set(bounds).difference(found.begins)}
    for queue, one in in_order(new):
        end = one.max_offset if targets is None else targets.get(queue, one.min_offset)
        if end > one.min_offset:
            found.begins[queue] = found.lower[queue] = one.min_offset
            found.sizes[queue] = end - one.min_offset
    return found


@define
class Limit:
    """What one micro-batch may take, and how few offsets are not worth one (None: any).

    `is_timed`: no more offsets than fit into the time that the user gives.
    """

    offsets_most: int | None = None
    bytes_most: int | None = None
    offsets_least: int | None = None
    is_timed: bool = False

    def wants_more(self, total: int) -> bool:
        """Whether so few offsets are not worth a micro-batch yet."""
        return self.offsets_least is not None and total < self.offsets_least

    def admitted(
        self,
        backlog: Mapping[_K, int],
        sizes: Mapping[_K, float] | None = None,
        turn: Callable[[_K], int] = lambda _queue: 0,
    ) -> dict[_K, int]:
        """Return how many offsets of each queue are taken.

        ``sizes`` has about how many bytes one message of each has, for a limit of bytes. ``turn``
        is as for `share`.
        """
        taken = dict(backlog)
        if self.offsets_most is not None:
            taken = share(taken, self.offsets_most, turn=turn)
        if self.bytes_most is not None:
            taken = share(taken, self.bytes_most, sizes, turn=turn)
        return taken


def share(
    backlog: Mapping[_K, int],
    limit: int,
    costs: Mapping[_K, float] | None = None,
    *,
    turn: Callable[[_K], int] = lambda _queue: 0,
) -> dict[_K, int]:
    """Split ``limit`` in proportion to the backlogs, never more than there is.

    Every non-empty queue gets at least 1 as long as the limit reaches; when it does not, those come
    first whose ``turn`` is lowest, such as the number of the batch that served them last. ``costs``
    is what one offset of a queue takes of the limit, 1 without. Something is always taken.

    >>> share({"big": 900, "small": 10, "empty": 0}, 91)
    {'big': 89, 'small': 2, 'empty': 0}
    >>> share({"big": 900, "small": 10}, 2_000, {"big": 10.0, "small": 100.0})
    {'big': 173, 'small': 2}
    """
    cost = {key: 1.0 if costs is None else max(1.0, costs[key]) for key in backlog}
    waiting = [key for key, size in backlog.items() if size]
    if sum(backlog[key] * cost[key] for key in waiting) <= limit:
        return dict(backlog)
    shares = dict.fromkeys(backlog, 0)
    left = float(limit)
    for key in sorted(waiting, key=turn):
        if cost[key] <= left or left == limit:
            shares[key] = 1
            left -= cost[key]
    served = [key for key in waiting if shares[key]]
    rest = sum((backlog[key] - 1) * cost[key] for key in served)
    if left <= 0 or not rest:
        return shares
    exact = {key: min(1.0, left / rest) * (backlog[key] - 1) for key in served}
    for key in served:
        shares[key] += int(exact[key])
        left -= int(exact[key]) * cost[key]
    for key in sorted(served, key=lambda one: int(exact[one]) - exact[one]):
        if cost[key] <= left and shares[key] < backlog[key]:
            shares[key] += 1
            left -= cost[key]
    return shares
