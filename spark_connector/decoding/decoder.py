"""How pulled bytes become an Arrow record batch of the columns that were asked for.

`Decoder.decode` takes stored records of one queue back to back (the joined bodies of several
pulls) and gives one record batch. Regular records are decoded together (`record_layout.py`,
`property_table.py`); the rest (compressed bodies, IPv6 hosts, long topics, odd properties) one by
one by the client's codec (`row_decoding.py`), with the same result, and without numpy everything.
Must not know Spark or the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from rocketmq_py import ClientConfig, RemotingCommandException
from rocketmq_py.raw import RawMessages
from spark_connector.decoding.malformed import Malformed
from spark_connector.decoding.read_columns import (
    CORRUPT,
    DELIVER_NAMES,
    MS_MAX,
    PROPERTY,
    TRANSACTION_MARK,
    US_PER_MS,
    Column,
)
from spark_connector.decoding.row_decoding import (
    COMPRESSED,
    DIGITS_MAX,
    LEVEL_DIGITS_MAX,
    RECORD_SIZE_MIN,
    decode_row,
    is_wrapped,
    place_of,
    salvaged,
    salvaged_value,
    value_of,
)

try:
    import numpy as np

    from spark_connector.decoding import record_layout as ranges
    from spark_connector.decoding.property_table import PropertyTable, SameNames, property_table
except ImportError:  # the slow path needs no numpy and gives equal rows
    np = None

UTC_TIME = pa.timestamp("us", tz="UTC")
_NEEDS_PROPERTIES = {
    "message_id",
    "transaction_id",
    "deliver_at",
    "delay_level",
    "properties",
    PROPERTY,
}
Array = Any  # numpy arrays: numpy's types are not read by the type checker


_USUAL = ClientConfig(namesrv_addr="")

_Row = tuple[list[object], int, str | None, int]
"""Values, queue offset and tag of one message, and the bytes that its body has decompressed."""


class _PartIsFullError(Exception):
    """The record at a byte would make the decompressed bodies of a batch too many."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class WrappedBatches(Exception):  # noqa: N818 - caught by who has the records: take them apart
    """Some records hold several messages each."""


@frozen(eq=False)
class _Rows:
    """The rows of one buffer; `malformed` has the numbers of those that cannot be decoded."""

    arrays: list[pa.Array]
    offsets: list[int]
    tags: pa.Array
    malformed: list[int] = field(factory=list)


