"""What a task of Spark knows of where it runs: its session's settings, its query and micro-batch.

Must not know what the task does. Outside of a task there is nothing to know.
"""


def task_setting(name: str) -> str | None:
    """Return a setting of the session that this task belongs to, None outside of a task.

    Tasks get the session's settings as local properties, on Connect and for streams, too. The
    process that plans a write gets none.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def query_and_batch() -> tuple[str, int] | None:
    """Return the streaming query and the micro-batch of this task, None outside of a query."""
    query = task_setting("sql.streaming.queryId")
    batch = task_setting("streaming.sql.batchId")
    return None if query is None or batch is None else (query, int(batch))
