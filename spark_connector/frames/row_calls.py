"""How a DataFrame calls a function of ours with Arrow columns and gets one value per row back.

By Arrow user functions: they run in executors of classic and Connect sessions alike, need neither
pandas nor the JVM's objects, and may not change the number of rows. Must not know what is asked.
Read on: ``send_recall.py`` sends and recalls with it, ``queue_offsets.py`` asks for offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Fields = tuple[tuple[str, pa.DataType], ...]
_DDL = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.timestamp("us", tz="UTC"): "timestamp",
}

RowWork = Callable[[Iterator[list[pa.Array]]], Iterator[pa.Array]]
"""Takes the columns of one Arrow batch after the other, gives an array of as many rows for each."""


def row_call(work: RowWork, returns: str, columns: list[Column]) -> Column:
    """Return the column that ``work`` makes of others; ``returns`` is its type as DDL.

    It is marked as one whose result may differ from call to call, so that Spark does not evaluate
    it twice where one result is used twice. A task that is repeated calls it again.
    """
    from pyspark.sql import functions

    from spark_connector.servers.spark_api import FIRST_FILTERS, require

    require("an answer for each row (send, recall, offsets)", FIRST_FILTERS)

    def rows(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        # A single column comes as it is, several ones as a tuple.
        return work(list(one) if isinstance(one, tuple) else [one] for one in batches)

    made = functions.arrow_udf(rows, returns).asNondeterministic()
    return made(*columns)


def struct_ddl(fields: Fields) -> str:
    """Return the type of a struct with these fields, as Spark writes it."""
    return f"struct<{', '.join(f'{name}: {_DDL[kind]}' for name, kind in fields)}>"


def once(frame: DataFrame) -> DataFrame:
    """Evaluate a frame now, once, and return its rows as they came out.

    They are kept by the executors and cut off from what made them: rows that are lost with an
    executor are an error later, never a reason for Spark to make them again.
    """
    return frame.localCheckpoint(eager=True)


def option_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Write option values as Spark's ``options(...)`` does; None is an option that is not given."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if value is not None
    }
