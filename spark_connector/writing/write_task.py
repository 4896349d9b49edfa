"""What batch and streaming writes share: checked options and columns, and the work of a task.

A task returns only when every row was acknowledged; errors that a repetition cannot help come
back in its message and are raised by the driver, so that Spark does not try the task four times.
Must not know requests. Read on: ``sending.py``.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from rocketmq_py import MessageQueue, RemotingCommandException
from rocketmq_py.raw import RawMessages
from spark_connector.errors import OptionError
from spark_connector.options.write_options import WriteOptions, write_options
from spark_connector.servers.access import access_for, retrying
from spark_connector.servers.spark_api import arrow_schema
from spark_connector.servers.task_context import query_and_batch, task_setting
from spark_connector.writing.queue_choice import first_queues
from spark_connector.writing.replay_guard import ReplayGuard
from spark_connector.writing.row_answers import Answers
from spark_connector.writing.sending import Report, Sender
from spark_connector.writing.write_columns import check_columns

_log = logging.getLogger("spark_connector")


class WrittenMessage(WriterCommitMessage):
    """What one task did, on its way to the driver.

    ``query_id`` is what the batch is marked under when it is whole, None where nothing was written.
    """

    def __init__(self, report: Report, query_id: str | None = None) -> None:
        self.report = report
        self.query_id = query_id


class WriteTask:
    """What both kinds of writers share: checked options and columns, and the work of a task."""

    def __init__(
        self, options: Mapping[str, str], schema: StructType, *, overwrite: bool, streaming: bool
    ) -> None:
        if overwrite:
            what = 'outputMode("complete")' if streaming else '.mode("overwrite")'
            raise OptionError(
                f"{what} asks to empty the topic first, which RocketMQ cannot do: use "
                + ('outputMode("append")' if streaming else '.mode("append")')
            )
        self.options: WriteOptions = write_options(options, streaming=streaming)
        check_compression(self.options.compression)
        self.meanings = check_columns(arrow_schema(schema), self.options)
        self.fixed_queues: dict[str, tuple[MessageQueue, ...]] = {}
        self.is_planned = False

    def plan_queues(self) -> None:
        """Look once, before any task, whether there is a name server and the option ``topic``.

        The tasks then wait for a route that is gone for a while. Fixes the queues that keys which
        route are spread over, the same for every task. Raises `NoRouteError` for a topic that
        does not exist, `NameServerUnavailableError`.
        """
        options, topic = self.options, self.options.topic
        access = access_for(options.connection)
        asking = "asking for the brokers" if topic is None else f"asking for topic {topic}"
        queues = retrying(options, asking, lambda: first_queues(access, topic))
        by_key = options.route_by_key != "none" or "sharding_key" in self.meanings.values()
        if topic is not None and queues and by_key:
            self.fixed_queues = {topic: queues}
        self.is_planned = True

    def run(self, batches: Iterator[pa.RecordBatch]) -> WrittenMessage:
        """Send all batches; returns when everything is acknowledged."""
        here, query, guard = self.place(), query_and_batch(), self.guard()
        # A batch write outside of any query is marked as one of its group.
        who = query[0] if query is not None else here[0] if here is not None else None
        if guard is not None and here is not None and who is not None:
            batch_id = here[1]
            if guard.is_written(who, batch_id):
                _log.warning("batch %d was written whole before: nothing is sent again", batch_id)
                return WrittenMessage(Report())
        sender = self.sender(here)
        for batch in batches:
            if batch.num_rows and not sender.send(batch):
                break
        return WrittenMessage(sender.finish(), who)

    def place(self) -> tuple[str, int, int] | None:
        """Return what names this task's rows when they come again: whose, which batch, which part.

        Those of a guarded batch write are its group's, others as `micro_batch`. Raises
        `OptionError` where Spark's micro-batch has another number than ``batchId``.
        """
        group, batch_id = self.options.replay_guard, self.options.batch_id
        if group is None or batch_id is None:
            return micro_batch()
        sparks = query_and_batch()
        if sparks is not None and sparks[1] != batch_id:
            raise OptionError(
                f"option batchId = {batch_id}, but this is batch {sparks[1]} of query {sparks[0]}: "
                "give the number that foreachBatch passes to its function"
            )
        partition = partition_id()
        return None if partition is None else (group, batch_id, partition)

    def sender(self, here: tuple[str, int, int] | None, answers: Answers | None = None) -> Sender:
        """Return what sends the rows of one task; ``here`` is what `place` says."""
        dedupe = None
        if here is not None and self.options.dedupe == "auto":
            dedupe = "-".join(map(str, here))
        sender = Sender(
            access_for(self.options.connection),
            self.options,
            self.meanings,
            fixed_queues=self.fixed_queues,
            # A query that is past its first batch has found its topic before.
            planned=self.is_planned or (here is not None and here[1] > 0),
            dedupe=dedupe,
            partition=partition_id(),
            answers=answers,
        )
        sender.report.failure = speculation_problem(task_setting("spark.speculation"))
        return sender

    def guard(self) -> ReplayGuard | None:
        """Return the keeper of the mark of whole batches, None when none is asked for."""
        options = self.options
        if options.replay_guard is None or options.topic is None:
            return None
        access = access_for(options.connection)
        return ReplayGuard(
            access, options.replay_guard, options.topic, take_over=options.replay_guard_take_over
        )


def check_compression(kind: str) -> None:
    """Raise `OptionError` when what a compression needs is not installed on the driver."""
    if kind == "none":
        return
    try:
        RawMessages.compressed(b"x", kind)
    except RemotingCommandException as error:
        raise OptionError(f"option compression={kind} cannot be used: {error}") from None


def speculation_problem(setting: str | None) -> OptionError | None:
    """Say why a session with this value of ``spark.speculation`` may not write, None if it may."""
    if (setting or "").strip().lower() != "true":
        return None
    return OptionError(
        "this session has spark.speculation=true: Spark starts a second copy of a slow task, and "
        "both would send their rows. Nothing was sent. Start the session that writes with "
        "spark.speculation=false; it cannot be changed later. Reads may keep it."
    )


def note_whole(guard: ReplayGuard | None, messages: list[Any], batch_id: int | None) -> None:
    """Mark a batch as written whole, where a guard is asked for."""
    queries = {one.query_id for one in messages if isinstance(one, WrittenMessage)} - {None}
    if guard is not None and batch_id is not None:
        for query_id in queries:
            guard.note(str(query_id), batch_id)


def raise_failure(messages: list[Any]) -> None:
    """Raise the first failure of the tasks; log what was left out."""
    reports = [one.report for one in messages if isinstance(one, WrittenMessage)]
    for report in reports:
        if report.failure is not None:
            raise report.failure
    skipped = sum(report.skipped for report in reports)
    if skipped:
        _log.warning("%d invalid rows were left out", skipped)
    redirected = sum(report.redirected for report in reports)
    if redirected:
        _log.warning("%d invalid rows went to invalidRowTopic", redirected)


def log_abort(messages: list[Any]) -> None:
    """Say how many rows of finished tasks stay stored although the write failed."""
    stored = sum(one.report.stored for one in messages if isinstance(one, WrittenMessage))
    _log.warning("the write failed; at least %d rows are stored and stay", stored)


def partition_id() -> int | None:
    """Return the number of this task's partition, None outside of a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else int(context.partitionId())


def micro_batch() -> tuple[str, int, int] | None:
    """Return (query id, batch, partition) of this task, None outside of a streaming query."""
    here, partition = query_and_batch(), partition_id()
    return None if here is None or partition is None else (*here, partition)
