"""How one task turns its range of a queue into Arrow record batches.

Pulls (`pulling.py`) are joined until a batch is large enough, then decoded together
(`decoding/decoder.py`) and cut into batches of the wanted length; the first pull is handed on at
once and twice as much is joined each time, so that a query with LIMIT ends early. Must not know
Spark.
"""

from collections.abc import Iterator

import pyarrow as pa

from rocketmq_py import QueueAccess
from spark_connector.decoding.decoder import Decoder
from spark_connector.decoding.read_columns import projection
from spark_connector.options.read_options import ReadOptions, named_tags
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.reading.pulling import Losses, Piece, RangePuller, is_dense
from spark_connector.servers.task_log import Progress

ROOM_SHARE = 8
"""A part of so many is added to the memory of joined records, which are not always as many."""


def read_range(
    access: QueueAccess, options: ReadOptions, wanted: QueueRange, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a range in order, in batches of at most ``arrowBatchRows``.

    What is decoded at once is about that long, or ``arrowBatchBytes`` and a pull. Raises
    `RocketMQDataLossError` for messages that are gone (with ``failOnDataLoss``), and what the last
    of many tries ran into.
    """
    decoder = Decoder(
        projection(schema, corrupt=options.column_name_of_corrupt_record, mode=options.mode),
        topic=wanted.topic,
        broker_name=wanted.broker_name,
        tags=named_tags(options.expression) if options.expression_type == "TAG" else (),
        strict_text=options.body_charset_errors == "strict",
        check_crc=options.check_crc,
        mode=options.mode,
    )
    losses = Losses(options, wanted)
    dense = is_dense(options)
    progress = Progress(f"reading {wanted}", "offsets left", options.progress_interval_ms)
    joined = _Joined(is_dense=dense)
    enough = 0
    try:
        for piece in RangePuller(access, options, wanted, losses).pieces():
            joined.add(piece)
            left = wanted.until - piece.next_offset
            if joined and (joined.rows >= enough or joined.size >= options.arrow_batch_bytes):
                batch, records = _decoded(decoder, joined, schema, losses if dense else None)
                enough = min(2 * records, options.arrow_batch_rows)
                progress.add(batch.num_rows, left)
                yield from _cut(batch, options.arrow_batch_rows)
            else:
                progress.add(0, left)
        if joined:
            batch, _ = _decoded(decoder, joined, schema, losses if dense else None)
            yield from _cut(batch, options.arrow_batch_rows)
    finally:
        losses.tell()
        decoder.malformed.tell(str(wanted), options.mode)


class _Joined:
    """Records of several pulls, back to back; the memory is used again for the next ones.

    No column points into it: Arrow copies what it cuts out.
    """

    def __init__(self, *, is_dense: bool) -> None:
        self._is_dense = is_dense
        self._mean_size = 1.0
        self._room = bytearray()
        self._pieces: list[Piece] = []
        self._offsets = 0
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    @property
    def rows(self) -> float:
        """How many records there are: about, by the mean size of the last ones, under a filter."""
        return self._offsets if self._is_dense else self.size / self._mean_size

    def add(self, piece: Piece) -> None:
        """Put the next records behind the others; without records there is nothing to keep.

        Where no offset may be left out, the offsets of no records are kept: they are a loss.
        """
        if piece.records or self._is_dense:
            self._pieces.append(piece)
            self._offsets += piece.next_offset - piece.start
            self.size += len(piece.records)

    def had(self, records: int, size: int) -> None:
        """Note how many records were in so many bytes."""
        self._mean_size = max(1, size) / max(1, records)

    def take(self) -> tuple[bytes | memoryview, list[Piece]]:
        """Give all records, until the next call, and what they were joined from; begin anew."""
        pieces, size = self._pieces, self.size
        self._pieces, self._offsets, self.size = [], 0, 0
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
    decoder: Decoder, joined: _Joined, schema: pa.Schema, losses: Losses | None
) -> tuple[pa.RecordBatch, int]:
    """Decode what was joined; also tell of how many records, other tags included.

    ``losses`` takes the offsets that are missing, where no filter explains it.
    """
    raw, pieces = joined.take()
    batch, offsets = decoder.decode(raw, pieces[-1].max_offset, schema)
    joined.had(len(offsets), len(raw))
    if losses is not None:
        _note_gaps(losses, pieces, offsets)
    return batch, len(offsets)


def _cut(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Give a batch in even parts of at most so many rows, without a copy; none of an empty one.

    Each part has a price of its own in Spark, so none is a small rest.
    """
    parts = -(-batch.num_rows // rows)
    for part in range(parts):
        start = batch.num_rows * part // parts
        yield batch.slice(start, batch.num_rows * (part + 1) // parts - start)


def _note_gaps(losses: Losses, pieces: list[Piece], offsets: list[int]) -> None:
    """Note what is missing of some pieces, by the offsets of all their records, in order.

    What lies between two pieces was told already, by the pull that ran into it.
    """
    if len(offsets) == sum(piece.next_offset - piece.start for piece in pieces):
        return
    at = 0
    for piece in pieces:
        expected = piece.start
        past = at
        while past < len(offsets) and offsets[past] < piece.next_offset:
            past += 1
        for offset in [*offsets[at:past], piece.next_offset]:
            if expected < offset:
                losses.add(expected, offset, f"{offset} and later")
            expected = max(expected, offset + 1)
        at = past
