"""What each Spark 4 offers to a data source in Python, and what stands for what it lacks.

The only module that knows versions of Spark. All others use the names of 4.2 and newer. What an
older one cannot do is refused by name. Must not know readers and writers. Read on:
``versions.py``, whether planner and worker run the same software.

| | 4.0 | 4.1 | 4.2 and newer |
|---|---|---|---|
| limits per trigger; ``availableNow`` in several batches; ends in progress reports | | | yes |
| filters pushed down; `send`, `recall` and `offsets` with an answer for each row | | yes | yes |
| a stream is written in Arrow batches | rows, made into batches here | yes | yes |
| `register` replaces the source of an installed wheel | | yes | yes |
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql.pandas.types import to_arrow_schema

from spark_connector.errors import OptionError
from spark_connector.options.table import BY_FIELD
from spark_connector.servers.versions import in_package

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StructType

    from spark_connector.options.read_options import ReadOptions
    from spark_connector.options.timer_options import TimerOptions

VERSION: Final = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
"""Major and minor version of the Spark that is here."""
FIRST_LIMITS: Final = (4, 2)
FIRST_FILTERS: Final = (4, 1)
ROWS_MOST: Final = 1_000
"""Rows of a stream that become one Arrow batch, where Spark has none."""
_LACKING: Final[Mapping[str, tuple[int, int]]] = {
    "max_offsets_per_trigger": FIRST_LIMITS,
    "max_bytes_per_trigger": FIRST_LIMITS,
    "min_offsets_per_trigger": FIRST_LIMITS,
    "max_fetch_time_ms": FIRST_LIMITS,
    "push_filters": FIRST_FILTERS,
}
"""Options, by their fields, and the first Spark that has what they need."""

if VERSION[:1] != (4,):
    raise ImportError(f"PySpark {pyspark.__version__} is here, which is no Spark 4")

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceStreamArrowWriter,
        EqualNullSafe,
        EqualTo,
        Filter,
        GreaterThan,
        GreaterThanOrEqual,
        In,
        LessThan,
        LessThanOrEqual,
    )
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:
    from pyspark.sql import datasource as _batch

    try:
        from pyspark.sql.streaming import datasource as _stream
    except ImportError:
        _stream = None

    class _Lacking:
        """Stands for a class that this Spark lacks, and so makes no object of."""

    def _taken(module: Any, *names: str) -> Iterator[type]:
        return (getattr(module, name, None) or type(name, (_Lacking,), {}) for name in names)

    Filter, EqualNullSafe, EqualTo, GreaterThan, GreaterThanOrEqual, In = _taken(
        _batch, "Filter", "EqualNullSafe", "EqualTo", "GreaterThan", "GreaterThanOrEqual", "In"
    )
    LessThan, LessThanOrEqual = _taken(_batch, "LessThan", "LessThanOrEqual")
    ReadLimit, ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows = _taken(
        _stream, "ReadLimit", "ReadAllAvailable", "ReadMaxBytes", "ReadMaxRows", "ReadMinRows"
    )
    (SupportsTriggerAvailableNow,) = _taken(_stream, "SupportsTriggerAvailableNow")
    DataSourceStreamArrowWriter = getattr(
        _batch, "DataSourceStreamArrowWriter", _batch.DataSourceStreamWriter
    )

__all__ = [
    "VERSION",
    "DataSourceStreamArrowWriter",
    "EqualNullSafe",
    "EqualTo",
    "Filter",
    "GreaterThan",
    "GreaterThanOrEqual",
    "In",
    "LessThan",
    "LessThanOrEqual",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "arrow_batches",
    "arrow_schema",
    "refuse_lacking",
    "register_source",
    "require",
]


def refuse_lacking(options: ReadOptions | TimerOptions) -> None:
    """Raise `OptionError` for an option that needs a newer Spark than the one that is here."""
    for field, first in _LACKING.items():
        value = getattr(options, field, None)
        if value not in {None, False}:
            require(f"option {BY_FIELD[field].name} = {value}", first)


def require(what: str, first: tuple[int, int]) -> None:
    """Raise `OptionError` when the Spark that is here is older than ``first``."""
    if first > VERSION:
        raise OptionError(
            f"{what} needs Spark {_text(first)} or newer, and this is {pyspark.__version__}: "
            f"{_WHY[first]}"
        )


def register_source(spark: SparkSession, source: type[DataSource]) -> bool:
    """Make a source known to a session; False where the one that Spark found by itself stays.

    Spark 4.0 does not let a source be replaced that is installed as a ``pyspark_*`` module.
    """
    try:
        spark.dataSource.register(cast("type[DataSource]", _Sent(source)))
    except AnalysisException as error:
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
        return False
    return True


class _Sent:
    """Stands for a source where Spark sends it: a worker without this package says what to do."""

    def __init__(self, source: type[DataSource]) -> None:
        self._source = source

    def name(self) -> str:
        """Return the name of the format."""
        return self._source.name()

    def __reduce__(self) -> tuple[Callable[[bytes], object], tuple[bytes]]:
        return in_package(self._source)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of Spark's record batches, with times in UTC."""
    in_utc: dict[str, Any] = {"timezone": "UTC"} if _NAMES_A_ZONE else {}
    return to_arrow_schema(schema, **in_utc)  # without a zone older ones take UTC


def arrow_batches(
    given: Iterator[pa.RecordBatch] | Iterator[Row], schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Give what Spark hands to the writer of a stream as record batches: 4.0 hands rows."""
    for first in given:
        if isinstance(first, pa.RecordBatch):
            yield first
        else:
            yield _batch_of([first, *islice(given, ROWS_MOST - 1)], schema)


def _batch_of(rows: Iterable[Any], schema: StructType) -> pa.RecordBatch:
    from pyspark.sql.conversion import LocalDataToArrowConversion

    table = LocalDataToArrowConversion.convert(rows, schema, use_large_var_types=False)
    (batch,) = table.combine_chunks().to_batches()
    return batch


_NAMES_A_ZONE: Final = "timezone" in inspect.signature(to_arrow_schema).parameters
_WHY: Final = {
    FIRST_LIMITS: "it plans the micro-batches of a source in Python without limits",
    FIRST_FILTERS: "it has no Arrow functions, and tells a source in Python no filters",
}


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
