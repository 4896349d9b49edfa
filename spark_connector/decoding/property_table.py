r"""How the properties of many records become columns without a Python object per row.

Only the bytes 1 and 2 are looked at: per record they must alternate, name U+0001 value U+0002,
and the last U+0002 may be missing, as clients of 4.9 leave it out. Rows with anything else
(empty or repeated names, empty values) are for the per-row codec. When all rows name the same
properties in the same order, as those of one producer do, a value is only cut out when its column
is asked for (`SameNames`). Needs numpy. Must not know which columns are wanted.

>>> table, irregular = property_table(pa.array([b"a\x01x\x02b\x01y", b"a\x01z\x02"]))
>>> table.column("a").to_pylist(), irregular.tolist()
(['x', 'z'], [False, False])
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connector.decoding.record_layout import cut_text

NAME_END = 1
VALUE_END = 2
WORD = 8
Array = Any  # numpy arrays: numpy's types are not read by the type checker


class PropertyTable:
    """Names and values of all rows, flat, with the first entry of each row."""

    def __init__(self, names: pa.StringArray, values: pa.StringArray, first: Array) -> None:
        self.names = names
        self.values = values
        self.first = first  # row k has the entries first[k] to first[k + 1]

    def column(self, name: str) -> pa.StringArray:
        """Return one property of every row, null where a row has none."""
        rows = len(self.first) - 1
        hits = np.flatnonzero(pc.equal(self.names, name).to_numpy(zero_copy_only=False))
        places = np.zeros(rows, np.int64)
        absent = np.ones(rows, bool)
        where = np.searchsorted(self.first, hits, side="right") - 1
        places[where] = hits
        absent[where] = False
        return self.values.take(pa.array(places, mask=absent))

    def repeated_names(self) -> Array:
        """Return which rows name a property twice (a mask)."""
        rows = len(self.first) - 1
        repeated = np.zeros(rows, bool)
        if not len(self.names):
            return repeated
        codes = self.names.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        row_of = np.repeat(np.arange(rows), np.diff(self.first))
        keys = row_of * (int(codes.max()) + 1) + codes
        ordered = np.sort(keys)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        repeated[np.unique(twice // (int(codes.max()) + 1))] = True
        return repeated


class SameNames:
    """A table of rows that all have the same names in the same order.

    ``begins`` and ``ends`` say where the values lie in ``raw``: one row for each message, one
    column for each name.
    """

    def __init__(self, raw: pa.Buffer, listed: list[bytes], begins: Array, ends: Array) -> None:
        self._raw = raw
        self._listed = listed
        self._places = {name.decode(): number for number, name in enumerate(listed)}
        self._begins = begins
        self._ends = ends
        rows = len(begins)
        self.first = np.arange(rows + 1, dtype=np.int64) * len(listed)

    @property
    def names(self) -> pa.StringArray:
        """The names of all rows, one after the other."""
        rows = len(self._begins)
        lengths = np.tile(np.array([len(one) for one in self._listed], np.int32), rows)
        offsets = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        data = np.tile(np.frombuffer(b"".join(self._listed), np.uint8), rows)
        buffers = pa.py_buffer(offsets), pa.py_buffer(data)
        return pa.StringArray.from_buffers(len(lengths), *buffers)

    @property
    def values(self) -> pa.StringArray:
        """The values of all rows, one after the other."""
        return cut_text(self._raw, self._begins.reshape(-1), self._ends.reshape(-1))

    def column(self, name: str) -> pa.StringArray:
        """Return one property of every row, null when they have none of the name."""
        number = self._places.get(name)
        if number is None:
            return pa.nulls(len(self._begins), pa.string())
        return cut_text(self._raw, self._begins[:, number], self._ends[:, number])


def _same_names(raw: pa.Buffer, data: Array, offsets: Array, marks: Array) -> SameNames | None:
    """Give the table of rows with the same list of names, None when they differ or are odd.

    ``offsets`` are those of the rows in ``data``, ``marks`` the places of the bytes 1 and 2.
    """
    rows = len(offsets) - 1
    per_row, rest = divmod(len(marks), rows)
    if rest or not per_row:
        return None
    places = marks.reshape(rows, per_row)
    if per_row % 2:  # as if the U+0002 stood where the row ends
        if (places[:, -1] >= offsets[1:]).any() or (places[:, 0] < offsets[:-1]).any():
            return None
        places = np.column_stack((places, offsets[1:]))
    elif not np.array_equal(places[:, -1], offsets[1:] - 1):
        return None
    marked = data[marks].reshape(rows, per_row)
    if (marked[:, 0::2] != NAME_END).any() or (marked[:, 1::2] != VALUE_END).any():
        return None
    name_ends, ends = places[:, 0::2], places[:, 1::2]
    name_begins = np.empty_like(name_ends)
    name_begins[:, 0] = offsets[:-1]
    name_begins[:, 1:] = ends[:, :-1] + 1
    lengths = name_ends - name_begins
    if (lengths != lengths[0]).any() or not lengths[0].all() or (ends == name_ends + 1).any():
        return None
    listed = []
    for at, length in zip(name_begins.T, lengths[0].tolist(), strict=True):
        name = data[at[0] : at[0] + length].tobytes()
        if name in listed or not _all_equal(data, at, name):
            return None
        listed.append(name)
    return SameNames(raw, listed, name_ends + 1, ends)


def _all_equal(data: Array, at: Array, text: bytes) -> bool:
    """Whether the same bytes stand at all of these ascending places; eight are compared at once."""
    if len(data) < WORD:
        return all(data[one : one + len(text)].tobytes() == text for one in at.tolist())
    words = np.ndarray(len(data) - WORD + 1, "<u8", data, strides=(1,))
    for begin in range(0, len(text), WORD):
        part = text[begin : begin + WORD]
        places = at + begin
        inside = int(np.searchsorted(places, len(words)))
        found = words[places[:inside]]
        if len(part) < WORD:
            found &= np.uint64((1 << 8 * len(part)) - 1)
        if (found != np.uint64(int.from_bytes(part, "little"))).any():
            return False
        for one in places[inside:].tolist():  # too near to the end for eight
            if data[one : one + len(part)].tobytes() != part:
                return False
    return True


def property_table(texts: pa.BinaryArray) -> tuple[PropertyTable | SameNames, Array]:
    """Return the table of encoded properties, and which rows it does not cover (a mask).

    An uncovered row has no entries in the table. Raises pyarrow.ArrowInvalid for bytes that are
    no UTF-8.
    """
    rows = len(texts)
    if not rows or not texts.buffers()[2]:
        nothing = pa.array([], pa.string())
        return PropertyTable(nothing, nothing, np.zeros(rows + 1, np.int64)), np.zeros(rows, bool)
    offsets = np.frombuffer(texts.buffers()[1], np.int32, rows + 1, texts.offset * 4)
    offsets = offsets.astype(np.int64)
    raw = texts.buffers()[2]
    data = np.frombuffer(raw, np.uint8)
    texts.cast(pa.string())  # all of it at once: the marks are no part of longer characters
    marks = np.flatnonzero(data - np.uint8(NAME_END) < VALUE_END)
    if offsets[0] or offsets[-1] < len(data):
        marks = marks[(marks >= offsets[0]) & (marks < offsets[-1])]
    same = _same_names(raw, data, offsets, marks)
    if same is not None:
        return same, np.zeros(rows, bool)
    edges = np.searchsorted(marks, offsets)
    counts = np.diff(edges)
    lengths = np.diff(offsets)
    last = np.where(lengths > 0, offsets[1:] - 1, 0)
    open_ended = (lengths > 0) & (data[last] != VALUE_END)
    kinds = data[marks]
    if open_ended.any():
        # As if the U+0002 stood where the row ends.
        kinds = np.insert(kinds, edges[1:][open_ended], VALUE_END)
        marks = np.insert(marks, edges[1:][open_ended], offsets[1:][open_ended])
        counts = counts + open_ended
    first_mark = np.concatenate(([0], np.cumsum(counts)))
    row_of = np.repeat(np.arange(rows), counts)
    within = np.arange(len(marks)) - first_mark[row_of]
    irregular = counts % 2 == 1
    irregular[row_of[kinds != NAME_END + (within & 1)]] = True
    begins = np.where(within == 0, offsets[:-1][row_of], np.roll(marks, 1) + 1)
    irregular[row_of[begins == marks]] = True  # an empty name or value
    keep = ~irregular[row_of]
    begins, ends, kept_within = begins[keep], marks[keep], within[keep]
    is_name = kept_within & 1 == 0
    first = np.concatenate(([0], np.cumsum(np.where(irregular, 0, counts // 2))))
    names = cut_text(raw, begins[is_name], ends[is_name])
    values = cut_text(raw, begins[~is_name], ends[~is_name])
    table = PropertyTable(names, values, first)
    return table, irregular | table.repeated_names()
