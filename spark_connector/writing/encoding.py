r"""How the rows of an Arrow batch become message bodies and properties.

Properties are texts, ``name U+0001 value U+0002 ...``: Arrow joins them column by column, so that
no Python object exists per row. Every row is checked before any is sent. Needs numpy. Must not
know queues or the network. Read on: ``requests.py``.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from rocketmq_py import DelayKind
from rocketmq_py.raw import MessageIds, RawMessages
from spark_connector.options.table import BATCH_BYTES_MOST
from spark_connector.options.write_options import NO_PROPERTIES, WriteOptions
from spark_connector.writing.write_columns import DELAY_COLUMNS, Columns, read_rows

try:
    import numpy as np
except ImportError:  # the package imports, a write says what is missing
    np = None

BODY_SIZE_MAX = 4 * 1024 * 1024
ITEM_OVERHEAD = 22
NAME_END = "\x01"
VALUE_END = "\x02"
_PROPERTY_OF = {
    "deliver_at": DelayKind.DELIVER_AT.value,
    "start_deliver_time": DelayKind.START_DELIVER.value,
    "delay_ms": DelayKind.MS.value,
    "delay_level": DelayKind.LEVEL.value,
}
_ALSO_GIVEN = ("message_id", "broker_name", "queue_id", "flag")
"""Columns that tell two messages apart and are no properties, or not only."""
Array = Any  # numpy and Arrow arrays: their types are not read by the type checker


@frozen
class Encoded:
    """The rows of one batch, ready to be put into requests: all arrays have one element per row.

    ``alone`` says which rows no batch may hold: those with a delay (``delayed``), which a broker
    would not look at, those with a property that looks like one, which is judged as they are sent,
    and those that a batch around them makes too large. ``routing_keys`` choose
    the queue of a row without a queue id. ``problems`` names the rows that cannot be messages, and
    why; their other cells mean nothing.
    """

    topics: Array
    bodies: Array
    properties: Array
    flags: Array
    delayed: Array
    alone: Array
    queue_ids: Array | None
    broker_names: Array | None
    routing_keys: Array | None
    problems: dict[int, str] = field(factory=dict)

    def __len__(self) -> int:
        return len(self.bodies)


class Encoder:
    """Turns Arrow batches into `Encoded` rows, by the options of one write.

    ``meanings`` is what `check_columns` gave. Raises RuntimeError without numpy.
    """

    def __init__(self, options: WriteOptions, meanings: dict[str, str], ids: MessageIds) -> None:
        if np is None:
            raise RuntimeError("writing needs numpy, which the extra 'spark' of rocketmq-py brings")
        self._options = options
        self._meanings = meanings
        self._ids = ids

    def encode(
        self, batch: pa.RecordBatch, now_ms: int, *, dedupe: str | None = None, first_row: int = 0
    ) -> Encoded:
        """Encode one batch; ``now_ms`` is this worker's wall clock, for absolute limits.

        ``dedupe`` is the beginning of generated DEDUPE_ID values, to which the number of the row
        in its task (counted from ``first_row``) and a checksum of all that a user gave are added.
        """
        columns = read_rows(batch, self._meanings)
        ids = _message_ids(self._ids, batch.num_rows)
        rows = _Rows(self._options, columns, batch.num_rows, now_ms)
        return rows.encoded(ids, dedupe, first_row)


@define(eq=False)
class _Rows:
    """The rows of one batch while they are encoded; `problems` has the first one of each row."""

    _options: WriteOptions
    _columns: Columns
    _count: int
    _now_ms: int
    problems: dict[int, str] = field(factory=dict, init=False)
    odd: Array = field(init=False)
    """Rows with a property that looks like a delay, where that is to be told and not refused."""

    @odd.default
    def _none_is_odd(self) -> Array:
        return np.zeros(self._count, bool)

    def encoded(self, ids: Array, dedupe: str | None, first_row: int) -> Encoded:
        columns = self._columns
        topics = self._topics()
        bodies = self._bodies()
        if "message_id" in columns:
            ids = pc.coalesce(self._checked(columns["message_id"], "message_id"), ids)
        fragments = [
            self._text("KEYS", "keys"),
            self._tags(),
            self._text("__SHARDINGKEY", "sharding_key"),
        ]
        delay, delayed = self._delays()
        fragments.append(delay)
        for name, cells in columns["extra"]:
            texts = self._checked(cells, f"column {name}")
            if self._is_odd(name):
                self._judge_name(name, pc.indices_nonzero(pc.is_valid(texts)))
            fragments.append(_fragment(name, texts))
        has_key = "dedupe_key" in columns
        if "properties" in columns:
            entries = columns["properties"]
            if has_key or dedupe is not None:
                # A DEDUPE_ID among them belongs to the message that was read.
                others = pc.fill_null(pc.not_equal(entries[1], "DEDUPE_ID"), fill_value=True)
                entries = _kept(entries, others)
            fragments.append(self._user_properties(entries))
        given = [one for one in fragments if one is not None]
        if has_key:
            given.append(self._text("DEDUPE_ID", "dedupe_key"))
        elif dedupe is not None:
            joined = pc.binary_join_element_wise("", *given, "")
            given = [joined, self._dedupe(topics, bodies, joined, dedupe, first_row)]
        properties = pc.binary_join_element_wise(_fragment("UNIQ_KEY", ids), *given, "")
        properties = properties.cast(pa.binary())
        too_long = pc.greater(pc.binary_length(properties), RawMessages.PROPERTIES_SIZE_MAX)
        self._refuse(too_long, f"properties over {RawMessages.PROPERTIES_SIZE_MAX} bytes")
        queue_ids = columns.get("queue_id")
        if queue_ids is not None:
            self._refuse(pc.less(queue_ids, 0), "queue_id is negative")
        return Encoded(
            topics,
            bodies,
            properties,
            self._flags(),
            delayed,
            delayed | self.odd | (_item_sizes(bodies, properties) > BATCH_BYTES_MOST),
            queue_ids,
            columns.get("broker_name"),
            columns.get("sharding_key" if self._options.route_by_key == "none" else "keys"),
            self.problems,
        )

    # --- problems --------------------------------------------------------------------------------

    def _refuse(self, mask: Array, why: str) -> None:
        """Note the rows of a mask; null counts as fine."""
        mask = pc.fill_null(mask, fill_value=False)
        if pc.any(mask).as_py():
            self._refuse_rows(pc.indices_nonzero(mask), why)

    def _refuse_rows(self, rows: Array, why: str) -> None:
        """Note rows by number."""
        for row in rows.to_pylist():
            self.problems.setdefault(row, why)

    # --- cells -----------------------------------------------------------------------------------

    def _topics(self) -> Array:
        fixed = self._options.topic
        if fixed is not None:
            topics = pa.repeat(pa.scalar(fixed, pa.string()), self._count)
        else:
            topics = self._columns["topic"]
        self._refuse(pc.is_null(topics), "topic is null")
        for topic in pc.unique(topics).to_pylist():
            why = None if topic is None else RawMessages.topic_problem(topic)
            if why is not None:
                self._refuse(pc.equal(topics, topic), why)
        return topics

    def _bodies(self) -> Array:
        bodies = self._columns["body"]
        self._refuse(pc.is_null(bodies), "body is null")
        length = pc.binary_length(bodies)
        self._refuse(pc.equal(length, 0), "body is empty")
        self._refuse(pc.greater(length, BODY_SIZE_MAX), f"body is over {BODY_SIZE_MAX} bytes")
        return bodies

    def _flags(self) -> Array:
        cells = self._columns.get("flag")
        if cells is None:
            return np.zeros(self._count, np.int32)
        outside = pc.or_(pc.less(cells, -(1 << 31)), pc.greater(cells, (1 << 31) - 1))
        self._refuse(outside, "flag is beyond 32 bits")
        kept = pc.if_else(pc.fill_null(outside, fill_value=False), 0, pc.fill_null(cells, 0))
        return kept.to_numpy(zero_copy_only=False).astype(np.int32)

    def _checked(self, cells: Array, what: str) -> Array:
        self._refuse(
            pc.match_substring_regex(cells, "[\\x00-\\x02]"), f"{what} holds U+0000 to U+0002"
        )
        blank = pc.equal(pc.utf8_trim_whitespace(cells), "")
        return pc.if_else(
            pc.fill_null(blank, fill_value=False), pa.scalar(None, pa.string()), cells
        )

    def _text(self, name: str, column: str) -> Array | None:
        cells = self._columns.get(column)
        return None if cells is None else _fragment(name, self._checked(cells, column))

    def _tags(self) -> Array | None:
        cells, default = self._columns.get("tags"), self._options.tags
        if cells is None and default is None:
            return None
        if cells is None:
            cells = pa.repeat(pa.scalar(default, pa.string()), self._count)
        elif default is not None:
            cells = pc.fill_null(cells, default)
        self._refuse(pc.match_substring(cells, "|"), "tags holds a vertical bar")
        return _fragment("TAGS", self._checked(cells, "tags"))

    # --- delays ----------------------------------------------------------------------------------

    def _delays(self) -> tuple[Array | None, Array]:
        """Return the properties of the delays, and which rows have one (numpy mask)."""
        options = self._options
        given = {name: self._columns[name] for name in DELAY_COLUMNS if name in self._columns}
        asked = pa.repeat(pa.scalar(0), self._count)
        for cells in given.values():
            asked = pc.add(asked, pc.is_valid(cells).cast(pa.int64()))
        if len(given) > 1 and options.delay_conflict == "first":
            given = _first_of_each_row(given)
        elif len(given) > 1:
            self._refuse(pc.greater(asked, 1), f"more than one of {', '.join(given)} has a value")
        defaults = {
            "deliver_at": options.deliver_at_ms,
            "delay_ms": options.delay_ms,
            "delay_level": options.delay_level,
        }
        none_asked = pc.equal(asked, 0)
        for name, value in defaults.items():
            if value is not None:
                filled = pc.if_else(none_asked, value, pa.scalar(None, pa.int64()))
                given[name] = pc.coalesce(given[name], filled) if name in given else filled
        if not given:
            return None, np.zeros(self._count, bool)
        fragments = []
        for name in DELAY_COLUMNS:
            if name in given:
                self._check_delay(name, given[name])
                fragments.append(self._delay_fragment(name, given[name]))
        text = pc.coalesce(*fragments, pa.scalar("", pa.string()))
        delayed = pc.not_equal(text, "").to_numpy(zero_copy_only=False)
        return text, delayed

    def _check_delay(self, name: str, cells: Array) -> None:
        options = self._options
        if options.delay_policy == "strict":
            for first, last, why, _advice in RawMessages.UNKEPT_DELAYS[_PROPERTY_OF[name]]:
                within = pc.and_(pc.greater_equal(cells, first), pc.less_equal(cells, last))
                is_unkept = pc.and_(_is_written(name, cells), within)
                self._refuse(is_unkept, f"{name}: {why} (see delayPolicy)")
        if name == "delay_level" or not options.max_delay_ms:
            return
        limit = options.max_delay_ms
        if name != "delay_ms":
            limit += self._now_ms + options.clock_tolerance_ms
        self._refuse(
            pc.greater(cells, limit),
            f"{name} is further away than maxDelayMs ({options.max_delay_ms}): raise the option "
            "when the broker's timerMaxDelaySec allows more",
        )

    def _delay_fragment(self, name: str, cells: Array) -> Array:
        """Give the property text, "" where none `_is_written`, null for null."""
        texts = cells.cast(pa.string())
        written = pc.binary_join_element_wise(
            f"{_PROPERTY_OF[name]}{NAME_END}", texts, VALUE_END, ""
        )
        if name == "start_deliver_time" and self._options.translate_start_deliver_time != "never":
            both = f"{_PROPERTY_OF['deliver_at']}{NAME_END}"
            written = pc.binary_join_element_wise(written, both, texts, VALUE_END, "")
        return pc.if_else(_is_written(name, cells), written, pa.scalar("", pa.string()))

    # --- ids and user properties -----------------------------------------------------------------

    def _dedupe(
        self, topics: Array, bodies: Array, properties: Array, prefix: str, first_row: int
    ) -> Array:
        """Give the generated DEDUPE_ID of every row.

        Rows are counted anew by each write of a micro-batch: that two messages differ must show in
        the checksum. All it is made of is there again, the same, when the batch is repeated.
        """
        chosen = [self._columns[name] for name in _ALSO_GIVEN if name in self._columns]
        texts = [pc.fill_null(cells.cast(pa.string()), "") for cells in chosen]
        given = pc.binary_join_element_wise(topics, *texts, properties, "", "\0")
        pairs = zip(_cells(given.cast(pa.binary())), _cells(bodies), strict=True)
        sums = np.fromiter((crc32(body, crc32(one)) for one, body in pairs), ">u4", len(bodies))
        digits = np.frombuffer(sums.tobytes().hex().encode(), np.uint8).reshape(len(bodies), 8)
        numbers = pa.array(np.arange(first_row, first_row + len(bodies))).cast(pa.string())
        checksums = fixed_width(digits).view(pa.string())
        values = pc.binary_join_element_wise(prefix, numbers, checksums, "-")
        return _fragment("DEDUPE_ID", values)

    def _user_properties(self, entries: tuple[Array, Array, Array]) -> Array:
        row_of, names, values = entries
        if not pa.types.is_string(values.type):
            values = self._utf8(values, row_of)
        reserved = pc.is_in(names, pa.array(sorted(NO_PROPERTIES)))
        if self._options.reserved_properties == "drop":
            row_of, names, values = _kept((row_of, names, values), pc.invert(reserved))
        else:
            why = (
                "properties holds a name that RocketMQ reserves, or a delay, for which there are "
                "columns: use reservedProperties=drop"
            )
            self._refuse_rows(row_of.filter(reserved), why)
        for name in pc.unique(names).to_pylist():
            if name is not None and self._is_odd(name):
                self._judge_name(name, row_of.filter(pc.equal(names, name)))
        self._refuse_rows(row_of.filter(pc.is_null(values)), "properties holds a null value")
        for cells, what in ((names, "name"), (values, "value")):
            wrong = pc.or_(
                pc.match_substring_regex(cells, "[\\x00-\\x02]"),
                pc.equal(pc.utf8_trim_whitespace(cells), ""),
            )
            self._refuse_rows(
                row_of.filter(pc.fill_null(wrong, fill_value=False)),
                f"properties holds a {what} that is blank or holds U+0000 to U+0002",
            )
        items = pc.binary_join_element_wise(names, values, NAME_END)
        items = pc.binary_join_element_wise(pc.fill_null(items, ""), VALUE_END, "")
        counts = np.bincount(row_of.to_numpy(zero_copy_only=False), minlength=self._count)
        first = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return pc.binary_join(pa.ListArray.from_arrays(pa.array(first), items), "")

    def _is_odd(self, name: str) -> bool:
        """Whether a property of this name looks like a delay, which is no delay."""
        is_judged = self._options.delay_policy != "as_java"
        return is_judged and RawMessages.misspelt_delay(name) is not None

    def _judge_name(self, name: str, rows: Array) -> None:
        """Refuse rows that have such a property, or let them be told as they are sent."""
        if self._options.delay_policy == "strict":
            why = RawMessages.misspelt_delay(name)
            self._refuse_rows(rows, f"property {name}: {why} (see delayPolicy)")
        else:
            self.odd[rows.to_numpy(zero_copy_only=False)] = True

    def _utf8(self, values: Array, row_of: Array) -> Array:
        try:
            return values.cast(pa.binary()).cast(pa.string())
        except pa.ArrowInvalid:
            texts: list[str | None] = []
            for value, row in zip(values.to_pylist(), row_of.to_pylist(), strict=True):
                try:
                    texts.append(None if value is None else value.decode())
                except UnicodeDecodeError:
                    self.problems.setdefault(row, "properties holds a value that is no UTF-8")
                    texts.append("?")
            return pa.array(texts, pa.string())


def _message_ids(ids: MessageIds, count: int) -> Array:
    """Make an id for each of so many messages."""
    prefix, first = ids.block(count)
    numbers = (np.arange(count, dtype=np.int64) + first).astype(">u8").view(np.uint8)
    digits = np.frombuffer(b"0123456789ABCDEF", np.uint8)
    packed = numbers.reshape(count, 8)[:, 2:]
    text = np.empty((count, len(prefix) + 12), np.uint8)
    text[:, : len(prefix)] = np.frombuffer(prefix.encode(), np.uint8)
    text[:, len(prefix) :: 2] = digits[packed >> 4]
    text[:, len(prefix) + 1 :: 2] = digits[packed & 15]
    return fixed_width(text).view(pa.string())


def _fragment(name: str, values: Array) -> Array:
    """``name U+0001 value U+0002``, nothing where the value is null."""
    text = pc.binary_join_element_wise(f"{name}{NAME_END}", values, VALUE_END, "")
    return pc.fill_null(text, "")


def _is_written(name: str, cells: Array) -> Array:
    """Which cells of a delay ask for one: zero and below mean at once.

    A negative level is written: that it delays nothing is told by the policy.
    """
    return pc.not_equal(cells, 0) if name == "delay_level" else pc.greater(cells, 0)


def _first_of_each_row(given: dict[str, Array]) -> dict[str, Array]:
    """Keep the first value of each row, in the order of the columns, and null the others."""
    kept: dict[str, Array] = {}
    taken: Array | None = None
    for name, cells in given.items():
        nothing = pa.scalar(None, cells.type)
        kept[name] = cells if taken is None else pc.if_else(taken, nothing, cells)
        valid = pc.is_valid(cells)
        taken = valid if taken is None else pc.or_(taken, valid)
    return kept


def _kept(entries: tuple[Array, Array, Array], keep: Array) -> tuple[Array, Array, Array]:
    row_of, names, values = entries
    return row_of.filter(keep), names.filter(keep), values.filter(keep)


def _item_sizes(bodies: Array, properties: Array) -> Array:
    """Return the bytes that each row takes in a batch, 0 for one without a body."""
    sizes = pc.add(pc.binary_length(bodies), pc.binary_length(properties))
    return pc.fill_null(pc.add(sizes, ITEM_OVERHEAD), 0).to_numpy(zero_copy_only=False)


def _cells(cells: Array) -> Iterator[memoryview]:
    """Give the bytes of each cell of a binary array without an object of Arrow; null has none."""
    _valid, ends, data = cells.buffers()
    view = memoryview(b"" if data is None else data)
    edges = np.frombuffer(ends, np.int32)[cells.offset : cells.offset + len(cells) + 1].tolist()
    return (view[first:past] for first, past in pairwise(edges))


def fixed_width(cells: Array) -> pa.BinaryArray:
    """Return a binary array of the rows of a matrix of bytes."""
    rows, width = cells.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * width
    return pa.BinaryArray.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(cells))]
    )