@define(eq=False)
class Decoder:
    """Turns records of one queue into record batches of one schema.

    ``tags``: keep only these (brokers filter by hash, so others may come along); () keeps all.
    ``namespace`` is left off origin topics, as a read leaves it off ``topic``.
    ``fast`` false uses the per-row codec for everything. ``mode`` is the option of that name;
    ``malformed`` counts what could not be decoded. ``body_size_max`` bounds what one compressed
    body may become, ``bodies_size_max`` what those of one record batch may become together.
    """

    columns: tuple[Column, ...]
    topic: str = field(kw_only=True)
    broker_name: str = field(kw_only=True)
    namespace: str = field(kw_only=True, default="")
    tags: tuple[str, ...] = field(kw_only=True, default=())
    strict_text: bool = field(kw_only=True, default=False)
    check_crc: bool = field(kw_only=True, default=False)
    fast: bool = field(kw_only=True, default=True)
    mode: str = field(kw_only=True, default="FAILFAST")
    malformed: Malformed = field(kw_only=True, factory=Malformed)
    body_size_max: int = field(kw_only=True, default=_USUAL.decompressed_body_max_bytes)
    bodies_size_max: int = field(kw_only=True, default=_USUAL.decompressed_total_max_bytes)
    _is_taken_apart: bool = field(init=False, default=False)
    property_decodes: int = field(init=False, default=0)
    """How often properties were taken apart: stays 0 while no column needs them."""

    @property
    def wants_bodies(self) -> bool:
        """Whether a body that cannot be decompressed matters."""
        return any(column.source == "body" for column in self.columns)

    @property
    def schema(self) -> pa.Schema:
        """That of the batches, without not-null marks."""
        return pa.schema([(column.name, column.type) for column in self.columns])

    def decode_parts(
        self,
        raw: bytes | memoryview,
        max_offset: int,
        schema: pa.Schema | None = None,
        *,
        taken_apart: bool = False,
    ) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        """Decode all records as `decode` does, in as many batches as compressed bodies need.

        Mostly that is one. A few bytes can become gigabytes, which is known only when it is done:
        a part that grows too large is cut there, and decoded again up to the cut.
        """
        left = memoryview(raw)
        while True:
            malformed = self.malformed.count
            try:
                whole = self.decode(left, max_offset, schema, taken_apart=taken_apart)
            except _PartIsFullError as full:
                self.malformed.forget_since(malformed)
                at = full.at
            else:
                yield whole
                return
            yield self.decode(left[:at], max_offset, schema, taken_apart=taken_apart)
            left = left[at:]

    def decode(
        self,
        raw: bytes | memoryview,
        max_offset: int,
        schema: pa.Schema | None = None,
        *,
        taken_apart: bool = False,
    ) -> tuple[pa.RecordBatch, list[int]]:
        """Decode all records; also give their queue offsets, those left out by tag included.

        ``max_offset`` is the queue's end when they were pulled. ``schema`` (else our own without
        not-null marks) is that of the batch. Raises `RecordError` or `BodyError` naming queue and
        offset for bytes that no codec can read, and `WrappedBatches` when records hold several
        messages; with ``taken_apart`` such a record is one that cannot be read.
        """
        self._is_taken_apart = taken_apart
        schema = schema or self.schema
        if self.fast and np is not None:
            try:
                starts = ranges.record_starts(raw)
                rows = self._decode_fast(raw, starts, max_offset)
            except (pa.ArrowInvalid, ValueError):
                # Bytes that are no UTF-8, or no records: the codec decides, and says what is wrong.
                rows = self._decode_rows(raw, _walk(raw), max_offset)
        else:
            rows = self._decode_rows(raw, _walk(raw), max_offset)
        count = len(rows.offsets)
        if rows.arrays:
            arrays = [
                _bare_names(cells, self.namespace) if one.source == "origin_topic" else cells
                for one, cells in zip(self.columns, rows.arrays, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        else:
            batch = pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        return self._chosen(batch, rows), rows.offsets

    def _chosen(self, batch: pa.RecordBatch, rows: _Rows) -> pa.RecordBatch:
        """Leave out rows of other tags, and those that cannot be decoded if they are to be."""
        if self.tags and rows.offsets:
            chosen = pc.is_in(rows.tags, value_set=pa.array(self.tags, pa.string()))
            if rows.malformed:  # their tags may be what cannot be read
                chosen = pc.or_(chosen, _marks(rows))
        elif rows.malformed and self.mode == "DROPMALFORMED":
            chosen = pc.invert(_marks(rows))
        else:
            return batch
        if rows.malformed and self.mode == "DROPMALFORMED":
            chosen = pc.and_not(chosen, _marks(rows))
        return batch.filter(chosen)

    # --- row by row ------------------------------------------------------------------------------

    def _decode_rows(
        self, raw: bytes | memoryview, starts: Iterable[int], max_offset: int
    ) -> _Rows:
        cells: list[list[object]] = [[] for _ in self.columns]
        offsets: list[int] = []
        tags: list[str | None] = []
        malformed: list[int] = []
        grown = 0
        for at in starts:
            try:
                values, offset, tag, size = self._row(raw, at, max_offset)
            except RemotingCommandException as error:
                values, offset, tag, size = self._malformed_row(raw, at, error)
                malformed.append(len(offsets))
            if size:
                if grown and grown + size > self.bodies_size_max:
                    raise _PartIsFullError(at)
                grown += size
            for value, into in zip(values, cells, strict=True):
                into.append(value)
            offsets.append(offset)
            tags.append(tag)
        arrays = [
            pa.array(items, column.type) for column, items in zip(self.columns, cells, strict=True)
        ]
        return _Rows(arrays, offsets, pa.array(tags, pa.string()), malformed)

    def _row(self, raw: bytes | memoryview, at: int, max_offset: int) -> _Row:
        if not self._is_taken_apart and is_wrapped(raw, at):
            raise WrappedBatches
        message = decode_row(
            raw,
            at,
            self.topic,
            self.broker_name,
            check_crc=self.check_crc,
            with_body=self.wants_bodies,
            body_size_max=self.body_size_max,
        )
        strict = self.strict_text
        values = [
            None
            if column.source == CORRUPT
            else value_of(column, message, self.topic, max_offset, strict_text=strict)
            for column in self.columns
        ]
        grown = len(message.body) if message.sys_flag & COMPRESSED else 0
        return values, message.queue_offset, message.properties.get("TAGS"), grown

    def _malformed_row(
        self, raw: bytes | memoryview, at: int, error: RemotingCommandException
    ) -> _Row:
        """Return what can be read of a record; raises its error when it is not to be gone on."""
        size = int.from_bytes(raw[at : at + 4], signed=True)
        # With a wrong size nobody knows where the next record begins.
        if self.mode == "FAILFAST" or not RECORD_SIZE_MIN <= size <= len(raw) - at:
            raise error
        why = str(error).partition("; mode=")[0]
        self.malformed.add(why)
        place = place_of(raw, at)
        message = salvaged(raw, at, self.broker_name)
        values = [
            salvaged_value(column, message, self.topic, self.broker_name, place)
            if column.source != CORRUPT
            else why
            if column.kind == "string"
            else bytes(raw[at : at + size])
            for column in self.columns
        ]
        tag = None if message is None else message.properties.get("TAGS")
        return values, place[1], tag, 0

    # --- all at once -----------------------------------------------------------------------------

    def _decode_fast(self, raw: bytes | memoryview, starts: Array, max_offset: int) -> _Rows:
        layout, regular = ranges.layout_of(raw, starts, with_bodies=self.wants_bodies)
        if not self._is_taken_apart and ranges.has_batches(layout):
            raise WrappedBatches
        table: PropertyTable | SameNames | None = None
        if self.tags or any(
            one.source in _NEEDS_PROPERTIES or one.property_names for one in self.columns
        ):
            self.property_decodes += 1
            chosen = np.flatnonzero(regular)
            texts = ranges.cut(raw, layout.props_at[chosen], layout.props_len[chosen])
            table, odd = property_table(texts)
            if odd.any():
                regular[chosen[odd]] = False
                good = np.flatnonzero(regular)
                texts = ranges.cut(raw, layout.props_at[good], layout.props_len[good])
                table, _ = property_table(texts)
        if self.check_crc:
            self._mark_bad_bodies(raw, layout, regular)
        rows = np.flatnonzero(regular)
        if not len(rows):
            return self._decode_rows(raw, starts.tolist(), max_offset)
        view = _View(raw, layout, rows, table, self, max_offset)
        arrays = [view.column(column) for column in self.columns]
        tags = view.property("TAGS") if self.tags else pa.nulls(len(rows), pa.string())
        offsets = view.heads["queue_offset"].astype(np.int64)
        odd_rows = np.flatnonzero(~regular)
        if not len(odd_rows):
            return _Rows(arrays, offsets.tolist(), tags)
        slow = self._decode_rows(raw, starts[odd_rows].tolist(), max_offset)
        back = np.argsort(np.concatenate((rows, odd_rows)), kind="stable")
        order = pa.array(back)
        merged = [
            pa.concat_arrays([a, b]).take(order) for a, b in zip(arrays, slow.arrays, strict=True)
        ]
        all_offsets = np.concatenate((offsets, np.array(slow.offsets, np.int64)))[back]
        return _Rows(
            merged,
            all_offsets.tolist(),
            pa.concat_arrays([tags, slow.tags]).take(order),
            odd_rows[slow.malformed].tolist() if slow.malformed else [],
        )

    def _mark_bad_bodies(self, raw: bytes | memoryview, layout: Any, regular: Array) -> None:
        """Leave bodies whose checksum differs to the codec, which says so."""
        view, crc32, mask = memoryview(raw), RawMessages.crc32, RawMessages.CRC_MASK
        rows = np.flatnonzero(regular)
        at, lengths = layout.body_at[rows].tolist(), layout.body_len[rows].tolist()
        expected = (layout.heads["crc"][rows] & mask).tolist()
        for row, begin, length, crc in zip(rows, at, lengths, expected, strict=True):
            if crc32(view[begin : begin + length]) & mask != crc:
                regular[row] = False


def _bare_names(names: pa.StringArray, namespace: str) -> pa.StringArray:
    """Leave a namespace off names of topics; other names and nulls stay."""
    if not namespace:
        return names
    prefix = f"{namespace}%"
    rest = pc.utf8_slice_codeunits(names, len(prefix))
    return pc.if_else(pc.starts_with(names, prefix), rest, names)


def _marks(rows: _Rows) -> pa.BooleanArray:
    """Return which rows cannot be decoded."""
    marked = set(rows.malformed)
    return pa.array([number in marked for number in range(len(rows.offsets))])


def _walk(raw: bytes | memoryview) -> Iterator[int]:
    """Give the offset of each record; whoever takes one finds out whether it is good."""
    at = 0
    while at < len(raw):
        yield at
        at += int.from_bytes(raw[at : at + 4])


@define(eq=False)
class _View:
    """The regular records of one buffer, from which columns are built when asked for."""

    _raw: bytes | memoryview
    _layout: Any  # a Layout of record_layout.py, which needs numpy
    _rows: Array
    _table: PropertyTable | SameNames | None
    _decoder: Decoder
    _max_offset: int
    _count: int = field(init=False)
    heads: Array = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._count = len(self._rows)
        is_whole = self._count == len(self._layout.heads)
        self.heads = self._layout.heads if is_whole else self._layout.heads[self._rows]

    def column(self, column: Column) -> pa.Array:
        """Build one column."""
        names = column.property_names
        if names:
            return self.first_property(names)
        build = _BUILDERS[column.source]
        return build(self, column)

    def property(self, name: str) -> pa.StringArray:
        """Give one property of every row."""
        if self._table is None:
            raise ValueError("properties were not decoded")
        return self._table.column(name)

    def first_property(self, names: tuple[str, ...]) -> pa.StringArray:
        """Give of every row the first of these properties that it has."""
        found = self.property(names[0])
        for name in names[1:]:
            if found.null_count:
                found = pc.coalesce(found, self.property(name))
        return found

    # --- columns ---------------------------------------------------------------------------------

    def constant(self, column: Column) -> pa.Array:
        values = {"topic": self._decoder.topic, "broker_name": self._decoder.broker_name}
        return pa.repeat(pa.scalar(values[column.source], pa.string()), self._count)

    def number(self, column: Column) -> pa.Array:
        field = {"offset": "queue_offset", "body_crc": "crc", "store_size": "size"}
        values = self.heads[field.get(column.source, column.source)]
        return pa.array(values.astype(np.int64), column.type)

    def moment(self, column: Column) -> pa.Array:
        return _moments(pa.array(self.heads[column.source].astype(np.int64)), column)

    def nothing(self, column: Column) -> pa.Array:
        return pa.nulls(self._count, column.type)

    def size_left(self, _column: Column) -> pa.Array:
        left = self._max_offset - 1 - self.heads["queue_offset"].astype(np.int64)
        return pa.array(np.maximum(left, 0))

    def body(self, column: Column) -> pa.Array:
        rows = self._rows
        bodies = ranges.cut(self._raw, self._layout.body_at[rows], self._layout.body_len[rows])
        return bodies if column.kind == "binary" else bodies.cast(pa.string())

    def offset_msg_id(self, _column: Column) -> pa.Array:
        parts = np.empty((self._count, 16), np.uint8)
        host = np.ascontiguousarray(self.heads["store_host"]).view(np.uint8)
        place = np.ascontiguousarray(self.heads["commit_log_offset"]).view(np.uint8)
        parts[:, :8] = host.reshape(-1, 8)
        parts[:, 8:] = place.reshape(-1, 8)
        return _hex(parts)

    def message_id(self, column: Column) -> pa.Array:
        given = self.property("UNIQ_KEY")
        return given if not given.null_count else pc.coalesce(given, self.offset_msg_id(column))

    def transaction_id(self, _column: Column) -> pa.Array:
        """Give what a consumer shows: the id of a message whose producer sent it in one."""
        marked = pc.equal(pc.utf8_lower(self.property(TRANSACTION_MARK)), "true")
        return pc.if_else(marked, self.property("UNIQ_KEY"), pa.scalar(None, pa.string()))

    def host(self, column: Column) -> pa.Array:
        packed = np.ascontiguousarray(self.heads[column.source]).view("V8")
        unique, codes = np.unique(packed, return_inverse=True)
        texts = [_host_text(one.tobytes()) for one in unique]
        return pa.array(texts, pa.string()).take(pa.array(codes.reshape(-1)))

    def deliver_at(self, column: Column) -> pa.Array:
        return _moments(_numbers(self.first_property(DELIVER_NAMES)), column)

    def delay_level(self, column: Column) -> pa.Array:
        return _numbers(self.property("DELAY"), LEVEL_DIGITS_MAX).cast(column.type)

    def struct(self, column: Column) -> pa.StructArray:
        parts = [self.column(part) for part in column.parts]
        return pa.StructArray.from_arrays(parts, fields=list(column.type))

    def properties(self, column: Column) -> pa.Array:
        table = self._table
        if table is None:
            raise ValueError("properties were not decoded")
        first = pa.array(table.first, pa.int32())
        if column.kind == "map":
            return pa.MapArray.from_arrays(first, table.names, table.values, type=column.type)
        if column.kind == "list":
            inner = column.type.value_type
            pairs = pa.StructArray.from_arrays(
                [table.names, table.values], fields=[inner.field(0), inner.field(1)]
            )
            return pa.ListArray.from_arrays(first, pairs, type=column.type)
        return _json_texts(table, first)


_BUILDERS: dict[str, Callable[[_View, Column], pa.Array]] = {
    "topic": _View.constant,
    "broker_name": _View.constant,
    "born_timestamp": _View.moment,
    "store_timestamp": _View.moment,
    "queue_size_left": _View.size_left,
    "body": _View.body,
    "offset_msg_id": _View.offset_msg_id,
    "message_id": _View.message_id,
    "transaction_id": _View.transaction_id,
    "born_host": _View.host,
    "store_host": _View.host,
    "deliver_at": _View.deliver_at,
    "delay_level": _View.delay_level,
    "properties": _View.properties,
    PROPERTY: _View.struct,
    CORRUPT: _View.nothing,
    **dict.fromkeys(
        (
            "queue_id",
            "offset",
            "flag",
            "sys_flag",
            "body_crc",
            "reconsume_times",
            "store_size",
            "commit_log_offset",
        ),
        _View.number,
    ),
}


def _moments(milliseconds: pa.Array, column: Column) -> pa.Array:
    if column.kind == "int64":
        return milliseconds
    bounded = pc.min_element_wise(milliseconds, pa.scalar(MS_MAX), skip_nulls=False)
    bounded = pc.max_element_wise(bounded, pa.scalar(-MS_MAX), skip_nulls=False)
    return pc.multiply(bounded, US_PER_MS).cast(UTC_TIME)


def _numbers(texts: pa.StringArray, digits_max: int = DIGITS_MAX) -> pa.Array:
    """Whole numbers of at most so many digits; null for anything else."""
    good = pc.match_substring_regex(texts, f"^-?[0-9]{{1,{digits_max}}}$")
    return pc.if_else(good, texts, pa.scalar(None, pa.string())).cast(pa.int64())


def _hex(parts: Array) -> pa.StringArray:
    digits = np.frombuffer(b"0123456789ABCDEF", np.uint8)
    rows, width = parts.shape
    text = np.empty((rows, 2 * width), np.uint8)
    text[:, 0::2] = digits[parts >> 4]
    text[:, 1::2] = digits[parts & 15]
    offsets = np.arange(rows + 1, dtype=np.int32) * (2 * width)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))


def _host_text(packed: bytes) -> str:
    return f"{'.'.join(str(byte) for byte in packed[:4])}:{int.from_bytes(packed[4:])}"


def _json_texts(table: PropertyTable | SameNames, first: pa.Array) -> pa.StringArray:
    r"""``{"name":"value",...}`` of every row; only quotes, backslashes and controls are escaped."""
    quoted = [_quoted(one) for one in (table.names, table.values)]
    pairs = pc.binary_join_element_wise(*quoted, ":")
    inner = pc.binary_join(pa.ListArray.from_arrays(first, pairs), ",")
    return pc.binary_join_element_wise("{", inner, "}", "")


def _quoted(texts: pa.StringArray) -> pa.StringArray:
    if pc.any(pc.match_substring_regex(texts, '[\\x00-\\x1f"\\\\]')).as_py():
        from json import dumps

        return pa.array(
            [dumps(text, ensure_ascii=False) for text in texts.to_pylist()], pa.string()
        )
    return pc.binary_join_element_wise('"', texts, '"', "")
