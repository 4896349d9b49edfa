"""Which columns a read can give and of which types: from a requested schema to a projection.

The requested schema is the projection: what is not asked for is not decoded. Must not know bytes
(`decoder.py`), Spark or the network; schemas are pyarrow's. Write columns are in
`writing/write_columns.py`.
"""

import difflib
from collections.abc import Iterable

import pyarrow as pa
from attrs import frozen

from spark_connector.errors import SchemaError

TIMESTAMPS = ("timestamp", "int64")
_TYPES: dict[str, tuple[str, ...]] = {
    "topic": ("string",),
    "broker_name": ("string",),
    "queue_id": ("int32",),
    "offset": ("int64",),
    "message_id": ("string",),
    "keys": ("string",),
    "tags": ("string",),
    "born_timestamp": TIMESTAMPS,
    "store_timestamp": TIMESTAMPS,
    "body": ("binary", "string"),
    "properties": ("map", "string", "list"),
    "dedupe_id": ("string",),
    "flag": ("int32",),
    "sys_flag": ("int32",),
    "body_crc": ("int32",),
    "reconsume_times": ("int32",),
    "store_size": ("int32",),
    "commit_log_offset": ("int64",),
    "queue_size_left": ("int64",),
    "offset_msg_id": ("string",),
    "born_host": ("string",),
    "store_host": ("string",),
    "transaction_id": ("string",),
    "sharding_key": ("string",),
    "deliver_at": TIMESTAMPS,
    "delay_level": ("int32",),
    "origin_topic": ("string",),
    "origin_message_id": ("string",),
}
"""Column to the types it can have, the usual one first."""

PLACE = ("topic", "broker_name", "queue_id", "offset")
"""Columns that are known of every message, whatever else of it cannot be read."""
DEFAULT_COLUMNS = (
    "topic",
    "broker_name",
    "queue_id",
    "offset",
    "message_id",
    "keys",
    "tags",
    "born_timestamp",
    "store_timestamp",
    "body",
)
OF_RETRIES = ("origin_topic", "origin_message_id", "reconsume_times")
"""Columns that a read of dead letters or retries has besides the default ones."""
ALIASES = {
    "brokername": "broker_name",
    "queueid": "queue_id",
    "queueoffset": "offset",
    "borntimestamp": "born_timestamp",
    "storetimestamp": "store_timestamp",
    "value": "body",
    "key": "keys",
    "partition": "queue_id",
    "timestamp": "store_timestamp",
    "headers": "properties",
}
"""Names of the old connector and of Kafka's, in lower case."""

CORRUPT = "corrupt record"
"""Source of the column that shows messages that cannot be decoded, whatever its name is."""
CORRUPT_TYPES = ("binary", "string")

PROPERTY = "property"
"""A struct with one field for each property that is asked for, so that Spark reads the dot in
``property.NAME`` as that of a field."""
PROPERTY_PREFIX = f"{PROPERTY}."
PROPERTIES_OF = {
    "keys": ("KEYS",),
    "tags": ("TAGS",),
    "dedupe_id": ("DEDUPE_ID",),
    "sharding_key": ("__SHARDINGKEY",),
    "origin_topic": ("DLQ_ORIGIN_TOPIC", "RETRY_TOPIC"),
    "origin_message_id": ("DLQ_ORIGIN_MESSAGE_ID", "ORIGIN_MESSAGE_ID"),
}
"""Columns that show a property of a message: the first one that is there."""

TRANSACTION_MARK = "TRAN_MSG"
"""Property that is ``true`` for messages of transactions, whose id is then their ``UNIQ_KEY``."""

DELIVER_NAMES = ("TIMER_DELIVER_MS", "TIMER_OUT_MS", "__STARTDELIVERTIME")
"""Properties that the column ``deliver_at`` shows, the first one that is there."""

US_PER_MS = 1_000
MS_MAX = (1 << 63) // US_PER_MS - 1
"""The last moment that a timestamp column can show; later ones are shown as this.

Those that are as long before 1970 are shown as the first one, ``-MS_MAX``.
"""

_DDL = {
    "int32": "INT",
    "int64": "BIGINT",
    "string": "STRING",
    "binary": "BINARY",
    "timestamp": "TIMESTAMP",
    "map": "MAP<STRING, STRING>",
}
_WORDS = {
    "int32": "int",
    "int64": "bigint",
    "map": "map<string,string>",
    "list": "array<struct<key:string,value:string>>",
    "struct": "struct<NAME:string>",
}
"""How error texts name types: as Spark does."""
_NO_FIELDS = (
    f"column {PROPERTY} needs the names of properties: ask for {PROPERTY_PREFIX}NAME, or for "
    f"{PROPERTY} struct<NAME:string> in a schema"
)


@frozen
class Column:
    """One column of a read: the user's name, what it shows, and its Arrow type.

    `source` is a column name of ours, ``property.NAME``, `PROPERTY`, or `CORRUPT`. `parts` are the
    columns inside of `PROPERTY`.
    """

    name: str
    source: str
    type: pa.DataType
    kind: str
    parts: "tuple[Column, ...]" = ()

    @property
    def property_names(self) -> tuple[str, ...]:
        """The message properties of which the column shows the first one that is there."""
        if self.source.startswith(PROPERTY_PREFIX):
            return (self.source[len(PROPERTY_PREFIX) :],)
        return PROPERTIES_OF.get(self.source, ())


