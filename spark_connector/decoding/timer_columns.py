"""Which columns a read of pending timers can give, and how rows about timers become Arrow batches.

Must not know where the rows come from. Read on: ``read_columns.py`` for the columns of messages,
``reading/timer_reader.py`` for who reads.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from attrs import frozen

from spark_connector.decoding.read_columns import MS_MAX, TIMESTAMPS, US_PER_MS, field_ddl, kind_of
from spark_connector.errors import SchemaError


class TimerRow(NamedTuple):
    """One waiting message; times in epoch ms, sizes in bytes as stored.

    ``body`` and ``properties`` are None unless they were asked for.
    """

    topic: str
    broker_name: str | None
    queue_id: int
    message_id: str
    keys: str
    tags: str | None
    due_ms: int
    accepted_ms: int
    hops: int
    kind: str
    body_size: int
    recall_handle: str | None
    body: bytes | None = None
    properties: Mapping[str, str] | None = None


@frozen
class _Column:
    """The types that a column can have, the usual one first, and its value at a time in ms."""

    types: tuple[str, ...]
    value: Callable[[TimerRow, int], Any]  # Any: of the first type
    can_be_null: bool = False
    is_usual: bool = True


_COLUMNS: Mapping[str, _Column] = {
    "topic": _Column(("string",), lambda row, _: row.topic),
    "broker_name": _Column(("string",), lambda row, _: row.broker_name, can_be_null=True),
    "queue_id": _Column(("int32",), lambda row, _: row.queue_id),
    "message_id": _Column(("string",), lambda row, _: row.message_id),
    "keys": _Column(("string",), lambda row, _: row.keys),
    "tags": _Column(("string",), lambda row, _: row.tags, can_be_null=True),
    "due_at": _Column(TIMESTAMPS, lambda row, _: row.due_ms),
    "accepted_at": _Column(TIMESTAMPS, lambda row, _: row.accepted_ms),
    "lateness_ms": _Column(("int64",), lambda row, now_ms: max(0, now_ms - row.due_ms)),
    "age_ms": _Column(("int64",), lambda row, now_ms: max(0, now_ms - row.accepted_ms)),
    "hops": _Column(("int32",), lambda row, _: row.hops),
    "kind": _Column(("string",), lambda row, _: row.kind),
    "recall_handle": _Column(("string",), lambda row, _: row.recall_handle, can_be_null=True),
    "body": _Column(
        ("binary", "string"), lambda row, _: row.body, can_be_null=True, is_usual=False
    ),
    "properties": _Column(
        ("map",), lambda row, _: list((row.properties or {}).items()), is_usual=False
    ),
    "body_size": _Column(("int32",), lambda row, _: row.body_size, is_usual=False),
}
TIMER_COLUMNS = tuple(_COLUMNS)
STORED = ("body", "properties")
"""Columns for which each message is read once more."""


def timer_ddl(columns: Iterable[str]) -> str:
    """Return the Spark schema text of columns with their usual types; () means the default set.

    Raises `SchemaError` for an unknown column.
    """
    names = list(columns) or [name for name, one in _COLUMNS.items() if one.is_usual]
    return ", ".join(field_ddl(name, _column(name).types[0]) for name in names)


def check_timer_columns(schema: pa.Schema) -> None:
    """Raise `SchemaError` for columns that timers do not have, or of other types."""
    for wanted in schema:
        column = _column(wanted.name)
        kind_of(wanted, column.types)
        if column.can_be_null and not wanted.nullable:
            raise SchemaError(f"column {wanted.name} is NOT NULL, but it is null for some timers")


def wants_stored(schema: pa.Schema) -> bool:
    """Whether a column needs what only the stored message has."""
    return any(one.name.lower() in STORED for one in schema)


def timer_batches(
    rows: Iterable[TimerRow], schema: pa.Schema, *, now_ms: int, rows_most: int, bytes_most: int
) -> Iterator[pa.RecordBatch]:
    """Give rows as record batches, each of at most so many rows and about so many bytes."""
    kept: list[TimerRow] = []
    size = 0
    for row in rows:
        kept.append(row)
        size += 0 if row.body is None else len(row.body)
        if len(kept) >= rows_most or size >= bytes_most:
            yield _batch(kept, schema, now_ms)
            kept, size = [], 0
    if kept:
        yield _batch(kept, schema, now_ms)


def _batch(rows: list[TimerRow], schema: pa.Schema, now_ms: int) -> pa.RecordBatch:
    if not schema.names:  # a count needs no columns, and yet the number of rows
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    arrays = []
    for wanted in schema:
        value = _column(wanted.name).value
        cells = [value(row, now_ms) for row in rows]
        if pa.types.is_timestamp(wanted.type):
            cells = [max(-MS_MAX, min(cell, MS_MAX)) * US_PER_MS for cell in cells]
        elif pa.types.is_string(wanted.type) and wanted.name.lower() == "body":
            cells = [None if cell is None else cell.decode(errors="replace") for cell in cells]
        arrays.append(pa.array(cells, wanted.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(name: str) -> _Column:
    found = _COLUMNS.get(name.lower())
    if found is not None:
        return found
    near = difflib.get_close_matches(name.lower(), _COLUMNS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_COLUMNS)}"
    raise SchemaError(f"pending timers have no column {name}: {hint}")
