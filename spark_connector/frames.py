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

__all__ = ["dedupe", "for_write", "lag"]

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


def lag(progress: Mapping[str, object]) -> dict[tuple[str, str, int], int]:
    """Return how many offsets each queue is behind, from ``query.lastProgress``.

    Keys are (topic, broker, queue). Only sources of this connector are counted.
    """
    behind: dict[tuple[str, str, int], int] = {}
    sources = progress["sources"]
    if not isinstance(sources, (list, tuple)):
        raise TypeError("a progress has a list of sources")
    for source in sources:
        end, latest = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
        if end is None or latest is None:
            continue
        for topic, broker, queue, offset in places(latest.topics):
            done = look(end.topics, topic, broker, queue)
            if done is not None:
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