def ddl_of(
    columns: Iterable[str],
    *,
    default: Iterable[str] = DEFAULT_COLUMNS,
    include_headers: bool = False,
    corrupt: str = "_corrupt_record",
) -> str:
    """Return the Spark schema text of columns with their usual types; () means the default set.

    Columns ``property.NAME`` become fields of one column `PROPERTY`. ``corrupt`` is the name of the
    column of what cannot be decoded. Raises `SchemaError` for an unknown column.
    """
    names = list(columns) or list(default)
    sources = [source_of(name, corrupt) for name in names]
    if include_headers and "properties" not in sources:
        names.append("properties")
        sources.append("properties")
    if PROPERTY in sources:
        raise SchemaError(_NO_FIELDS)
    fields = [one.removeprefix(PROPERTY_PREFIX) for one in sources if _is_field(one)]
    struct = f"STRUCT<{', '.join(f'{_quoted(one)}: STRING' for one in fields)}>"
    parts = []
    for name, source in zip(names, sources, strict=True):
        if not _is_field(source):
            parts.append(field_ddl(name, _types_of(source)[0]))
        elif fields:
            parts.append(f"{_quoted(PROPERTY)} {struct}")
            fields = []
    return ", ".join(parts)


def _is_field(source: str) -> bool:
    return source.startswith(PROPERTY_PREFIX)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def projection(
    schema: pa.Schema, *, corrupt: str = "_corrupt_record", mode: str = "FAILFAST"
) -> tuple[Column, ...]:
    """Check a requested schema; raises `SchemaError` for unknown columns and types.

    ``corrupt`` is as for `ddl_of`; ``mode`` says what happens to what cannot be decoded.
    """
    columns = []
    for wanted in schema:
        source = source_of(wanted.name, corrupt)
        if not wanted.nullable and (
            source == CORRUPT or (mode == "PERMISSIVE" and source not in PLACE)
        ):
            raise SchemaError(
                f"column {wanted.name} is NOT NULL, but messages that cannot be decoded have null "
                "there: leave that out, or use another mode"
            )
        kind = kind_of(wanted, _types_of(source))
        parts = _fields(wanted.type) if kind == "struct" else ()
        columns.append(Column(wanted.name, source, wanted.type, kind, parts))
    return tuple(columns)


def kind_of(wanted: pa.Field, allowed: Iterable[str]) -> str:
    """Return what of the allowed types a requested column has; raises `SchemaError` for others."""
    kind = _kind(wanted.type)
    if kind not in allowed:
        words = " or ".join(_WORDS.get(one, one) for one in allowed)
        raise SchemaError(f"column {wanted.name} cannot be {wanted.type}: it must be {words}")
    return kind


def field_ddl(name: str, kind: str) -> str:
    """Return a column of one of these types as Spark's schema texts write it."""
    return f"{_quoted(name)} {_DDL[kind]}"


def _fields(struct: pa.StructType) -> tuple[Column, ...]:
    """Return the columns inside of `PROPERTY`; raises `SchemaError` for what no property can be."""
    for one in struct:
        if not (_is_text(one.type) and one.nullable):
            raise SchemaError(
                f"field {one.name} of column {PROPERTY} must be string, and not NOT NULL: a "
                "property is a text, and messages may lack it"
            )
    if not struct.num_fields:
        raise SchemaError(_NO_FIELDS)
    return tuple(Column(one.name, PROPERTY_PREFIX + one.name, one.type, "string") for one in struct)


def _types_of(source: str) -> tuple[str, ...]:
    if source == CORRUPT:
        return CORRUPT_TYPES
    if source == PROPERTY:
        return ("struct",)
    return ("string",) if _is_field(source) else _TYPES[source]


def source_of(name: str, corrupt: str = "_corrupt_record") -> str:
    """Return what a column name shows; raises `SchemaError` with the nearest name."""
    lower = name.lower()
    if lower == corrupt.lower():
        return CORRUPT
    if lower == PROPERTY:
        return PROPERTY
    if lower.startswith(PROPERTY_PREFIX) and len(name) > len(PROPERTY_PREFIX):
        return PROPERTY_PREFIX + name[len(PROPERTY_PREFIX) :]
    source = ALIASES.get(lower, lower)
    if source in _TYPES:
        return source
    near = difflib.get_close_matches(lower, [*_TYPES, *ALIASES], n=1)
    hint = f": did you mean {near[0]}?" if near else ""
    raise SchemaError(f"unknown column {name}{hint}; there is also {PROPERTY_PREFIX}NAME")


def is_read_column(name: str) -> bool:
    """Whether a read can give a column of this name, by an alias or as ``property.NAME``."""
    lower = name.lower()
    return (
        lower == PROPERTY
        or lower.startswith(PROPERTY_PREFIX)
        or ALIASES.get(lower, lower) in _TYPES
    )


def _kind(arrow: pa.DataType) -> str:
    types = pa.types
    if types.is_timestamp(arrow):
        return "timestamp" if arrow.tz is not None else "timestamp without time zone"
    if types.is_map(arrow):
        return "map" if _is_text(arrow.key_type) and _is_text(arrow.item_type) else str(arrow)
    if types.is_struct(arrow):
        return "struct"
    if types.is_list(arrow) and types.is_struct(arrow.value_type):
        inner = arrow.value_type
        named = [inner.field(i).name for i in range(inner.num_fields)] == ["key", "value"]
        texts = all(_is_text(inner.field(i).type) for i in range(inner.num_fields))
        return "list" if named and texts else str(arrow)
    return str(arrow)


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow))
