"""Small helpers on DataFrames and progress reports around reads and writes.

`for_write` makes a read writable again, `dedupe` drops repeated messages, `lag` says how far a
stream is behind. Must not know bytes or the network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rocketmq_py import RawMessages
from spark_connector.positions import StreamOffset, look, places

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["Lag", "dedupe", "for_write", "lag"]

WRITE_BACK = ("body", "keys", "tags", "flag")


def for_write(frame: DataFrame) -> DataFrame:
    """Turn a read into what a write takes: body, keys, tags, flag and user properties.

    Topic, queue, offset and times of the original are left out, and so are the properties that
    RocketMQ reserves, an old delay among them. Read with ``includeHeaders=true`` to carry user
    properties. Raises ValueError when the frame has no body.
    """
    from pyspark.sql import functions

    if "body" not in frame.columns:
        raise ValueError("for_write needs the column body: read it, under that name")
    columns = [functions.col(name) for name in WRITE_BACK if name in frame.columns]
    if "properties" in frame.columns:
        reserved = sorted(RawMessages.RESERVED_PROPERTIES)
        kept = functions.map_filter(
            functions.col("properties"), lambda name, _value: ~name.isin(reserved)
        )
        columns.append(kept.alias("properties"))
    return frame.select(*columns)


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


class Lag(dict[tuple[str, str, int], int]):
    """How many offsets each queue is behind: (topic, broker, queue) to a number, 0 or more.

    The figures under the names that Spark's Kafka source uses cover all queues; `topic` gives
    those of one topic. Without queues they are 0.

    >>> behind = Lag({("T", "a", 0): 4, ("T", "a", 1): 0, ("U", "a", 0): 2})
    >>> behind.metrics
    {'minOffsetsBehindLatest': 0, 'maxOffsetsBehindLatest': 4, 'avgOffsetsBehindLatest': 2.0}
    >>> behind.topic("U").total, behind.topics
    (2, ['T', 'U'])
    """

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
        return Lag({place: number for place, number in self.items() if place[0] == name})


def lag(query: StreamingQuery | Mapping[str, object] | None) -> Lag:
    """Return how many offsets each queue of a streaming query was behind after its last batch.

    ``query`` is the query, or one of its progress reports: ``query.lastProgress``, or
    ``event.progress`` in a listener. Empty before the first report. Only sources of this
    connector are counted; a queue that the query has not begun counts from its offset 0. Under a
    filter offsets are counted, not the messages that match.
    """
    progress = query if isinstance(query, Mapping) or query is None else query.lastProgress
    behind = Lag()
    if progress is None:
        return behind
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
    return behind


def _offset(value: object) -> StreamOffset | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, Mapping) or "v" not in value:
        return None
    return StreamOffset.from_json(value)
