"""What became of each row of an Arrow batch that was sent: its status, its place, its handle.

`Sender` notes here what brokers answer, row by row; `take` gives one struct per row in the order
of the rows. Must not know requests, options or Spark. Read on: ``sending.py`` writes it,
``frames/send_recall.py`` shows it to users.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rocketmq_py.raw import RawSend
from spark_connector.writing.encoding import Encoded

try:
    import numpy as np
except ImportError:  # `Encoder` says what is missing
    np = None

SKIPPED = "SKIPPED"
"""Not a message, and left out (``onInvalidRow=skip``)."""
REDIRECTED = "REDIRECTED"
"""Not a message, its body is stored in ``invalidRowTopic``."""
INVALID = "INVALID"
"""Not a message, which ends the whole send (``onInvalidRow=fail``)."""
NOT_SENT = "NOT_SENT"
"""Left over when the send ended."""
FAILED = (INVALID, NOT_SENT)

FIELDS = (
    ("topic", pa.string()),
    ("status", pa.string()),
    ("message_id", pa.string()),
    ("broker_name", pa.string()),
    ("queue_id", pa.int32()),
    ("offset", pa.int64()),
    ("recall_handle", pa.string()),
    ("problem", pa.string()),
)
"""Name and Arrow type of what is told about a row."""

_ID = "^UNIQ_KEY\\x01(?P<id>[^\\x02]*)\\x02"
NOWHERE = -1


class Answers:
    """Collects what brokers say about the rows of one batch after the other. For one thread."""

    def __init__(self) -> None:
        self._encoded: Encoded | None = None

    def begin(self, encoded: Encoded) -> None:
        """Forget the batch before; nothing is known about the rows of this one."""
        rows = len(encoded)
        self._encoded = encoded
        self._status = np.full(rows, None, object)
        self._topics = np.full(rows, None, object)
        self._brokers = np.full(rows, None, object)
        self._handles = np.full(rows, None, object)
        self._queues = np.full(rows, NOWHERE, np.int64)
        self._offsets = np.full(rows, NOWHERE, np.int64)

    def stored(self, rows: Sequence[int], answer: RawSend, *, redirected: bool = False) -> None:
        """Note that these rows are stored, in this order, from the answer's offset on.

        A delayed row lies elsewhere until it is due, so that its offset means nothing: none.
        """
        encoded = self._encoded
        if encoded is None:
            return
        at = np.asarray(rows, np.int64)
        self._status[at] = REDIRECTED if redirected else answer.status.name
        self._topics[at] = answer.queue.topic
        self._brokers[at] = answer.queue.broker_name
        self._queues[at] = answer.queue.queue_id
        offsets = answer.queue_offset + np.arange(len(at), dtype=np.int64)
        waits = encoded.delayed[at] & (not redirected)
        self._offsets[at] = np.where(waits, NOWHERE, offsets)
        if answer.recall_handle:
            self._handles[at] = answer.recall_handle

    def take(self, count: int, ended_by: Exception | None) -> pa.StructArray:
        """Return one struct of `FIELDS` per row; ``ended_by`` is what ended the send, if so.

        ``count`` is the number of rows of a batch that came after the end, and was not encoded.
        """
        encoded, self._encoded = self._encoded, None
        if encoded is None:
            return _structs(count, status=[NOT_SENT] * count, problem=[str(ended_by)] * count)
        status, problems = self._status, np.full(len(encoded), None, object)
        for row, problem in encoded.problems.items():
            problems[row] = problem
            if ended_by is not None:
                status[row] = INVALID
            elif status[row] is None:
                status[row] = SKIPPED
        if ended_by is not None:
            left = np.equal(status, None) | np.equal(status, INVALID)
            problems[left] = str(ended_by)
            status[np.equal(status, None)] = NOT_SENT
        is_sent = pa.array([one not in {*FAILED, SKIPPED, REDIRECTED} for one in status])
        ids = pc.extract_regex(encoded.properties, _ID).field(0).cast(pa.string())
        return _structs(
            len(encoded),
            topic=self._topics,
            status=status,
            message_id=pc.if_else(is_sent, ids, pa.scalar(None, pa.string())),
            broker_name=self._brokers,
            queue_id=_known(self._queues),
            offset=_known(self._offsets),
            recall_handle=self._handles,
            problem=problems,
        )


def _known(numbers: Any) -> pa.Array:  # a numpy array, whose types are not read
    return pa.array(numbers, pa.int64(), mask=numbers == NOWHERE)


def _structs(count: int, **cells: Any) -> pa.StructArray:  # arrays of any kind, or lists
    arrays = []
    for name, kind in FIELDS:
        given = cells.get(name)
        if given is None:
            arrays.append(pa.nulls(count, kind))
        elif isinstance(given, pa.Array):
            arrays.append(given.cast(kind))
        else:
            arrays.append(pa.array(given, kind, from_pandas=True))
    return pa.StructArray.from_arrays(arrays, names=[name for name, _ in FIELDS])
