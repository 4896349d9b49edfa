"""How rows of a DataFrame are sent, or taken back, with an answer for each row.

`send` is a write that also gives the places and recall handles of what it stored, `send_back` one
of dead letters, and `recall` takes delayed messages back by their handles. All run once, when
called: a frame that sent whenever it was looked at would send again with every count and every
retry of a later step. Must not know requests. Read on: ``writing/row_answers.py`` for the columns,
``recalling.py`` for what a task does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from rocketmq_py import RocketMQError
from spark_connector.decoding.read_columns import PLACE
from spark_connector.errors import InvalidRowError, OptionError, SchemaError
from spark_connector.frames.copies import copied
from spark_connector.frames.recalling import OUTCOME_FIELDS, Recaller
from spark_connector.frames.row_calls import (
    Fields,
    RowWork,
    once,
    option_texts,
    row_call,
    struct_ddl,
)
from spark_connector.options.write_options import write_options
from spark_connector.writing.row_answers import FAILED, FIELDS, INVALID, Answers
from spark_connector.writing.write_task import WriteTask, micro_batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def send(frame: DataFrame, **options: object) -> DataFrame:
    """Send every row as a message, now, and return one row about each of them.

    Takes the columns and options of a write (``nameServer``, ``topic``, ``onInvalidRow`` ...).
    The result holds ``topic``, ``status`` (``SEND_OK``; ``SKIPPED`` and ``REDIRECTED`` for rows
    that ``onInvalidRow`` lets pass), ``message_id``, ``broker_name``, ``queue_id``, ``offset``
    (null for a row with a delay: it gets its place when it is due), ``recall_handle`` (null unless
    the broker gave one, as 5.3.2 and later do for timers) and ``problem``, why it is no message.
    Columns that ``extraColumns=ignore`` keeps out of the messages come along in front of them.

    The sending is over when this returns, and the frame that it returns does not send: use it as
    often as you like. Its rows stay in the executors until it is garbage; store them (Parquet)
    when the handles are needed later. As in a write, a task that fails is repeated with its rows.

    For a stream call it inside ``foreachBatch``. Raises `OptionError` and `SchemaError` before
    anything is sent, `InvalidRowError` for a row under ``onInvalidRow=fail``, `RocketMQError` for
    a topic that refuses; what was sent until then stays sent.
    """
    from pyspark.sql import functions

    _no_stream(frame, "send")
    task = WriteTask(option_texts(options), frame.schema, overwrite=False, streaming=False)
    if task.options.replay_guard is not None:
        raise OptionError(
            "option replayGuard is for writes: send has an answer for each row, and rows that are "
            "left out have none"
        )
    told = {name for name, _ in FIELDS}
    kept = [
        functions.col(_quoted(name))
        for name in frame.columns
        if name not in task.meanings and name.lower() not in told
    ]
    given = [functions.col(_quoted(name)) for name in task.meanings]
    answers = row_call(_sending(task), struct_ddl(FIELDS), given)
    done = once(frame.select(*kept, answers.alias("_sent")))
    _raise_failure(done)
    return done.select(*kept, *_fields(FIELDS, "_sent"))


def send_back(frame: DataFrame, **options: object) -> DataFrame:
    """Send dead letters to the topics that they came from, now, and return one row about each.

    ``frame`` is a read with ``deadLettersOf`` and ``includeHeaders``, or any with the columns
    ``origin_topic``, ``message_id`` and those of `for_write`. Each message keeps body, keys, tags,
    flag, user properties and its id, so that listeners which remember ids know it. Every group that
    subscribes to the topic gets it, not only the one that had given up. The dead letter stays where
    it is. Options are those of a write, but neither ``topic`` nor ``extraColumns``; ``delayMs``
    makes them wait.

    The result is that of `send`, with a column ``dead_letter`` in front: a struct of the dead
    letter's ``topic``, ``broker_name``, ``queue_id`` and ``offset``, as far as they were read.
    Raises as `send` and `for_write` do.
    """
    from pyspark.sql import functions

    texts = option_texts(options)
    for name in texts:
        if name.lower() in {"topic", "extracolumns"}:
            raise OptionError(f"option {name} is not for send_back: use for_write, and send")
    for name in ("origin_topic", "message_id"):
        if name not in frame.columns:
            raise SchemaError(f"send_back needs the column {name}, as deadLettersOf gives it")
    place = [functions.col(name) for name in PLACE if name in frame.columns]
    letter = [functions.struct(*place).alias("dead_letter")] if place else []
    sent = [functions.col("origin_topic").alias("topic"), functions.col("message_id")]
    ready = frame.select(*letter, *sent, *copied(frame, "send_back"))
    return send(ready, **texts, extraColumns="ignore")


def recall(frame: DataFrame, **options: object) -> DataFrame:
    """Take back delayed messages by their column ``recall_handle``, now, and say how each went.

    ``frame`` may be a result of `send`, a read of pending timers (``timers=pending``, with
    ``brokerName`` where it is of files), or any frame with such a column; a column or option
    ``topic`` is not needed, since a handle names its topic. Options are those of a write that
    reach the brokers (``nameServer``, ``sendTimeoutMs``, ``sendRetries``, ``maxInFlight`` ...).
    The result has the frame's columns and, new or in their place, ``status``: ``RECALLED``,
    ``TOO_LATE``, ``REFUSED`` (not a handle, or the broker does not offer it), ``NO_HANDLE``
    (null), ``FAILED`` (nobody answered), with ``message_id`` and ``problem``, what was said.
    RocketMQ also answers ``RECALLED`` for a message that was taken back before, or does not exist.
    ``recall(frame, ...).groupBy("status").count()`` tells how many there are of each.

    The frame that is returned asks nobody. Raises `OptionError`, `SchemaError`, and the error of
    a name server that does not answer.
    """
    from pyspark.sql import functions

    _no_stream(frame, "recall")
    texts = option_texts(options)
    checked = write_options(texts, streaming=False)
    if "recall_handle" not in frame.columns:
        raise SchemaError("recall needs the column recall_handle, as send gives it")
    if checked.topic is not None:
        topic = functions.lit(checked.topic)
    elif "topic" in frame.columns:
        topic = functions.col("topic")
    else:
        topic = functions.lit(None).cast("string")

    def work(batches: Iterator[list[pa.Array]]) -> Iterator[pa.Array]:
        recaller = Recaller(checked)
        for topics, handles in batches:
            yield recaller.take_back(topics.to_pylist(), handles.to_pylist())

    handles = functions.col("recall_handle")
    asked = row_call(work, struct_ddl(OUTCOME_FIELDS), [topic, handles]).alias("_asked")
    told = {name for name, _ in OUTCOME_FIELDS}
    kept = [functions.col(_quoted(name)) for name in frame.columns if name.lower() not in told]
    return once(frame.select(*kept, asked)).select(*kept, *_fields(OUTCOME_FIELDS, "_asked"))


def _sending(task: WriteTask) -> RowWork:
    def work(batches: Iterator[list[pa.Array]]) -> Iterator[pa.Array]:
        answers = Answers()
        sender = task.sender(micro_batch(), answers)
        for columns in batches:
            batch = pa.RecordBatch.from_arrays(columns, names=list(task.meanings))
            if batch.num_rows and sender.send(batch):
                sender.settle()
            yield answers.take(batch.num_rows, sender.report.failure)

    return work


def _raise_failure(done: DataFrame) -> None:
    """Raise what ended the send, if anything did: a repetition would not help."""
    from pyspark.sql import functions

    sent = functions.col("_sent")
    ended = done.where(sent["status"].isin(*FAILED))
    first = ended.agg(functions.min(functions.struct(sent["status"], sent["problem"]))).head()
    if first is None or first[0] is None:
        return
    status, problem = first[0]
    raise InvalidRowError(problem) if status == INVALID else RocketMQError(problem)


def _no_stream(frame: DataFrame, what: str) -> None:
    if frame.isStreaming:
        raise OptionError(f"{what} takes no stream: call it for each batch, inside foreachBatch")


def _fields(fields: Fields, parent: str) -> list[Column]:
    from pyspark.sql import functions

    return [functions.col(parent)[name].alias(name) for name, _ in fields]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
