"""What a stream keeps of its offsets, and which ranges lie between two of them.

A stream stores, compact and with sorted keys::

    first:  {"init":1,"topics":{"T":{"broker-a":{"0":100}}},"v":1}
    later:  {"from":{"T":{"broker-a":{"0":100}}},"topics":{"T":{"broker-a":{"0":102}}},"v":1}

``topics`` is the next offset to read. ``from`` holds lower bounds that Spark does not keep: those
of queues that were new, or all of them after the first offset, which Spark asks for twice and
stores nowhere. ``reset`` holds new lower bounds of queues that began anew. ``since`` is the time
in epoch ms from which on queues that are found later are read; without it they are read whole.
With thousands of queues ``v`` is 2 and all offsets are packed (``packed_offsets.py``). Must not
know Spark or the network.
"""

from collections.abc import Iterator, Mapping

from attrs import field, frozen

from rocketmq_py import MessageQueue
from spark_connector.errors import OptionError
from spark_connector.options.positions import Positions, in_order, user_positions
from spark_connector.planning.packed_offsets import packed, unpacked
from spark_connector.planning.queue_ranges import QueueRange

VERSION = 1
PACKED = 2
"""Other versions than these are not read."""
MANY = 1_000
"""Offsets of more queues are packed; those of fewer can be read by people, and older versions."""
KEPT_MOST = 4


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
        is_packed = len(self.topics) > MANY
        write = packed if is_packed else _written
        written: dict[str, object] = {}
        if not self.is_initial:
            written["from"] = write(self.lower)
        else:
            written["init"] = 1
        if self.reset:
            written["reset"] = write(self.reset)
        if self.since_ms is not None:
            written["since"] = self.since_ms
        written["topics"] = packed(self.topics, self.lower) if is_packed else write(self.topics)
        written["v"] = PACKED if is_packed else VERSION
        return written

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "StreamOffset":
        """Read what Spark kept; raises `OptionError` for another version or shape."""
        version = value.get("v")
        if version not in {VERSION, PACKED}:
            from rocketmq_py import __version__  # only on the way to an error

            raise OptionError(
                f"the checkpoint holds offsets of version {version!r}, this connector "
                f"({__version__}) reads versions {VERSION} and {PACKED}: use the connector "
                "that wrote it, or a new checkpoint"
            )
        lower: Positions = {}
        parts: list[Positions] = []
        for name in ("from", "reset", "topics"):
            part = value.get(name) or {}
            where = f"offset in the checkpoint, {name}"
            if part and version == PACKED:
                parts.append(unpacked(where, part, lower))
            else:
                parts.append(user_positions(where, part, low=0) if part else {})
            lower = parts[0]
        _, reset, topics = parts
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
        news: dict[MessageQueue, tuple[int, int]] = {}
        is_plain = not (self.is_initial or end.reset)
        for queue, until in end.topics.items():
            start = self.topics.get(queue)
            if is_plain and start == until:
                continue
            if queue in end.reset:
                start = end.reset[queue]
            elif (start is None or self.is_initial) and queue in end.lower:
                start = end.lower[queue]
            if (start or 0) < until:
                news[queue] = start or 0, until
        for queue, (first, past) in in_order(news):
            yield QueueRange(queue.topic, queue.broker_name, queue.queue_id, first, past)


class KeptOffsets:
    """Reads and writes offsets, and knows the last ones again: Spark asks with the same texts.

    One thread uses it.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[Mapping[str, object], StreamOffset]] = []

    def read(self, value: Mapping[str, object]) -> StreamOffset:
        """Return the offset of a text; raises as `StreamOffset.from_json`."""
        for known, offset in self._kept:
            if known == value:
                return offset
        offset = StreamOffset.from_json(value)
        self._keep(value, offset)
        return offset

    def write(self, offset: StreamOffset) -> dict[str, object]:
        """Return the text of an offset."""
        value = offset.to_json()
        self._keep(value, offset)
        return value

    def _keep(self, value: Mapping[str, object], offset: StreamOffset) -> None:
        self._kept = [(value, offset), *self._kept[: KEPT_MOST - 1]]


def _written(positions: Positions) -> dict[str, dict[str, dict[str, int]]]:
    written: dict[str, dict[str, dict[str, int]]] = {}
    for queue, offset in sorted(positions.items(), key=lambda one: _as_text(one[0])):
        brokers = written.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offset
    return written


def _as_text(queue: MessageQueue) -> tuple[str, str, str]:
    return queue.topic, queue.broker_name, str(queue.queue_id)
