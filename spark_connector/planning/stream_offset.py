"""What a stream keeps of its offsets, and which ranges lie between two of them.

A stream stores, compact and with sorted keys::

    first:  {"init":1,"topics":{"T":{"broker-a":{"0":100}}},"v":1}
    later:  {"from":{"T":{"broker-a":{"0":100}}},"topics":{"T":{"broker-a":{"0":102}}},"v":1}

``topics`` is the next offset to read. ``from`` holds lower bounds that Spark does not keep: those
of queues that were new, or all of them after the first offset, which Spark asks for twice and
stores nowhere. ``reset`` holds new lower bounds of queues that began anew. ``since`` is the time in
epoch ms from which on queues that are found later are read; without it they are read whole. Must
not know Spark or the network.
"""

from collections.abc import Iterator, Mapping

from attrs import field, frozen

from rocketmq_py import MessageQueue
from spark_connector.errors import OptionError
from spark_connector.options.positions import Positions, in_order, user_positions
from spark_connector.planning.queue_ranges import QueueRange

VERSION = 1


@frozen
class StreamOffset:
    """One offset of a stream: `topics` next offsets, the other fields as told above."""

    topics: Positions
    lower: Positions = field(factory=dict)
    reset: Positions = field(factory=dict)
    is_initial: bool = False
    since_ms: int | None = None

    def to_json(self) -> dict[str, object]:
        """Write it for Spark; sorted, so that equal offsets are equal texts."""
        written: dict[str, object] = {}
        if not self.is_initial:
            written["from"] = _written(self.lower)
        else:
            written["init"] = 1
        if self.reset:
            written["reset"] = _written(self.reset)
        if self.since_ms is not None:
            written["since"] = self.since_ms
        written["topics"] = _written(self.topics)
        written["v"] = VERSION
        return written

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "StreamOffset":
        """Read what Spark kept; raises `OptionError` for another version or shape."""
        version = value.get("v")
        if version != VERSION:
            from rocketmq_py import __version__  # only on the way to an error

            raise OptionError(
                f"the checkpoint holds offsets of version {version!r}, this connector "
                f"({__version__}) reads version {VERSION}: use the connector that wrote it, or a "
                "new checkpoint"
            )
        parts = []
        for name in ("topics", "from", "reset"):
            part = value.get(name) or {}
            where = f"offset in the checkpoint, {name}"
            parts.append(user_positions(where, part, low=0) if part else {})
        topics, lower, reset = parts
        since = value.get("since")
        return cls(
            topics,
            lower,
            reset,
            is_initial=bool(value.get("init")),
            since_ms=since if isinstance(since, int) else None,
        )

    def ranges(self, end: "StreamOffset") -> Iterator[QueueRange]:
        """Give the range of every queue with news.

        A closed calculation on the two offsets, so that a repeated batch reads the same.
        """
        for queue, until in in_order(end.topics):
            start = self.topics.get(queue)
            if queue in end.reset:
                start = end.reset[queue]
            elif queue in end.lower and (start is None or self.is_initial):
                start = end.lower[queue]
            if (start or 0) < until:
                yield QueueRange(queue.topic, queue.broker_name, queue.queue_id, start or 0, until)


def _written(positions: Positions) -> dict[str, dict[str, dict[str, int]]]:
    written: dict[str, dict[str, dict[str, int]]] = {}
    for queue, offset in sorted(positions.items(), key=lambda one: _as_text(one[0])):
        brokers = written.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offset
    return written


def _as_text(queue: MessageQueue) -> tuple[str, str, str]:
    return queue.topic, queue.broker_name, str(queue.queue_id)
