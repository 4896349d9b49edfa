"""Which columns a write takes, and what the cells of an Arrow batch mean as messages.

`check_columns` judges a schema when the write is planned; `read_rows` brings the columns of a
batch to plain types, whatever Arrow types Spark chose (time zones, large strings). In the columns
of delays null, zero and numbers below it mean no delay: such a row is delivered at once; only for a
negative ``delay_level`` the option ``delayPolicy`` counts. Must not know requests or the network.
Read on: ``encoding.py``.
"""

import difflib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connector.decoding.read_columns import US_PER_MS, is_read_column
from spark_connector.errors import SchemaError
from spark_connector.options.write_options import NO_PROPERTIES, WriteOptions

ALIASES = {
    "value": "body",
    "key": "keys",
    "headers": "properties",
    "message_group": "sharding_key",
}
DELAY_COLUMNS = ("deliver_at", "start_deliver_time", "delay_ms", "delay_level")
"""In the order in which one wins under ``delayConflict=first``."""

_KINDS: dict[str, tuple[str, ...]] = {
    "body": ("text", "binary"),
    "topic": ("text",),
    "keys": ("text", "texts"),
    "tags": ("text",),
    "properties": ("map", "pairs"),
    "sharding_key": ("text",),
    "queue_id": ("int",),
    "broker_name": ("text",),
    "flag": ("int",),
    "dedupe_key": ("text",),
    "message_id": ("text",),
    "delay_ms": ("int", "interval"),
    "deliver_at": ("timestamp", "int"),
    "delay_level": ("int",),
    "start_deliver_time": ("int",),
}
_WORDS = {
    "text": "string",
    "texts": "array<string>",
    "map": "map<string,string>",
    "pairs": "array<struct<key:string,value:string>>",
    "interval": "day-time interval",
    "int": "int or bigint",
}
Columns = dict[str, Any]
"""Plain arrays by column name; absent columns are absent."""


def check_columns(schema: pa.Schema, options: WriteOptions) -> dict[str, str]:
    """Return the column names of a write and what each means ("property" for extra ones).

    Raises `SchemaError` for missing and unknown columns and for types that mean nothing.
    """
    meanings: dict[str, str] = {}
    for column in schema:
        meaning = _meaning(column.name, options)
        if meaning == "ignored":
            continue
        if meaning == "property":
            _check_has_text(column)
            meanings[column.name] = meaning
            continue
        if meaning in meanings.values():
            raise SchemaError(f"column {column.name}: there is another {meaning} column already")
        kind = _kind(column.type)
        if kind not in _KINDS[meaning]:
            wanted = " or ".join(_WORDS.get(one, one) for one in _KINDS[meaning])
            raise SchemaError(f"column {column.name} cannot be {column.type}: it must be {wanted}")
        meanings[column.name] = meaning
    given = set(meanings.values())
    if "body" not in given:
        raise SchemaError("a write needs a column body (or value), string or binary")
    if options.topic is None and "topic" not in given:
        raise SchemaError("a write needs the option topic, or a column topic")
    if "sharding_key" in given and "queue_id" in given:
        raise SchemaError("columns sharding_key and queue_id exclude each other")
    _check_routing(given, options)
    if "broker_name" in given and "queue_id" not in given:
        raise SchemaError("column broker_name needs queue_id, the queue of that broker")
    return meanings


def _check_routing(given: set[str], options: WriteOptions) -> None:
    if options.route_by_key == "none":
        return
    what = f"routeByKey={options.route_by_key}"
    if "keys" not in given:
        raise SchemaError(f"{what} needs a column keys (or key), which chooses the queue")
    if "sharding_key" in given:
        raise SchemaError(f"{what} and a column sharding_key exclude each other")


def _meaning(name: str, options: WriteOptions) -> str:
    lower = name.lower()
    if lower == "partition" and options.use_partition:
        return "queue_id"
    meaning = ALIASES.get(lower, lower)
    if meaning in _KINDS:
        return meaning
    if options.extra_columns == "ignore":
        return "ignored"
    if options.extra_columns == "properties":
        if name not in NO_PROPERTIES:
            return "property"
        if options.reserved_properties == "drop":
            return "ignored"
        raise SchemaError(
            f"column {name} has a name that RocketMQ reserves for itself or for delays: rename it, "
            f"use one of the columns {', '.join(DELAY_COLUMNS)}, or set "
            "reservedProperties=drop to leave it out"
        )
    near = difflib.get_close_matches(lower, [*_KINDS, *ALIASES], n=1)
    hint = f": did you mean {near[0]}?" if near else ""
    if lower == "partition":
        hint = ": usePartition=true lets it choose the queue"
    of_a_read = ", or use spark_connector.for_write(df), which makes a read writable"
    raise SchemaError(
        f"unknown column {name}{hint}; set extraColumns=properties to store such columns as "
        "properties, or extraColumns=ignore to drop them"
        f"{of_a_read if is_read_column(name) else ''}"
    )


