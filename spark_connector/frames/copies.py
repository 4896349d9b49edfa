"""How messages that were read are written again: as copies, spaced as they were, each once.

`for_write`, `replay` and `dedupe` work on frames of a read. Must not know bytes or the network.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rocketmq_py.clock import wall_ms
from spark_connector.decoding.read_columns import ALIASES as READ_ALIASES
from spark_connector.errors import OptionError, SchemaError
from spark_connector.options.write_options import NO_PROPERTIES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WRITE_BACK = ("body", "keys", "tags", "flag")
TIMES = ("store_timestamp", "born_timestamp")
REPLAY_IN_MS = 10_000
SPEED_MAX = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def for_write(
    frame: DataFrame, *, properties: bool = True, store_time_as: str | None = None
) -> DataFrame:
    """Turn a read into what a write takes: body, keys, tags, flag and user properties.

    Topic, queue, offset and times of the original are left out, and so are the properties that
    RocketMQ reserves, and an old delay, the start time of ONS included. Columns may have the other
    names that a read knows (``value``, ``headers``). A default read has neither properties nor
    flags: add ``includeHeaders=true``, and ``flag`` to the columns where flags matter. With
    ``properties`` false user properties are left behind.

    ``store_time_as`` names a property that each copy gets: when its original was stored, in epoch
    ms, from the column ``store_timestamp``. A message that has this property already keeps it, so
    that a copy of a copy tells of the first one.

    Raises `SchemaError`, a ValueError, when the frame lacks a column that is needed, when its
    properties are no map, and for a name that RocketMQ reserves.
    """
    return frame.select(
        *copied(frame, "for_write", properties=properties, store_time_as=store_time_as)
    )


def replay(
    frame: DataFrame,
    *,
    speed: float = 1,
    start: datetime | None = None,
    by: str = "store_timestamp",
    first: datetime | None = None,
    properties: bool = True,
) -> DataFrame:
    """Turn a read into what a write takes, due one after the other as they came the first time.

    The message of the earliest time is due at ``start``, and each other one as much later as it
    was later then, divided by ``speed`` (10: an hour takes six minutes). ``by`` is the column of
    these times, ``store_timestamp`` or ``born_timestamp``. ``first`` is the earliest time; unset,
    the frame is read once to find it. ``start`` unset is 10 s from now. A message that is sent
    after it was due arrives at once, so leave as much time as the write takes. The result has the
    columns of `for_write` and ``deliver_at``. A delay is bounded by ``maxDelayMs``, three days;
    brokers of Apache RocketMQ round it to a second.

    Raises `SchemaError` as `for_write` does, and `OptionError` for a stream, a speed that is not
    above 0 and at most 1,000,000, another column, and a time without a zone.
    """
    from pyspark.sql import functions

    if frame.isStreaming:
        raise OptionError("replay takes no stream: it has no first message that is known before")
    if isinstance(speed, bool) or not isinstance(speed, (int, float)) or not 0 < speed <= SPEED_MAX:
        raise OptionError(f"replay: speed = {speed!r} must be a number above 0, up to {SPEED_MAX}")
    if by not in TIMES:
        raise OptionError(f"replay: by = {by!r} must be {' or '.join(TIMES)}")
    start_ms = wall_ms() + REPLAY_IN_MS if start is None else _ms("start", start)
    columns = copied(frame, "replay", properties=properties)
    moments = _milliseconds(frame, "replay", by)
    if first is None:
        found = frame.agg(functions.min(moments)).head()
        first_ms = None if found is None else found[0]  # null: there is no message
    else:
        first_ms = _ms("first", first)
    later_ms = functions.floor((moments - functions.lit(first_ms)) / functions.lit(float(speed)))
    due = functions.timestamp_millis(functions.lit(start_ms) + later_ms)
    return frame.select(*columns, due.alias("deliver_at"))


def copied(
    frame: DataFrame, what: str, *, properties: bool = True, store_time_as: str | None = None
) -> list[Column]:
    """Return the columns of a copy: those of `WRITE_BACK` that are there, and the properties."""
    from pyspark.sql import functions
    from pyspark.sql.types import MapType

    names = _names(frame)
    if "body" not in names:
        raise SchemaError(f"{what} needs the column body: read it, under that name or as value")
    columns = [functions.col(names[one]).alias(one) for one in WRITE_BACK if one in names]
    kept = None
    if properties:
        if "properties" not in names:
            raise SchemaError(
                f"{what} needs the column properties, else user properties would be lost: read "
                f"with includeHeaders=true, or call {what}(frame, properties=False) to leave them "
                "behind"
            )
        kind = frame.schema[names["properties"]].dataType
        if not isinstance(kind, MapType):
            raise SchemaError(
                f"{what} takes properties as map<string,string>, but {names['properties']} is "
                f"{kind.simpleString()}: read it as a map"
            )
        kept = functions.map_filter(
            functions.col(names["properties"]),
            lambda name, _value: ~name.isin(sorted(NO_PROPERTIES)),
        )
    if store_time_as is not None:
        if not store_time_as or store_time_as in NO_PROPERTIES:
            raise SchemaError(
                f"{what}: store_time_as = {store_time_as!r} must be the name of a property that "
                "RocketMQ does not reserve"
            )
        moment = _milliseconds(frame, what, "store_timestamp").cast("string")
        stored = functions.create_map(functions.lit(store_time_as), moment)
        if kept is None:
            kept = stored
        else:
            has_it = functions.map_contains_key(kept, store_time_as)
            kept = functions.when(has_it, kept).otherwise(functions.map_concat(kept, stored))
    return columns if kept is None else [*columns, kept.alias("properties")]


def _milliseconds(frame: DataFrame, what: str, column: str) -> Column:
    """Return a time of a read in epoch ms, whichever of its types it was read with."""
    from pyspark.sql import functions
    from pyspark.sql.types import LongType

    name = _names(frame).get(column)
    if name is None:
        raise SchemaError(f"{what} needs the column {column}: read it")
    cells = functions.col(name)
    is_number = isinstance(frame.schema[name].dataType, LongType)
    return cells if is_number else functions.unix_millis(cells)


def _ms(name: str, moment: datetime) -> int:
    if moment.tzinfo is None:
        raise OptionError(f"replay: {name} = {moment!r} has no time zone")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _names(frame: DataFrame) -> dict[str, str]:
    """Return what the columns of a frame show, and the name of each."""
    names: dict[str, str] = {}
    for name in frame.columns:
        names.setdefault(_meaning(name), name)
    return names


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


def _meaning(name: str) -> str:
    """Return what a column of a read shows; a column of the user's own stands for itself."""
    lower = name.lower()
    return READ_ALIASES.get(lower, lower)
