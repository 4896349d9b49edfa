"""How one task turns its ranges of queues into Arrow record batches.

Pulls (`pulling.py`) are joined until a batch is large enough, those of several queues of a broker
together, then decoded at once (`decoding/decoder.py`) and cut into batches of the wanted length;
the first pull is handed on at once and twice as much is joined each time, so that a query with
LIMIT ends early. Must not know Spark.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rocketmq_py import ClientConfig
from rocketmq_py.raw import QueueAccess, RawMessages
from spark_connector.decoding.decoder import Decoder, WrappedBatches
from spark_connector.decoding.malformed import Malformed
from spark_connector.decoding.read_columns import projection
from spark_connector.options.read_options import ReadOptions, named_tags
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.reading.pulling import (
    Losses,
    Piece,
    PullLimit,
    RangePuller,
    count_of,
    is_dense,
)
from spark_connector.servers.task_log import Progress

if TYPE_CHECKING:
    from spark_connector.servers.tally import Pulled

ROOM_SHARE = 8
"""A part of so many is added to the memory of joined records, which are not always as many."""
QUEUES_AHEAD = 64
"""Most queues whose first pull is under way, while there is little to read of each."""


def read_range(
    access: QueueAccess, options: ReadOptions, wanted: QueueRange, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Give the rows of a range in order; see `read_ranges`."""
    return read_ranges(access, options, (wanted,), schema)


def read_ranges(
    access: QueueAccess,
    options: ReadOptions,
    ranges: Sequence[QueueRange],
    schema: pa.Schema,
    pulled: "Pulled | None" = None,
) -> Iterator[pa.RecordBatch]:
    """Give the rows of ranges, each in order, in batches of at most ``arrowBatchRows``.

    What is decoded at once is about that long, or ``arrowBatchBytes`` and what pulls that left
    together bring. Raises `RocketMQDataLossError` for messages that are gone (with
    ``failOnDataLoss``), and what the last of many tries ran into. ``pulled`` counts the bytes.
    """
    batches = _Batches(options, ranges, schema)
    try:
        for one, losses, piece in _pieces(access, options, ranges):
            if pulled is not None:
                pulled.bytes += piece.size
            yield from batches.add(one, losses, piece)
        yield from batches.flush()
    finally:
        batches.close()


def _pieces(
    access: QueueAccess, options: ReadOptions, ranges: Iterable[QueueRange]
) -> Iterator[tuple[QueueRange, Losses, Piece]]:
    """Give what each range has, one after the other; of the next ones the first pull is under way.

    What may come of those pulls is no more than `RangePuller` has under way of a large range.
    """
    waiting = deque(one for one in ranges if len(one))
    started: deque[tuple[QueueRange, Losses, RangePuller]] = deque()
    batch = options.pull_batch_size
    room = batch * options.prefetch
    limits: dict[tuple[str, str], PullLimit] = {}
    while started or waiting:
        # Many leave together: to write and to wake up for each one costs more than a pull.
        most = QUEUES_AHEAD if 2 * len(started) <= QUEUES_AHEAD else 0
        while waiting and len(started) < most:
            one = waiting[0]
            if started and room < min(len(one), batch):
                break
            room -= min(len(waiting.popleft()), batch)
            losses = Losses(options, one)
            limit = limits.setdefault(_home(one), PullLimit(batch))
            puller = RangePuller(access, options, one, losses, limit)
            puller.start()
            started.append((one, losses, puller))
        one, losses, puller = started.popleft()
        room += min(len(one), batch)
        is_empty = True
        for piece in puller.pieces():
            is_empty = False
            yield one, losses, piece
        if is_empty:
            losses.tell()  # nobody else has heard of it


