"""How a user writes places in queues, and how the connector holds them.

Users write ``{"topic":{"broker-a":{"0":23,"1":-1}}}``: -1 is the latest, -2 the earliest offset.
The broker level may be left out for topics on one broker. Must not know Spark or the network.
Read on: ``planning/start_places.py`` resolves -1, -2, times and groups.
"""

import json
from collections.abc import Mapping
from typing import TypeVar

from attrs import evolve, field, frozen

from rocketmq_py import MessageQueue
from spark_connector.errors import OptionError

_T = TypeVar("_T")

Positions = dict[MessageQueue, int]
"""Queues with an offset, or a time, each."""

LATEST = -1
EARLIEST = -2
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
        return self.kind == "offsets" and mark in self.positions.values()

    def moment_of(self, queue: MessageQueue) -> int | None:
        """Return the epoch ms that are meant of a queue, None when no time is."""
        if self.kind == "timestamp":
            return self.timestamp_ms
        return look(self.positions, queue) if self.kind == "timestamps" else None


def check_order(start: Start, end: Start) -> None:
    """Raise `OptionError` when a read would end before it begins, as far as options alone tell."""
    queues = {*start.positions, *end.positions} or {MessageQueue("", ANY_BROKER, 0)}
    for queue in sorted(queues):
        where = f" in queue {queue.queue_id} of topic {queue.topic}" if queue.topic else ""
        first, past = start.moment_of(queue), end.moment_of(queue)
        if first is not None and past is not None and first > past:
            raise OptionError(
                f"the read ends at {past}, before it begins at {first} (epoch ms){where}"
            )
        if start.kind == end.kind == "offsets":
            first, past = look(start.positions, queue), look(end.positions, queue)
            if first is not None and past is not None and 0 <= past < first:
                raise OptionError(f"endingOffsets {past} is before startingOffsets {first}{where}")


def look(positions: Positions, queue: MessageQueue) -> int | None:
    """Return the offset of a queue, None when it is not named."""
    found = positions.get(queue)
    return positions.get(evolve(queue, broker_name=ANY_BROKER)) if found is None else found


def in_order(places: Mapping[MessageQueue, _T]) -> list[tuple[MessageQueue, _T]]:
    """Return queues and what belongs to each by topic, broker and id.

    Comparing the queues themselves gives the same order, but takes a hundred times as long.
    """
    return sorted(
        places.items(), key=lambda one: (one[0].topic, one[0].broker_name, one[0].queue_id)
    )


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
                found[MessageQueue(topic, broker, int(queue))] = offset
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
