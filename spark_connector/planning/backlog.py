"""What a stream has to read by the bounds of its queues: a pure calculation.

Offsets are written so that they survive what Spark forgets: it stores no first offset and asks for
it twice, so the first real offset carries the lower bounds itself. Must not know who asked for the
bounds, or how old they are. Read on: ``stream_offset.py`` for the offsets' form, ``limits.py`` for
how much of a backlog is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from rocketmq_py import MessageQueue, QueueBounds
from spark_connector.options.positions import Positions
from spark_connector.planning.stream_offset import StreamOffset

__all__ = ["Backlog", "backlog_of"]


@define
class Backlog:
    """Where each queue goes on, and how many offsets are there.

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
        topics = {queue: begin + taken[queue] for queue, begin in self.begins.items()}
        return StreamOffset(topics, lower=self.lower, reset=self.reset)


def backlog_of(
    start: StreamOffset,
    bounds: Mapping[MessageQueue, QueueBounds],
    targets: Mapping[MessageQueue, int] | None,
) -> Backlog:
    """Return what lies behind an offset; nothing of a queue without bounds.

    ``targets`` are the ends of a run that ends when they are reached.
    """

    def end_of(queue: MessageQueue, one: QueueBounds) -> int:
        return one.max_offset if targets is None else targets.get(queue, one.min_offset)

    found = Backlog()
    for queue, offset in sorted(start.topics.items()):
        one = bounds.get(queue)
        begin = end = offset
        if one is not None and one.max_offset < offset:
            begin, end = one.min_offset, max(one.min_offset, one.max_offset)
            found.went_back[queue] = offset, one
            found.reset[queue] = begin
        elif one is not None:
            end = max(offset, end_of(queue, one))
        found.begins[queue], found.sizes[queue] = begin, end - begin
        if start.is_initial:
            found.lower[queue] = offset
    for queue, one in sorted(bounds.items()):
        if queue not in found.begins and end_of(queue, one) > one.min_offset:
            found.begins[queue] = one.min_offset
            found.sizes[queue] = end_of(queue, one) - one.min_offset
            found.lower[queue] = one.min_offset
    return found