def _kind(arrow: pa.DataType) -> str:
    types = pa.types
    if types.is_string(arrow) or types.is_large_string(arrow):
        return "text"
    if types.is_binary(arrow) or types.is_large_binary(arrow):
        return "binary"
    if types.is_integer(arrow):
        return "int"
    if types.is_duration(arrow):
        return "interval"
    if types.is_timestamp(arrow):
        return "timestamp" if arrow.tz is not None else "timestamp without time zone"
    if types.is_map(arrow):
        good = _kind(arrow.key_type) == "text" and _kind(arrow.item_type) in {"text", "binary"}
        return "map" if good else str(arrow)
    if types.is_list(arrow) or types.is_large_list(arrow):
        inner = arrow.value_type
        if _kind(inner) == "text":
            return "texts"
        if types.is_struct(inner) and inner.num_fields == 2:
            kinds = [_kind(inner.field(number).type) for number in (0, 1)]
            good = kinds[0] == "text" and kinds[1] in {"text", "binary"}
            return "pairs" if good else str(arrow)
    return str(arrow)


def read_rows(batch: pa.RecordBatch, meanings: dict[str, str]) -> Columns:
    """Return the columns of a batch by meaning, in plain types.

    Texts are ``string``, bodies ``binary``, numbers and times ``int64`` (ms), properties a pair of
    flat arrays with their offsets; extra columns are listed under "extra".
    """
    columns: Columns = {"extra": []}
    for name, meaning in meanings.items():
        cells = batch.column(batch.schema.get_field_index(name))
        if meaning == "property":
            columns["extra"].append((name, cells.cast(pa.string())))
        else:
            columns[meaning] = _plain(meaning, cells)
    return columns


def _plain(meaning: str, cells: pa.Array) -> Any:  # an array, or the pair of properties
    kind = _kind(cells.type)
    match kind:
        case "text" if meaning == "body":
            return cells.cast(pa.string()).cast(pa.binary())
        case "text":
            return cells.cast(pa.string())
        case "binary":
            return cells.cast(pa.binary())
        case "texts":
            return _joined(cells.cast(pa.list_(pa.string())))
        case "interval":
            return _floor_ms(cells.cast(pa.duration("us")).cast(pa.int64()))
        case "timestamp":
            return _floor_ms(cells.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()))
        case "map" | "pairs":
            return _entries(cells)
        case _:
            return cells.cast(pa.int64())


def _joined(lists: pa.ListArray) -> pa.StringArray:
    """Join the texts of each row by blanks, without the nulls among them."""
    if lists.flatten().null_count:
        kept = [
            None if row is None else [one for one in row if one is not None]
            for row in lists.to_pylist()
        ]
        lists = pa.array(kept, lists.type)
    return pc.binary_join(lists, " ")


def _floor_ms(microseconds: pa.Array) -> pa.Array:
    shifted = pc.divide(microseconds, US_PER_MS)
    before = pc.and_(
        pc.less(microseconds, 0), pc.not_equal(pc.multiply(shifted, US_PER_MS), microseconds)
    )
    return pc.if_else(before, pc.subtract(shifted, 1), shifted)


def _entries(cells: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return for every property its row, its name and its value (binary when given so)."""
    if pa.types.is_map(cells.type):
        if cells.offset:  # Arrow takes no mask for a part of an array: make it a whole one
            cells = cells.take(pa.array(range(len(cells)), pa.int64()))
        pairs = pa.StructArray.from_arrays([cells.keys, cells.items], names=["key", "value"])
        offsets = cells.offsets
        # A null row of a map may still have entries below: leave them out.
        lists = pa.ListArray.from_arrays(offsets, pairs, mask=cells.is_null())
    else:
        lists = cells
    rows = pc.list_parent_indices(lists)
    flat = pc.list_flatten(lists)
    return rows.cast(pa.int64()), flat.field(0).cast(pa.string()), flat.field(1)


def _check_has_text(column: pa.Field) -> None:
    """Raise `SchemaError` for an extra column whose cells cannot be a property."""
    has_text = _kind(column.type) != "binary"  # bytes that are no text would show up too late
    try:
        pa.array([], column.type).cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        has_text = False
    if not has_text:
        raise SchemaError(
            f"column {column.name} of type {column.type} has no text form to store as a property: "
            "cast it to string, or drop it"
        )
