"""Small helpers on DataFrames and progress reports around reads and writes.

`for_write` makes a read writable again, `dedupe` drops repeated messages, `lag` says how far a
stream is behind. Must not know bytes or the network.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rocketmq_py import RawMessages
from spark_connector.errors import SchemaError
from spark_connector.positions import StreamOffset, look, places
from spark_connector.schema import ALIASES as READ_ALIASES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["Lag", "dedupe", "for_write", "lag"]

WRITE_BACK = ("body", "keys", "tags", "flag")


def for_write(frame: DataFrame, *, properties: bool = True) -> DataFrame:
    """Turn a read into what a write takes: body, keys, tags, flag and user properties.

    Topic, queue, offset and times of the original are left out, and so are the properties that
    RocketMQ reserves, an old delay among them. Columns may have the other names that a read knows
    (``value``, ``headers``). A default read has neither properties nor flags: add
    ``includeHeaders=true``, and ``flag`` to the columns where flags matter. With ``properties``
    false user properties are left behind. Raises `SchemaError`, a ValueError, when the frame has
    no body, no properties though they are wanted, or properties that are no map.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import MapType

    names: dict[str, str] = {}
    for name in frame.columns:
        names.setdefault(_meaning(name), name)
    if "body" not in names:
        raise SchemaError("for_write needs the column body: read it, under that name or as value")
    columns = [functions.col(names[one]).alias(one) for one in WRITE_BACK if one in names]
    if not properties:
        return frame.select(*columns)
    if "properties" not in names:
        raise SchemaError(
            "for_write needs the column properties, else user properties would be lost: read with "
            "includeHeaders=true, or call for_write(frame, properties=False) to leave them behind"
        )
    kind = frame.schema[names["properties"]].dataType
    if not isinstance(kind, MapType):
        raise SchemaError(
            f"for_write takes properties as map<string,string>, but {names['properties']} is "
            f"{kind.simpleString()}: read it as a map"
        )
    reserved = sorted(RawMessages.RESERVED_PROPERTIES)
    kept = functions.map_filter(
        functions.col(names["properties"]), lambda name, _value: ~name.isin(reserved)
    )
    return frame.select(*columns, kept.alias("properties"))


def dedupe(frame: DataFrame, *, watermark: str | None = None) -> DataFrame:
    """Drop messages whose DEDUPE_ID came before; messages without one all stay.

    ``watermark`` (such as ``"10 minutes"``) is needed for a stream: how long ids are remembered,
    by store time. The frame must be read with the columns ``dedupe_id`` and ``store_timestamp``,
    and those that make a message unique: ``topic``, ``broker_name``, ``queue_id``, ``offset``.
    """
    from pyspark.sql import functions

    place = functions.concat_ws("/", "topic", "broker_name", "queue_id", "offset")
    keyed = frame.withColumn("_dedupe", functions.coalesce("dedupe_id", place))
    if watermark is None:
        kept = keyed.dropDuplicates(["_dedupe"])
    else:
        kept = keyed.withWatermark("store_timestamp", watermark)
        kept = kept.dropDuplicatesWithinWatermark(["_dedupe"])
    return kept.drop("_dedupe")


_Place = tuple[str, str, int]


class Lag(dict[_Place, int]):
    """How many offsets each queue is behind: (topic, broker, queue) to a number, 0 or more.

    The figures under the names that Spark's Kafka source uses cover all queues; `topic` gives
    those of one topic. Without queues they are 0. `missing` are the queues whose end nobody
    knows: the stream has read from them, but their broker has not answered since the query was
    started, or the query goes on without them. They count as 0.

    >>> behind = Lag({("T", "a", 0): 4, ("T", "a", 1): 0, ("U", "a", 0): 2})
    >>> behind.metrics
    {'minOffsetsBehindLatest': 0, 'maxOffsetsBehindLatest': 4, 'avgOffsetsBehindLatest': 2.0}
    >>> behind.topic("U").total, behind.topics
    (2, ['T', 'U'])
    """

    def __init__(
        self, behind: Mapping[_Place, int] | None = None, missing: Iterable[_Place] = ()
    ) -> None:
        super().__init__(behind or {})
        self.missing: frozenset[_Place] = frozenset(missing)

    @property
    def metrics(self) -> dict[str, int | float]:
        """The smallest, largest and mean number of offsets that a queue is behind."""
        numbers = list(self.values()) or [0]
        return {
            "minOffsetsBehindLatest": min(numbers),
            "maxOffsetsBehindLatest": max(numbers),
            "avgOffsetsBehindLatest": sum(numbers) / len(numbers),
        }

    @property
    def total(self) -> int:
        """How many offsets all queues together are behind."""
        return sum(self.values())

    @property
    def topics(self) -> list[str]:
        """The topics, sorted."""
        return sorted({topic for topic, _, _ in self})

    def topic(self, name: str) -> Lag:
        """Return the lag of one topic's queues; empty for one that is not read."""
        return Lag(
            {place: number for place, number in self.items() if place[0] == name},
            (place for place in self.missing if place[0] == name),
        )


def lag(query: StreamingQuery | Mapping[str, object] | None) -> Lag:
    """Return how many offsets each queue of a streaming query was behind after its last batch.

    ``query`` is the query, or one of its progress reports: ``query.lastProgress``, or
    ``event.progress`` in a listener. Empty before the first report. Only sources of this
    connector are counted; a queue that the query has not begun counts from its offset 0, and one
    whose broker is away by the end that it had when it was seen last. Under a filter offsets are
    counted, not the messages that match.
    """
    progress = query if isinstance(query, Mapping) or query is None else query.lastProgress
    if progress is None:
        return Lag()
    behind: dict[_Place, int] = {}
    missing: set[_Place] = set()
    sources = progress["sources"]
    if not isinstance(sources, (list, tuple)):
        raise TypeError("a progress has a list of sources")
    for source in sources:
        end, latest = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
        if end is None or latest is None:
            continue
        for topic, broker, queue, offset in places(latest.topics):
            done = look(end.topics, topic, broker, queue) or 0
            behind[topic, broker, queue] = max(0, offset - done)
        for topic, broker, queue, _ in places(end.topics):
            if look(latest.topics, topic, broker, queue) is None:
                behind[topic, broker, queue] = 0
                missing.add((topic, broker, queue))
    return Lag(behind, missing)


def _meaning(name: str) -> str:
    """Return what a column of a read shows; a column of the user's own stands for itself."""
    lower = name.lower()
    return READ_ALIASES.get(lower, lower)


def _offset(value: object) -> StreamOffset | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, Mapping) or "v" not in value:
        return None
    return StreamOffset.from_json(value)
