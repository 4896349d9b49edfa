"""Reads and writes RocketMQ topics from PySpark, in batches and streams, with delays as columns.

Pure Python: no JAR. Needs what the extra ``spark`` brings: PySpark 4.2 or newer, pyarrow, numpy. ::

    import spark_connector
    spark_connector.register(spark)
    reader = spark.read.format("rocketmq").options(nameServer="host:9876", subscribe="T")
    rows = reader.option("includeHeaders", True).load()
    copies = spark_connector.for_write(rows).write.format("rocketmq")
    copies.options(nameServer="host:9876", topic="U").mode("append").save()

`send` and `recall` write and take back with an answer for each row, `offsets` shows where queues
stand, `lag` how far a query is behind. Importing this package imports no Spark. Files for reading
on: ``options/`` every option, ``decoding/read_columns.py`` the columns of a read,
``writing/write_columns.py`` those of a write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_connector.frames.copies import dedupe, for_write
    from spark_connector.frames.lag import Lag, lag
    from spark_connector.frames.queue_offsets import offsets
    from spark_connector.frames.send_recall import recall, send

__all__ = ["Lag", "dedupe", "for_write", "lag", "offsets", "recall", "register", "send"]

_HOMES = {
    "Lag": "lag",
    "dedupe": "copies",
    "for_write": "copies",
    "lag": "lag",
    "offsets": "queue_offsets",
    "recall": "send_recall",
    "send": "send_recall",
}
"""Which module of ``frames`` each name is imported from, when it is first used."""


def register(spark: SparkSession) -> None:
    """Make ``format("rocketmq")`` known to a session, classic or Connect; again replaces it.

    Raises ImportError naming the extra when PySpark or pyarrow is missing or too old.
    """
    try:
        from spark_connector.source import RocketMQDataSource
    except ImportError as error:
        raise _missing(error) from error
    cores = _cores(spark)
    source = RocketMQDataSource if cores is None else RocketMQDataSource.on_cores(cores)
    spark.dataSource.register(source)


def _cores(spark: SparkSession) -> int | None:
    """Return how many tasks the cluster runs at once, None where a session does not tell.

    Executors that are still to come are not counted, unless ``spark.default.parallelism`` is set.
    """
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - Connect has no context, and says so in its own way
        return None


def _missing(error: ImportError) -> ImportError:
    return ImportError(
        f"the Spark connector needs PySpark 4.2 or newer, pyarrow and numpy ({error}): "
        "pip install 'rocketmq-py[spark]'"
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
