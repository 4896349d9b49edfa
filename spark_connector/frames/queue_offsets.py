"""Where the queues of a subscription stand: their bounds, a group's offsets, and its lag.

Must not know records. Read on: ``planning/start_places.py`` finds the queues, ``lag.py`` has the
lag of a streaming query.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_connector.frames.row_calls import option_texts, row_call, struct_ddl
from spark_connector.options.positions import in_order
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.planning.start_places import bounds_of
from spark_connector.servers.access import access_for, retrying

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIELDS = (
    ("topic", pa.string()),
    ("broker_name", pa.string()),
    ("queue_id", pa.int32()),
    ("min_offset", pa.int64()),
    ("max_offset", pa.int64()),
    ("last_stored", pa.timestamp("us", tz="UTC")),
    ("group_offset", pa.int64()),
    ("lag", pa.int64()),
)
US_PER_MS = 1_000


def offsets(spark: SparkSession, **options: object) -> DataFrame:
    """Return one row for each queue of the subscribed topics: what can be read, and the lag.

    Options are those of a batch read: ``nameServer``, one of ``subscribe``, ``subscribePattern``
    and ``assign``, and ``groupId``. Columns: ``topic``, ``broker_name``, ``queue_id``,
    ``min_offset``, ``max_offset`` (the next message gets it), ``last_stored`` (null when empty),
    ``group_offset`` (null without ``groupId``, or when the broker keeps none) and ``lag``, how
    many offsets the group is behind the end, at least 0.

    An executor asks the brokers whenever the frame is evaluated, so the same frame shows news; the
    state of one moment is ``offsets(...).collect()``. Raises `OptionError` for wrong options.
    """
    from pyspark.sql import functions

    checked = read_options(option_texts(options), streaming=False)

    def work(batches: Iterator[list[pa.Array]]) -> Iterator[pa.Array]:
        for (ids,) in batches:
            yield pa.array([_rows(checked) for _ in range(len(ids))], pa.list_(pa.struct(_FIELDS)))

    # One row in, the list of all queues out: the function cannot make more rows than it gets.
    asked = row_call(work, f"array<{struct_ddl(_FIELDS)}>", [functions.col("id")]).alias("found")
    return spark.range(0, 1, 1, 1).select(asked).select(functions.inline("found"))


def _rows(options: ReadOptions) -> list[dict[str, Any]]:
    access = access_for(options.connection)
    found: list[dict[str, Any]] = []
    for queue, one in in_order(bounds_of(access, options)):
        done = None
        if options.group_id is not None:
            what = f"asking for the offset of group {options.group_id}"
            done = retrying(options, what, partial(access.group_offset, options.group_id, queue))
        stored = one.last_update_timestamp
        found.append(
            {
                "topic": queue.topic,
                "broker_name": queue.broker_name,
                "queue_id": queue.queue_id,
                "min_offset": one.min_offset,
                "max_offset": one.max_offset,
                "last_stored": stored * US_PER_MS if stored else None,
                "group_offset": done,
                "lag": None if done is None else max(0, one.max_offset - done),
            }
        )
    return found
