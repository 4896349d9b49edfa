"""How Spark writes the rows of a batch to topics.

Spark's `DataSourceArrowWriter`: `write` runs in a worker, `commit` on the driver. Must not know
requests. Read on: ``write_task.py``; ``stream_writer.py`` for what streams add.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_connector.servers.versions import Shipped
from spark_connector.writing.write_task import WriteTask, log_abort, raise_failure

__all__ = ["BatchWriter"]


class BatchWriter(Shipped, DataSourceArrowWriter):
    """Appends the rows of a DataFrame to topics."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        self._task = WriteTask(options, schema, overwrite=overwrite, streaming=False)

    def plan(self) -> None:
        """Look at the topic before Spark starts tasks; raises as `WriteTask.plan_queues`."""
        self._task.plan_queues()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send one task's rows."""
        return self._task.run(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Raise what a repetition could not help; else log how many rows were left out."""
        raise_failure(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Log how much was stored: messages cannot be taken back."""
        log_abort(messages)
