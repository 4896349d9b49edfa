"""How one task turns its range of a queue into Arrow record batches.

Pulls (`pulling.py`) are joined until a batch is large enough, then decoded together
(`decoding.py`); the first pull is handed on at once, so that a query with LIMIT ends early. Must
not know Spark.
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
    joined: list[Piece] = []
    is_first = True
    for piece in RangePuller(access, options, wanted).pieces():
        joined.append(piece)
        rows = sum(one.next_offset - one.start for one in joined)
        size = sum(len(one.records) for one in joined)
        if is_first or rows >= options.batch_rows or size >= options.batch_bytes:
            is_first = False
            for batch in _decoded(decoder, watch, joined, schema):
                progress.add(batch.num_rows, wanted.until - piece.next_offset)
                yield batch
            joined = []
    if joined:
        yield from _decoded(decoder, watch, joined, schema)


def tags_of(options: ReadOptions) -> tuple[str, ...]:
    """Return the tags that the expression names; () for all and for SQL."""
    if options.expression_type != "TAG" or options.expression == "*":
        return ()
    return tuple(tag.strip() for tag in options.expression.split("||") if tag.strip())


def _decoded(
    decoder: Decoder, watch: _Gaps, pieces: list[Piece], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    raw = pieces[0].records if len(pieces) == 1 else b"".join(one.records for one in pieces)
    batch, offsets = decoder.decode(raw, pieces[-1].max_offset, schema)
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
