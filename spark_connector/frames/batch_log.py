"""What each micro-batch of a streaming query did: figures for listeners, and a line in the log.

Taken from Spark's progress reports; only the bytes come from the tasks (``servers/tally.py``),
since Spark lets Python data sources add nothing to the reports. Must not know brokers. Read on:
``lag.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from attrs import frozen
from pyspark.sql.streaming import StreamingQueryListener

from rocketmq_py import RocketMQError
from spark_connector.errors import UnknownLagError
from spark_connector.frames.lag import Lag, lag, offset_of
from spark_connector.planning.stream_offset import StreamOffset
from spark_connector.servers.stderr_log import tell
from spark_connector.servers.tally import bytes_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_log = logging.getLogger("spark_connector")
_KIB = 1024
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@frozen
class BatchFigures:
    """What one micro-batch read: `rows` for Spark, `offsets` of queues, stored `bytes`.

    Under a filter there are more offsets than rows. `bytes` is None where nobody told: on Connect,
    and without `register`. `seconds` is the whole batch, sink included. `behind` is how far the
    queues were behind after it, and `query` its name, or its id if it has none.
    """

    query: str
    batch: int
    rows: int
    offsets: int
    bytes: int | None
    seconds: float
    behind: Lag

    @property
    def slowest(self) -> tuple[str, str, int] | None:
        """The queue that is furthest behind: topic, broker, queue id; None when none is."""
        if not any(self.behind.values()):
            return None
        return max(sorted(self.behind), key=self.behind.__getitem__)

    def __str__(self) -> str:
        size = "unknown bytes" if self.bytes is None else _size(self.bytes)
        head = f"query {self.query}, batch {self.batch}: {self.rows} rows, {size}"
        return f"{head}, {self.seconds:.2f} s; {self._lag()}"

    def _lag(self) -> str:
        try:
            total = self.behind.total
        except UnknownLagError:
            return "lag unknown"
        if self.slowest is None:
            return "0 behind"
        topic, broker, queue = self.slowest
        most = self.behind[self.slowest]
        return f"{total} behind, most of it topic {topic}, broker {broker}, queue {queue}: {most}"


def batch_figures(progress: Mapping[str, Any]) -> BatchFigures | None:
    """Return the figures of a progress report: ``event.progress``, or ``query.lastProgress``.

    None for a report without a source of this connector.
    """
    rows = offsets = 0
    is_ours = False
    for source in progress["sources"]:
        start, end = offset_of(source.get("startOffset")), offset_of(source.get("endOffset"))
        if end is None:
            continue
        is_ours = True
        rows += source["numInputRows"]
        # A first batch has no start in a report; its end holds where the queues began.
        offsets += sum(map(len, (start or StreamOffset({})).ranges(end)))
    if not is_ours:
        return None
    query, batch = str(progress["id"]), int(progress["batchId"])
    took_ms = progress["durationMs"].get("triggerExecution", 0)
    return BatchFigures(
        progress["name"] or query,
        batch,
        rows,
        offsets,
        bytes_of(query, batch),
        took_ms / 1000,
        lag(progress),
    )


class BatchLog(StreamingQueryListener):
    """Logs a line for each micro-batch that read something with this connector.

    At INFO, by ``logging.getLogger("spark_connector")``; to standard error where no logging is set
    up. `spark_connector.register` adds one to a session.
    """

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Log the figures of a batch."""
        try:
            figures = batch_figures(event.progress)
        except RocketMQError as error:  # offsets of another version, of a query of another program
            _log.debug("a progress report cannot be read: %s", error)
            return
        if figures is not None and (figures.rows or figures.offsets):
            tell(str(figures))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""


_logged: WeakSet[SparkSession] = WeakSet()


def log_batches(spark: SparkSession) -> None:
    """Add a `BatchLog` to a session that has none from here yet."""
    if spark not in _logged:
        _logged.add(spark)
        spark.streams.addListener(BatchLog())


def _size(count: int) -> str:
    """Write a number of bytes.

    >>> _size(1023), _size(1536), _size(5 << 30)
    ('1023 bytes', '1.5 KiB', '5.0 GiB')
    """
    size, unit = float(count), 0
    while size >= _KIB and unit < len(_UNITS) - 1:
        size, unit = size / _KIB, unit + 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{count} bytes"
