"""Which rows of a batch travel together to which queue: a pure calculation.

Rows without a fixed queue become batches, at least as many as their topic has queues. Delayed,
compressed and very large rows are messages of their own, because a broker looks at no delay inside
a batch; of those, too, many leave together. Rows with a fixed queue keep their order. The body of a
batch is joined from numpy-made heads, bodies and properties, so that no Python object exists per
row. Must not know when requests are sent. Read on: ``window.py``.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, evolve, field

from rocketmq_py import MessageQueue
from rocketmq_py.raw import RawMessages
from spark_connector.options.read_options import RETRY_PREFIX
from spark_connector.options.write_options import WriteOptions
from spark_connector.writing.encoding import ITEM_OVERHEAD, Encoded, fixed_width
from spark_connector.writing.queue_choice import Places

try:
    import numpy as np
except ImportError:  # `Encoder` says what is missing
    np = None

RUNS_IN_FLIGHT = 2
"""Messages of their own leave in so many parts of what may be under way."""
Array = Any  # numpy arrays: numpy's types are not read by the type checker


@define
class Request:
    """Some rows of a batch on their way to a queue: any one, or the one that ``lane`` names.

    Each row is a message of its own, with an element in `bodies` and `properties`; a ``batch`` is
    one message of all rows. From `attempt` on it says how it fared until now.
    """

    topic: str
    bodies: Sequence[bytes | memoryview]
    rows: Sequence[int]
    lane: MessageQueue | None = None
    properties: Sequence[str] = ("",)
    flag: int = 0
    sys_flag: int = 0
    batch: bool = False
    redirected: bool = False
    attempt: int = 0
    first_at: float = 0.0
    sent_at: float = 0.0
    queue: MessageQueue | None = None
    size: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.size = sum(map(len, self.bodies))

    def __len__(self) -> int:
        """Return how many messages it has."""
        return len(self.bodies)

    def rows_of(self, number: int) -> Sequence[int]:
        """Return the rows of one of its messages."""
        return self.rows if self.batch else self.rows[number : number + 1]

    def part(self, numbers: Sequence[int]) -> "Request":
        """Return a request of some of its messages, which has fared as this one has."""
        if len(numbers) == len(self):
            return self
        return evolve(
            self,
            bodies=[self.bodies[number] for number in numbers],
            rows=[self.rows[number] for number in numbers],
            properties=[self.properties[number] for number in numbers],
        )


def requests(encoded: Encoded, places: Places, options: WriteOptions) -> Iterator[Request]:
    """Give the requests of all rows without a problem, in the order of the rows for a lane."""
    good = np.ones(len(encoded), bool)
    good[list(encoded.problems)] = False
    for topic, queues in places.queues.items():
        mine = pc.fill_null(pc.equal(encoded.topics, topic), fill_value=False)
        rows = np.flatnonzero(mine.to_numpy(zero_copy_only=False) & good)
        for lane, some in _by_lane(rows, places.lanes):
            alone = _alone(encoded, topic, some, options)
            groups = _halves(some, alone) if lane is None else _runs(some, alone)
            for group, is_alone in groups:
                parts = queues if lane is None else 1
                if is_alone:
                    yield from _singles(encoded, topic, group, lane, options, parts)
                    continue
                for part, body in batch_bodies(encoded, group, options.batch_bytes, parts):
                    yield Request(topic, (body,), part, lane, batch=True)


def _alone(encoded: Encoded, topic: str, rows: Array, options: WriteOptions) -> Array:
    """Return which of the rows no batch may hold (a mask)."""
    if not options.batch_send or topic.startswith(RETRY_PREFIX):
        return np.ones(len(rows), bool)
    alone = encoded.alone[rows]
    if options.compression != "none":
        lengths = pc.binary_length(encoded.bodies.take(pa.array(rows)))
        alone = alone | (lengths.to_numpy(zero_copy_only=False) > options.compress_over)
    return alone


def _singles(
    encoded: Encoded,
    topic: str,
    rows: Array,
    lane: MessageQueue | None,
    options: WriteOptions,
    parts_min: int,
) -> Iterator[Request]:
    """Give requests of rows that are messages of their own: neighbours whose headers are equal.

    Rows of a lane go one by one, because each waits for the one before it. The others go in parts
    of which two are under way, and which are small enough for all queues to get some.
    """
    taken = pa.array(rows)
    bodies = encoded.bodies.take(taken).to_pylist()
    texts = encoded.properties.take(taken).cast(pa.string()).to_pylist()
    flags = encoded.flags[rows]
    sys_flags = np.zeros(len(rows), np.int64)
    if options.compression != "none":
        for at, body in enumerate(bodies):
            if len(body) > options.compress_over:
                bodies[at], sys_flags[at] = RawMessages.compressed(body, options.compression)
    most = 1 if lane is not None else max(1, options.max_in_flight // RUNS_IN_FLIGHT)
    most = min(most, -(-len(rows) // parts_min))
    ends = np.concatenate(([0], np.cumsum([len(body) for body in bodies])))
    edges = np.flatnonzero(np.diff(flags) | np.diff(sys_flags)) + 1
    first = 0
    for edge in [*edges.tolist(), len(rows)]:
        while first < edge:
            past = int(np.searchsorted(ends, ends[first] + options.batch_bytes, side="right")) - 1
            past = min(max(past, first + 1), first + most, edge)
            yield Request(
                topic,
                bodies[first:past],
                rows[first:past].tolist(),
                lane,
                texts[first:past],
                int(flags[first]),
                int(sys_flags[first]),
            )
            first = past


def batch_bodies(
    encoded: Encoded, rows: Array, bytes_max: int, parts_min: int
) -> Iterator[tuple[Array, memoryview]]:
    """Give (row numbers, batch body) of consecutive parts of the given rows.

    A part has at most ``bytes_max`` bytes, or one row, and at most the ``parts_min``-th part of the
    rows (rounded up), so that a few rows are spread too.
    """
    count = len(rows)
    taken = pa.array(rows)
    bodies, properties = encoded.bodies.take(taken), encoded.properties.take(taken)
    body_len = pc.binary_length(bodies).to_numpy(zero_copy_only=False).astype(np.int64)
    props_len = pc.binary_length(properties).to_numpy(zero_copy_only=False).astype(np.int64)
    heads = np.zeros((count, 5), ">i4")
    heads[:, 0] = body_len + props_len + ITEM_OVERHEAD
    heads[:, 3] = encoded.flags[rows]
    heads[:, 4] = body_len
    prefixes = fixed_width(heads.view(np.uint8).reshape(count, 20))
    suffixes = fixed_width(props_len.astype(">u2").view(np.uint8).reshape(count, 2))
    joined = pc.binary_join_element_wise(
        prefixes, bodies, suffixes, properties, pa.scalar(b"", pa.binary())
    )
    ends = np.frombuffer(joined.buffers()[1], np.int32, count + 1).astype(np.int64)
    data = memoryview(joined.buffers()[2])
    per_part = max(1, -(-count // max(1, parts_min)))
    first = 0
    while first < count:
        past = int(np.searchsorted(ends, ends[first] + bytes_max, side="right")) - 1
        past = min(max(past, first + 1), first + per_part, count)
        yield rows[first:past], data[int(ends[first]) : int(ends[past])]
        first = past


def _by_lane(
    rows: Array, lanes: dict[int, MessageQueue]
) -> Iterator[tuple[MessageQueue | None, Array]]:
    """Give the rows without a fixed queue, then those of each fixed queue, in their order."""
    if not lanes:
        if len(rows):
            yield None, rows
        return
    grouped: dict[MessageQueue | None, list[int]] = defaultdict(list)
    for row in rows.tolist():
        grouped[lanes.get(row)].append(row)
    for lane, some in grouped.items():
        yield lane, np.array(some, np.int64)


def _halves(rows: Array, alone: Array) -> Iterator[tuple[Array, bool]]:
    for is_alone in (False, True):
        some = rows[alone == is_alone]
        if len(some):
            yield some, is_alone


def _runs(rows: Array, alone: Array) -> Iterator[tuple[Array, bool]]:
    """Cut rows where they change between alone and not, so that order is kept."""
    edges = np.flatnonzero(np.diff(alone.astype(np.int8))) + 1
    for some, kinds in zip(np.split(rows, edges), np.split(alone, edges), strict=True):
        if len(some):
            yield some, bool(kinds[0])
