"""What a stream keeps of its offsets, and which ranges lie between two of them.

A stream stores, compact and with sorted keys::

    first:  {"init":1,"topics":{"T":{"broker-a":{"0":100}}},"v":1}
    later:  {"from":{"T":{"broker-a":{"0":100}}},"topics":{"T":{"broker-a":{"0":102}}},"v":1}

``topics`` is the next offset to read. ``from`` holds lower bounds that Spark does not keep: those
of queues that were new, or all of them after the first offset, which Spark asks for twice and
stores nowhere. ``reset`` holds new lower bounds of queues that began anew. Must not know Spark or
the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import field, frozen

from spark_connector.errors import OptionError
from spark_connector.options.positions import Positions, look, places, user_positions

__all__ = ["StreamOffset"]

VERSION = 1


@frozen
class StreamOffset:
    """One offset of a stream: `topics` next offsets, `lower` and `reset` as told above."""

    topics: Positions
    lower: Positions = field(factory=dict)
    reset: Positions = field(factory=dict)
    is_initial: bool = False

    def to_json(self) -> dict[str, object]:
        """Write it for Spark; sorted, so that equal offsets are equal texts."""
        written: dict[str, object] = {}
        if not self.is_initial:
            written["from"] = _written(self.lower)
        else:
            written["init"] = 1
        if self.reset:
            written["reset"] = _written(self.reset)
        written["topics"] = _written(self.topics)
        written["v"] = VERSION
        return written

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> StreamOffset:
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
        return cls(topics, lower, reset, is_initial=bool(value.get("init")))

    def ranges(self, end: StreamOffset) -> Iterator[tuple[str, str, int, int, int]]:
        """Give (topic, broker, queue, first, past the last) of every queue with news.

        A closed calculation on the two offsets, so that a repeated batch reads the same.
        """
        for topic, broker, queue, until in places(end.topics):
            lower = look(end.lower, topic, broker, queue)
            start = look(self.topics, topic, broker, queue)
            reset = look(end.reset, topic, broker, queue)
            if reset is not None:
                start = reset
            elif lower is not None and (start is None or self.is_initial):
                start = lower
            if start is None:
                start = 0
            if start < until:
                yield topic, broker, queue, start, until


def _written(positions: Positions) -> dict[str, dict[str, dict[str, int]]]:
    return {
        topic: {
            broker: {str(q): queues[q] for q in sorted(queues, key=str)}
            for broker, queues in sorted(brokers.items())
        }
        for topic, brokers in sorted(positions.items())
    }