class _Batches:
    """Joins what is pulled, and decodes it when it is enough."""

    def __init__(
        self, options: ReadOptions, ranges: Sequence[QueueRange], schema: pa.Schema
    ) -> None:
        self._options = options
        settings: dict[str, Any] = dict(options.connection.settings)  # of each one's own type
        self._client = ClientConfig(**settings)
        self._schema = schema
        corrupt = options.column_name_of_corrupt_record
        self._columns = projection(schema, corrupt=corrupt, mode=options.mode)
        # This one column depends on the queue as a whole.
        self._is_apart = any(one.source == "queue_size_left" for one in self._columns)
        self._is_dense = is_dense(options)
        self._joined = _Joined(is_dense=self._is_dense)
        more = f" and {len(ranges) - 1} more ranges" if len(ranges) > 1 else ""
        self._what = f"{ranges[0]}{more}" if ranges else "nothing"
        reading = f"reading {self._what}"
        self._progress = Progress(reading, "offsets left", options.progress_interval_ms)
        self._malformed = Malformed()
        self._left = self._behind = sum(map(len, ranges))
        self._now: QueueRange | None = None
        self._decoder: Decoder | None = None
        self._losses: list[Losses] = []
        self._enough = 0

    def add(self, one: QueueRange, losses: Losses, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Take the next piece; give what is enough for a batch."""
        if one is not self._now:
            yield from self._go_on_with(one, losses)
        self._left = self._behind + one.until - piece.next_offset
        joined = self._joined
        joined.add(piece, losses)
        if joined.rows >= self._enough or joined.size >= self._options.arrow_batch_bytes:
            yield from self.flush()
            self._tell(self._losses[:-1])
        else:
            self._progress.add(0, self._left)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Decode what there is."""
        if self._decoder is None or not self._joined:
            return
        records = 0
        for batch, offsets in self._decoded(self._decoder):
            records += len(offsets)
            self._enough = min(2 * records, self._options.arrow_batch_rows)
            self._progress.add(batch.num_rows, self._left)
            yield from _cut(batch, self._options.arrow_batch_rows)

    def close(self) -> None:
        """Tell of what was lost or cannot be decoded; what is not decoded yet is dropped."""
        self._tell(self._losses)
        self._malformed.tell(self._what, self._options.mode)

    def _go_on_with(self, one: QueueRange, losses: Losses) -> Iterator[pa.RecordBatch]:
        last, self._now = self._now, one
        is_home = last is not None and _home(last) == _home(one)
        if not is_home or self._is_apart:
            yield from self.flush()
            self._tell(self._losses)
        if not is_home:
            options = self._options
            self._decoder = Decoder(
                self._columns,
                topic=one.topic,
                broker_name=one.broker_name,
                namespace=options.connection.namespace,
                tags=named_tags(options.expression) if options.expression_type == "TAG" else (),
                strict_text=options.body_charset_errors == "strict",
                check_crc=options.check_crc,
                mode=options.mode,
                malformed=self._malformed,
                body_size_max=self._client.decompressed_body_max_bytes,
                bodies_size_max=self._client.decompressed_total_max_bytes,
            )
        self._behind -= len(one)
        self._losses.append(losses)

    def _decoded(self, decoder: Decoder) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        """Decode what was joined, with the offsets of all records, those of other tags included."""
        raw, pieces = self._joined.take()
        counts: list[int] = []
        parts = decoder.decode_parts(raw, pieces[-1][0].max_offset, self._schema)
        try:
            part = next(parts)
        except WrappedBatches:
            parts = self._taken_apart(decoder, pieces, counts)
            part = next(parts)
        offsets = list(part[1])
        for following in parts:
            yield part
            part = following
            offsets += part[1]
        self._joined.had(len(offsets), len(raw))
        if self._is_dense:
            _note_gaps(pieces, offsets, counts)
        yield part

    def _taken_apart(
        self, decoder: Decoder, pieces: list[tuple[Piece, Losses]], counts: list[int]
    ) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        """Decode pieces of which each message of a batch (BatchCQ topics) becomes a record.

        ``counts`` gets how many records each piece has then.
        """
        end, joined, size = pieces[-1][0].max_offset, list[bytes](), 0
        for piece, _ in pieces:
            counts.append(0)
            for records in RawMessages.unwrapped(piece.records, piece.start, piece.next_offset):
                if joined and size + len(records) > decoder.bodies_size_max:
                    raw = b"".join(joined)
                    yield from decoder.decode_parts(raw, end, self._schema, taken_apart=True)
                    joined, size = [], 0
                joined.append(records)
                size += len(records)
                counts[-1] += count_of(records)
        raw = b"".join(joined)
        yield from decoder.decode_parts(raw, end, self._schema, taken_apart=True)

    def _tell(self, ended: list[Losses]) -> None:
        """Log what was lost of ranges that are decoded to their end."""
        for one in ended.copy():
            self._losses.remove(one)
            one.tell()


def _home(one: QueueRange) -> tuple[str, str]:
    return one.topic, one.broker_name


class _Joined:
    """Records of several pulls, back to back; the memory is used again for the next ones.

    No column points into it: Arrow copies what it cuts out.
    """

    def __init__(self, *, is_dense: bool) -> None:
        self._is_dense = is_dense
        self._mean_size = 1.0
        self._room = bytearray()
        self._pieces: list[tuple[Piece, Losses]] = []
        self._offsets = 0
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    @property
    def rows(self) -> float:
        """How many records there are: about, by the mean size of the last ones, under a filter."""
        return self._offsets if self._is_dense else self.size / self._mean_size

    def add(self, piece: Piece, losses: Losses) -> None:
        """Put the next records behind the others; without records there is nothing to keep.

        Where no offset may be left out, the offsets of no records are kept: they are a loss.
        """
        size = piece.size
        if size or self._is_dense:
            self._pieces.append((piece, losses))
            self._offsets += piece.next_offset - piece.start
            self.size += size

    def had(self, records: int, size: int) -> None:
        """Note how many records were in so many bytes."""
        self._mean_size = max(1, size) / max(1, records)

    def take(self) -> tuple[bytes | memoryview, list[tuple[Piece, Losses]]]:
        """Give all records, until the next call, and what they were joined from; begin anew."""
        pieces, size = self._pieces, self.size
        self._pieces, self._offsets, self.size = [], 0, 0
        pulled = [one for piece, _ in pieces for one in piece.pulled]
        if len(pulled) == 1:
            return pulled[0], pieces
        if len(self._room) < size:
            self._room = bytearray(size + size // ROOM_SHARE)
        view, at = memoryview(self._room), 0
        for one in pulled:
            past = at + len(one)
            view[at:past] = one
            at = past
        return view[:size], pieces


def _cut(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Give a batch in even parts of at most so many rows, without a copy; none of an empty one.

    Each part has a price of its own in Spark, so none is a small rest.
    """
    parts = -(-batch.num_rows // rows)
    for part in range(parts):
        start = batch.num_rows * part // parts
        yield batch.slice(start, batch.num_rows * (part + 1) // parts - start)


def _note_gaps(pieces: list[tuple[Piece, Losses]], offsets: list[int], counts: list[int]) -> None:
    """Note what is missing of some pieces, by the offsets of all their records, in order.

    ``counts`` are those of records taken apart; without them the records are as they were pulled.

    What lies between two pieces was told already, by the pull that ran into it.
    """
    if len(offsets) == sum(piece.next_offset - piece.start for piece, _ in pieces):
        return
    at = 0
    for number, (piece, losses) in enumerate(pieces):
        expected = piece.start
        past = at + (counts[number] if counts else count_of(piece.records))
        for offset in [*offsets[at:past], piece.next_offset]:
            if expected < offset:
                losses.add(expected, offset, f"{offset} and later")
            expected = max(expected, offset + 1)
        at = past
