"""What Spark calls to write rows to topics: one class for a batch, one for a streaming query.

`write` runs in a worker, `commit` and `abort` on the driver. Both are at least once: a repeated
batch sends its rows again. Those of a stream, and of a batch write with ``replayGuard``, have the
same DEDUPE_ID then (option ``dedupe``), by which a consumer can drop them. Must not know requests.
Read on: ``write_task.py``.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_connector.servers.spark_api import DataSourceStreamArrowWriter, arrow_batches
from spark_connector.servers.versions import Shipped
from spark_connector.writing.write_task import WriteTask, log_abort, note_whole, raise_failure


class _Writer(Shipped):
    """What a writer of either kind does in a worker."""

    is_streaming: bool

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        streaming = self.is_streaming
        self._task = WriteTask(options, schema, overwrite=overwrite, streaming=streaming)
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send one task's rows."""
        return self._task.run(arrow_batches(iterator, self._schema))


class BatchWriter(_Writer, DataSourceArrowWriter):
    """Appends the rows of a DataFrame to topics."""

    is_streaming = False

    def plan(self) -> None:
        """Look at the topic before Spark starts tasks; raises as `WriteTask.plan_queues`."""
        self._task.plan_queues()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Raise what a repetition could not help; else mark the batch as whole, if asked to."""
        raise_failure(messages)
        note_whole(self._task.guard(), messages, self._task.options.batch_id)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log how much was stored: messages cannot be taken back."""
        log_abort(messages)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Appends the rows of every micro-batch to topics.

    Spark makes one for each task and another one for `commit`: nothing is kept in between.
    """

    is_streaming = True

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Raise what a repetition could not help; else mark the batch as whole, if asked to."""
        raise_failure(messages)
        note_whole(self._task.guard(), messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """Log how much was stored: messages cannot be taken back."""
        log_abort(messages)
