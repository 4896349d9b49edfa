r"""How the properties of many records become columns without a Python object per row.

Only the bytes 1 and 2 are looked at: per record they must alternate, name U+0001 value U+0002,
and the last U+0002 may be missing, as clients of 4.9 leave it out. Rows with anything else
(empty or repeated names, empty values) are for the per-row codec. Needs numpy. Must not know
which columns are wanted.

>>> table, irregular = property_table(pa.array([b"a\x01x\x02b\x01y", b"a\x01z\x02"]))
>>> table.column("a").to_pylist(), irregular.tolist()
(['x', 'z'], [False, False])
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connector.ranges import cut

__all__ = ["PropertyTable", "property_table"]

NAME_END = 1
VALUE_END = 2
Array = Any  # numpy arrays: numpy's types are not read by the type checker


class PropertyTable:
    """Names and values of all rows, flat, with the first entry of each row."""

    def __init__(self, names: pa.StringArray, values: pa.StringArray, first: Array) -> None:
        self.names = names
        self.values = values
        self.first = first  # row k has the entries first[k] to first[k + 1]
        self._same: dict[str, int] | None = None
        count = len(first) - 1
        if count and len(names) and len(names) % count == 0:
            self._same = _same_names(names, first, len(names) // count)

    def column(self, name: str) -> pa.StringArray:
        """Return one property of every row, null where a row has none."""
        rows = len(self.first) - 1
        if self._same is not None:
            number = self._same.get(name)
            if number is None:
                return pa.nulls(rows, pa.string())
            return self.values.take(pa.array(self.first[:-1] + number))
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
        if not len(self.names) or self._same is not None:
            return repeated
        codes = self.names.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        row_of = np.repeat(np.arange(rows), np.diff(self.first))
        keys = row_of * (int(codes.max()) + 1) + codes
        ordered = np.sort(keys)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        repeated[np.unique(twice // (int(codes.max()) + 1))] = True
        return repeated


def _same_names(names: pa.StringArray, first: Array, per_row: int) -> dict[str, int] | None:
    """Return the place of each name when every row has the same list of them, else None."""
    if not np.array_equal(np.diff(first), np.full(len(first) - 1, per_row)):
        return None
    rows = len(first) - 1
    offsets = np.frombuffer(names.buffers()[1], np.int32, len(names) + 1, names.offset * 4)
    lengths = np.diff(offsets).reshape(rows, per_row)
    if not (lengths == lengths[0]).all():
        return None
    size = int(lengths[0].sum())
    data = np.frombuffer(names.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    if not (data.reshape(rows, size) == data[:size]).all():
        return None
    listed = names[:per_row].to_pylist()
    places = {name: number for number, name in enumerate(listed)}
    return places if len(places) == per_row else None


def property_table(texts: pa.BinaryArray) -> tuple[PropertyTable, Array]:
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
    marks = np.flatnonzero((data == NAME_END) | (data == VALUE_END))
    marks = marks[(marks >= offsets[0]) & (marks < offsets[-1])]
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
    names = cut(raw, begins[is_name], (ends - begins)[is_name]).cast(pa.string())
    values = cut(raw, begins[~is_name], (ends - begins)[~is_name]).cast(pa.string())
    table = PropertyTable(names, values, first)
    return table, irregular | table.repeated_names()
