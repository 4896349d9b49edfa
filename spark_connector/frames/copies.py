"""How messages that were read are written again, and how repeated ones are dropped.

`for_write` and `dedupe` work on frames of a read. Must not know bytes or the network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_connector.decoding.read_columns import ALIASES as READ_ALIASES
from spark_connector.errors import SchemaError
from spark_connector.options.write_options import NO_PROPERTIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITE_BACK = ("body", "keys", "tags", "flag")


def for_write(frame: DataFrame, *, properties: bool = True) -> DataFrame:
    """Turn a read into what a write takes: body, keys, tags, flag and user properties.

    Topic, queue, offset and times of the original are left out, and so are the properties that
    RocketMQ reserves, and an old delay, the start time of ONS included. Columns may have the other
    names that a read knows (``value``, ``headers``). A default read has neither properties nor
    flags: add ``includeHeaders=true``, and ``flag`` to the columns where flags matter. With
    ``properties`` false user properties are left behind. Raises `SchemaError`, a ValueError, when
    the frame has no body, no properties though they are wanted, or properties that are no map.
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
    kept = functions.map_filter(
        functions.col(names["properties"]), lambda name, _value: ~name.isin(sorted(NO_PROPERTIES))
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


def _meaning(name: str) -> str:
    """Return what a column of a read shows; a column of the user's own stands for itself."""
    lower = name.lower()
    return READ_ALIASES.get(lower, lower)
