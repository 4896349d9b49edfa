"""Reads and writes RocketMQ topics from PySpark, in batches and streams, with delays as columns.

Pure Python: no JAR. Needs what the extra ``spark`` brings: PySpark 4, pyarrow, numpy. ::

    import spark_connector
    spark_connector.register(spark)
    reader = spark.read.format("rocketmq").options(nameServer="host:9876", subscribe="T")
    rows = reader.option("includeHeaders", True).load()
    copies = spark_connector.for_write(rows).write.format("rocketmq")
    copies.options(nameServer="host:9876", topic="U").mode("append").save()

`send`, `send_back` and `recall` write and take back with an answer for each row, `replay` spaces
messages as they were, `offsets` shows where queues
stand, `lag` how far a query is behind, `batch_figures` what a micro-batch did. Importing this
package imports no Spark. Files for reading on: ``options/`` every option,
``decoding/read_columns.py`` the columns of a read, ``writing/write_columns.py`` those of a write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_connector.frames.batch_log import BatchFigures, BatchLog, batch_figures
    from spark_connector.frames.copies import dedupe, for_write, replay
    from spark_connector.frames.lag import Lag, lag
    from spark_connector.frames.queue_offsets import offsets
    from spark_connector.frames.send_recall import recall, send, send_back

__all__ = [
    "BatchFigures",
    "BatchLog",
    "Lag",
    "batch_figures",
    "dedupe",
    "for_write",
    "lag",
    "offsets",
    "recall",
    "register",
    "replay",
    "send",
    "send_back",
]

_HOMES = {
    "BatchFigures": "batch_log",
    "BatchLog": "batch_log",
    "batch_figures": "batch_log",
    "Lag": "lag",
    "dedupe": "copies",
    "for_write": "copies",
    "lag": "lag",
    "offsets": "queue_offsets",
    "recall": "send_recall",
    "replay": "copies",
    "send": "send_recall",
    "send_back": "send_recall",
}
"""Which module of ``frames`` each name is imported from, when it is first used."""


def register(spark: SparkSession, *, log_batches: bool = True) -> None:
    """Make ``format("rocketmq")`` known to a session, classic or Connect; again replaces it.

    Each micro-batch of a stream then logs a line, unless ``log_batches`` is false. On Connect add
    a `BatchLog` yourself: its listener keeps the client's process alive until the session stops.
    Raises ImportError naming the extra when PySpark or pyarrow is missing, or PySpark is no
    version 4.
    """
    try:
        from spark_connector.servers.spark_api import register_source
        from spark_connector.source import RocketMQDataSource
    except ImportError as error:
        raise _missing(error) from error
    cores = _cores(spark)
    if cores is None:
        register_source(spark, RocketMQDataSource)
        return
    from spark_connector.frames import batch_log
    from spark_connector.servers.tally import tally_of
    from spark_connector.servers.versions import tell_other_python

    tell_other_python(spark.sparkContext)
    source = RocketMQDataSource.on_cluster(cores, tally_of(spark.sparkContext))
    if register_source(spark, source) and log_batches:
        batch_log.log_batches(spark)


def _cores(spark: SparkSession) -> int | None:
    """Return how many tasks the cluster runs at once, None where a session does not tell.

    Executors that are still to come are not counted, unless ``spark.default.parallelism`` is set.
    """
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - Connect has no context, and says so in its own way
        return None


def _missing(error: ImportError) -> ImportError:
    from rocketmq_py.errors import how_to_install

    return ImportError(
        f"the Spark connector needs PySpark 4, pyarrow and numpy ({error}): "
        f"{how_to_install('spark')}"
    )


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a helper on first use (PEP 562); ImportError names the extra that it needs."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        try:
            thing: object = getattr(import_module(f"spark_connector.frames.{home}"), name)
        except ImportError as error:
            raise _missing(error) from error
        globals()[name] = thing
        return thing
