"""How places in queues are written: the JSON of options, and the JSON of stream offsets.

Users write ``{"topic":{"broker-a":{"0":23,"1":-1}}}`` (-1 latest, -2 earliest; broker level may be
left out for topics on one broker). A stream stores, compact and with sorted keys::

    first:  {"init":1,"topics":{"T":{"broker-a":{"0":100}}},"v":1}
    later:  {"from":{"T":{"broker-a":{"0":100}}},"topics":{"T":{"broker-a":{"0":102}}},"v":1}

``topics`` is the next offset to read. ``from`` holds lower bounds that Spark does not keep: those
of queues that were new, or all of them after the first offset, which Spark asks for twice and
stores nowhere. ``reset`` holds new lower bounds of queues that began anew. Must not know Spark or
the network. Read on: ``starting.py`` resolves -1, -2, times and groups.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from attrs import field, frozen

from spark_connector.errors import OptionError

__all__ = [
    "Positions",
    "Start",
    "StreamOffset",
    "look",
    "parse_start",
    "places",
    "put",
    "user_positions",
]

Positions = dict[str, dict[str, dict[int, int]]]
"""Offset by topic, broker name and queue id."""

LATEST = -1
EARLIEST = -2
VERSION = 1
OFFSET_LIMIT = 1 << 63
ANY_BROKER = ""
"""Stands for the only broker of a topic where a user left the broker level out."""


@frozen
class Start:
    """Where to begin or end: `kind` is earliest, latest, group, offsets, timestamp, timestamps.

    `otherwise` is what queues get that `positions` does not name, or that the group does not
    know ("error": refuse).
    """

    kind: str
    positions: Positions = field(factory=dict)
    timestamp_ms: int = 0
    otherwise: str = "latest"

    @property
    def wants_latest(self) -> bool:
        """Whether any queue would begin at its end."""
        return self.kind == "latest" or self._holds(LATEST)

    @property
    def wants_earliest(self) -> bool:
        """Whether any queue is placed at its beginning."""
        return self.kind == "earliest" or self._holds(EARLIEST)

    def _holds(self, mark: int) -> bool:
        return self.kind == "offsets" and any(
            offset == mark for *_, offset in places(self.positions)
        )


def places(positions: Positions) -> Iterator[tuple[str, str, int, int]]:
    """Give (topic, broker, queue, offset) of every queue, sorted."""
    for topic in sorted(positions):
        for broker in sorted(positions[topic]):
            for queue in sorted(positions[topic][broker]):
                yield topic, broker, queue, positions[topic][broker][queue]


def look(positions: Positions, topic: str, broker: str, queue: int) -> int | None:
    """Return the offset of a queue, None when it is not named."""
    brokers = positions.get(topic)
    if brokers is None:
        return None
    queues = brokers.get(broker)
    if queues is None:
        queues = brokers.get(ANY_BROKER)
    return None if queues is None else queues.get(queue)


def put(positions: Positions, topic: str, broker: str, queue: int, offset: int) -> None:
    """Set the offset of a queue."""
    positions.setdefault(topic, {}).setdefault(broker, {})[queue] = offset


def parse_start(option: str, text: str, default: str) -> Start:
    """Read ``earliest``, ``latest``, ``group``, ``group:earliest``, ``group:latest`` or JSON."""
    word = text.strip().lower()
    if word in {"earliest", "latest"}:
        return Start(word)
    if word == "group":
        return Start("group", otherwise="error")
    if word in {"group:earliest", "group:latest"}:
        return Start("group", otherwise=word.partition(":")[2])
    try:
        value = json.loads(text)
    except ValueError:
        raise OptionError(
            f"option {option} = {text[:80]!r}: must be earliest, latest, group, group:earliest, "
            "group:latest or JSON"
        ) from None
    return Start("offsets", positions=user_positions(option, value, low=-2), otherwise=default)


def user_positions(option: str, value: object, *, low: int) -> Positions:
    """Check a user's JSON value; raises `OptionError` that names the place that is wrong."""
    shape = 'must look like {"topic":{"broker-a":{"0":23}}}'
    if not isinstance(value, dict) or not value:
        raise OptionError(f"option {option} {shape}")
    found: Positions = {}
    for topic, below in value.items():
        if not isinstance(below, dict):
            raise OptionError(f"option {option} {shape}: {topic!r} holds {below!r}")
        flat = {key: one for key, one in below.items() if not isinstance(one, dict)}
        if flat and len(flat) != len(below):
            raise OptionError(f"option {option}: {topic!r} mixes brokers and queues")
        brokers = {ANY_BROKER: flat} if flat else below
        for broker, queues in brokers.items():
            for queue, offset in queues.items():
                _check_place(f"option {option}: {topic!r}", queue, offset, low)
                put(found, topic, broker, int(queue), offset)
    return found


def _check_place(where: str, queue: object, offset: object, low: int) -> None:
    text = str(queue)
    if not (text.isascii() and text.isdigit()) or int(text) >= 1 << 31:
        raise OptionError(f"{where}: {queue!r} is no queue number")
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise OptionError(f"{where}: queue {queue} has {offset!r}, which is no whole number")
    if not low <= offset < OFFSET_LIMIT:
        limits = f"{low} to {OFFSET_LIMIT - 1}"
        raise OptionError(f"{where}: queue {queue} has {offset}, which is not within {limits}")


# --- what a stream stores ------------------------------------------------------------------------


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
