"""How one task turns its range of a queue into Arrow record batches.

Pulls (`pulling.py`) are joined until a batch is large enough, then decoded together
(`decoding.py`); the first pull is handed on at once and each batch is twice as long as the one
before, so that a query with LIMIT ends early. Must not know Spark.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from rocketmq_py import QueueAccess
from spark_connector.decoding import Decoder
from spark_connector.options import ReadOptions
from spark_connector.partitions import QueueRange
from spark_connector.progress import Progress
from spark_connector.pulling import Piece, RangePuller, lost
from spark_connector.schema import projection

__all__ = ["read_range"]

ROOM_SHARE = 8
"""A part of so many is added to the memory of joined records, which are not always as many."""


def read_range(
    access: QueueAccess, options: ReadOptions, wanted: QueueRange, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a range in order, in batches of ``arrowBatchRows`` or ``arrowBatchBytes``.

    Raises `RocketMQDataLossError` for messages that are gone (with ``failOnDataLoss``), and what
    the last of many tries ran into.
    """
    decoder = Decoder(
        projection(schema),
        topic=wanted.topic,
        broker_name=wanted.broker_name,
        tags=tags_of(options),
        strict_text=options.strict_text,
        check_crc=options.check_crc,
    )
    watch = _Gaps(options, wanted)
    progress = Progress(f"reading {wanted}", "offsets left", options.progress_ms)
    joined = _Joined()
    enough = 0
    for piece in RangePuller(access, options, wanted).pieces():
        joined.add(piece)
        if joined.rows >= enough or joined.size >= options.batch_bytes:
            enough = min(2 * joined.rows, options.batch_rows)
            for batch in _decoded(decoder, watch, joined, schema):
                progress.add(batch.num_rows, wanted.until - piece.next_offset)
                yield batch
    if joined.size:
        yield from _decoded(decoder, watch, joined, schema)


def tags_of(options: ReadOptions) -> tuple[str, ...]:
    """Return the tags that the expression names; () for all and for SQL."""
    if options.expression_type != "TAG" or options.expression == "*":
        return ()
    return tuple(tag.strip() for tag in options.expression.split("||") if tag.strip())


class _Joined:
    """Records of several pulls, back to back; the memory is used again for the next ones.

    No column points into it: Arrow copies what it cuts out.
    """

    def __init__(self) -> None:
        self._room = bytearray()
        self._pieces: list[Piece] = []
        self.rows = 0
        self.size = 0

    def add(self, piece: Piece) -> None:
        """Put the next records behind the others."""
        self._pieces.append(piece)
        self.rows += piece.next_offset - piece.start
        self.size += len(piece.records)

    def take(self) -> tuple[bytes | memoryview, int]:
        """Give all records, until the next call, and the queue's end; begin anew."""
        pieces, size = self._pieces, self.size
        self._pieces, self.rows, self.size = [], 0, 0
        if len(pieces) == 1:
            return pieces[0].records, pieces[0].max_offset
        if len(self._room) < size:
            self._room = bytearray(size + size // ROOM_SHARE)
        view, at = memoryview(self._room), 0
        for piece in pieces:
            past = at + len(piece.records)
            view[at:past] = piece.records
            at = past
        return view[:size], pieces[-1].max_offset


def _decoded(
    decoder: Decoder, watch: _Gaps, joined: _Joined, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    raw, max_offset = joined.take()
    batch, offsets = decoder.decode(raw, max_offset, schema)
    watch.saw(offsets)
    if batch.num_rows:
        yield batch


class _Gaps:
    """Notices offsets that are missing where no filter explains it."""

    def __init__(self, options: ReadOptions, wanted: QueueRange) -> None:
        self._options = options
        self._range = wanted
        self._next = wanted.start
        self._is_dense = options.expression == "*"

    def saw(self, offsets: list[int]) -> None:
        """Take the offsets of the next records, in order."""
        if not offsets or not self._is_dense:
            return
        first = offsets[0]
        # At the front a loss was told already, by the pull that ran into it.
        if first > self._next and self._next > self._range.start:
            lost(self._options, self._range, self._next, first, f"{first} and later")
        if offsets[-1] - first + 1 != len(offsets):
            known = set(offsets)
            hole = next(one for one in range(first, offsets[-1]) if one not in known)
            past = min(one for one in offsets if one > hole)
            lost(self._options, self._range, hole, past, f"{past} and later")
        self._next = offsets[-1] + 1
