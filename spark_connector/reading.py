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
from spark_connector.options import ReadOptions, named_tags
from spark_connector.partitions import QueueRange
from spark_connector.progress import Progress
from spark_connector.pulling import Losses, Piece, RangePuller, is_dense
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
        tags=named_tags(options.expression) if options.expression_type == "TAG" else (),
        strict_text=options.strict_text,
        check_crc=options.check_crc,
    )
    losses = Losses(options, wanted)
    watch = _Gaps(losses) if is_dense(options) else None
    progress = Progress(f"reading {wanted}", "offsets left", options.progress_ms)
    joined = _Joined()
    enough = 0
    try:
        for piece in RangePuller(access, options, wanted, losses).pieces():
            joined.add(piece)
            if joined.rows >= enough or joined.size >= options.batch_bytes:
                enough = min(2 * joined.rows, options.batch_rows)
                for batch in _decoded(decoder, watch, joined, schema):
                    progress.add(batch.num_rows, wanted.until - piece.next_offset)
                    yield batch
        if joined.rows or joined.size:
            yield from _decoded(decoder, watch, joined, schema)
    finally:
        losses.tell()


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

    def take(self) -> tuple[bytes | memoryview, list[Piece]]:
        """Give all records, until the next call, and what they were joined from; begin anew."""
        pieces, size = self._pieces, self.size
        self._pieces, self.rows, self.size = [], 0, 0
        if len(pieces) == 1:
            return pieces[0].records, pieces
        if len(self._room) < size:
            self._room = bytearray(size + size // ROOM_SHARE)
        view, at = memoryview(self._room), 0
        for piece in pieces:
            past = at + len(piece.records)
            view[at:past] = piece.records
            at = past
        return view[:size], pieces


def _decoded(
    decoder: Decoder, watch: _Gaps | None, joined: _Joined, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    raw, pieces = joined.take()
    batch, offsets = decoder.decode(raw, pieces[-1].max_offset, schema)
    if watch is not None:
        watch.saw(pieces, offsets)
    if batch.num_rows:
        yield batch


class _Gaps:
    """Notices offsets that are missing where no filter explains it.

    What lies between two pieces was told already, by the pull that ran into it.
    """

    def __init__(self, losses: Losses) -> None:
        self._losses = losses

    def saw(self, pieces: list[Piece], offsets: list[int]) -> None:
        """Take the next pieces and the offsets of all their records, in order."""
        if len(offsets) == sum(piece.next_offset - piece.start for piece in pieces):
            return
        at = 0
        for piece in pieces:
            expected = piece.start
            while at < len(offsets) and offsets[at] < piece.next_offset:
                self._hole(expected, offsets[at])
                expected = max(expected, offsets[at] + 1)
                at += 1
            self._hole(expected, piece.next_offset)

    def _hole(self, start: int, past: int) -> None:
        if start < past:
            self._losses.add(start, past, f"{past} and later")
