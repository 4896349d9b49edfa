"""The data source ``rocketmq`` as Spark knows it: which reader or writer serves which call.

Spark's `DataSource`. Its constructor cannot fail, and reading a schema touches no network. Must not
know offsets, bytes or requests. Register it with `spark_connector.register`.
"""

from collections.abc import Callable
from operator import getitem
from pathlib import Path
from site import addsitedir

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from spark_connector.decoding.read_columns import DEFAULT_COLUMNS, OF_RETRIES, ddl_of
from spark_connector.decoding.timer_columns import timer_ddl
from spark_connector.errors import OptionError, SchemaError
from spark_connector.options.parsing import HiddenOptions, OtherUseError
from spark_connector.options.read_options import ReadOptions, read_options
from spark_connector.options.timer_options import asks_for_timers, timer_options
from spark_connector.servers.spark_api import DataSourceStreamArrowWriter, refuse_lacking
from spark_connector.servers.tally import Tally
from spark_connector.servers.versions import Call
from spark_connector.servers.worker_heap import settle


class RocketMQDataSource(DataSource):
    """Reads and writes RocketMQ topics; ``spark.read.format("rocketmq")`` and its three sisters."""

    cores: int | None = None
    """How many cores the cluster has, None when nobody told: see `on_cluster`."""
    tally: Tally | None = None
    """Where tasks count what they pull, None when nobody told."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        settle()  # where Spark plans, each use of the source is a task of its own

    @classmethod
    def on_cluster(cls, cores: int, tally: Tally) -> "type[RocketMQDataSource]":
        """Return this class for a cluster: the planner cannot ask Spark about it itself."""
        # Under a name that its module does not have, so that Spark's pickler sends it by value.
        return type("RocketMQDataSourceOnCluster", (cls,), {"cores": cores, "tally": tally})

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rocketmq"

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        """Bring along the zip that this package came in, if any, for the planner of a stream.

        Spark 4.3 tells that process the names of the files of ``--py-files``, but another folder.
        """
        made = type(self), (self.options,)
        bundle = Path(__file__).parent.parent
        if not bundle.is_file():
            return made
        # Read in this order: the zip becomes importable, then what needs it is made and taken.
        return getitem, ((Call(addsitedir, (str(bundle),)), Call(*made)), 1)

    def schema(self) -> str:
        """Return the columns of a read whose caller gave no schema.

        Options are checked here already, as those of a batch or of a stream, because Spark hides
        the errors of later calls of a stream.
        """
        if asks_for_timers(self.options):
            timers = timer_options(HiddenOptions(self.options))
            refuse_lacking(timers)
            return timer_ddl(timers.columns)
        options = self._checked()
        more = OF_RETRIES if options.subscription.is_of_groups else ()
        return ddl_of(
            options.columns,
            default=(*DEFAULT_COLUMNS, *more),
            include_headers=options.include_headers,
            corrupt=options.column_name_of_corrupt_record,
        )

    def _checked(self) -> ReadOptions:
        options = HiddenOptions(self.options)
        errors = []
        for streaming in (False, True):
            try:
                found = read_options(options, streaming=streaming)
                refuse_lacking(found)
                return found
            except OptionError as error:
                errors.append(error)
        of_batch, of_stream = errors
        # What a batch refuses because it is a stream's option is about a stream.
        raise of_stream if isinstance(of_batch, OtherUseError) else of_batch

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of a batch, or of pending timers."""
        options, wants_filters = HiddenOptions(self.options), _wants_filters(self.options)
        if asks_for_timers(options):
            from spark_connector.reading.timer_reader import FilteringTimerReader, TimerReader

            return (FilteringTimerReader if wants_filters else TimerReader)(options, schema)
        from spark_connector.reading.batch_reader import BatchReader, FilteringBatchReader

        kind = FilteringBatchReader if wants_filters else BatchReader
        return kind(options, schema, self.cores)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Make the reader of a stream."""
        from spark_connector.reading.stream_reader import RefusingStreamReader, StreamReader

        try:
            return StreamReader(HiddenOptions(self.options), schema, self.cores, self.tally)
        except (OptionError, SchemaError) as error:
            return RefusingStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Make the writer of a batch; raises what keeps it from its topic at once."""
        from spark_connector.writing.writers import BatchWriter

        writer = BatchWriter(HiddenOptions(self.options), schema, overwrite=overwrite)
        writer.plan()
        return writer

    def streamWriter(  # noqa: N802 - Spark's
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Make the writer of a stream."""
        from spark_connector.writing.writers import StreamWriter

        return StreamWriter(HiddenOptions(self.options), schema, overwrite=overwrite)


def _wants_filters(options: dict[str, str]) -> bool:
    return str(options.get("pushFilters", "false")).strip().lower() == "true"
