"""Reading a topic from Spark, beside Spark's own Kafka source: rows a second and CPU.

The same number of messages of 256 bytes lies in a topic of four queues and in one of four
partitions. In every round each case runs once, so that all see the same machine. A message of ours
has the six properties that it has in the store of a 5.x broker.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rocketmq_py import QueueAccess
from spark_connector.decoding.read_columns import ddl_of, projection
from spark_connector.decoding.row_decoding import decode_row, value_of
from spark_connector.options.write_options import write_options
from spark_connector.reading.batch_reader import BatchReader, RangePartition
from spark_connector.reading.pulling import RangePuller
from spark_connector.servers.access import access_for
from spark_connector.writing.sending import Sender
from spark_connector.writing.write_columns import check_columns
from tests.perf.kafka import kafka_server
from tests.perf.measure import Figure, figure
from tests.perf.spark_session import (
    PULL_LIMITS,
    Server,
    Taken,
    command_of,
    drained,
    figures_of,
    jvm_pid,
    ports_of,
    ratio,
    report,
    spark_session,
    telling_server,
    tree,
    trial,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "Perf"
QUEUES = 4
BODY_SIZE = 256
PROPERTIES = 6
PULL_MESSAGE = 11
TUPLE_SHARE = 5
"""The tuple reader gets one row in so many: it would take minutes."""
FILL_ROWS = 10_000

ALL = "Kafka source, all columns"
OFFSET_VALUE = "Kafka source, offset and value"
SEEN = "Kafka source, all columns, seen by a Python worker"
DEFAULT = "ours, default columns"
HEADERS = "ours, with properties"
SMALL = "ours, offset and body"
CAPPED = "ours, default columns, default cap of 32 a pull"
TUPLES = "ours as tuples, default columns"


# --- a reader that gives tuples ------------------------------------------------------------------


class TupleReader(BatchReader):
    """Pulls as ours does and makes a tuple of each row, with the per-row codec."""

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Read one task's range."""
        if not isinstance(partition, RangePartition):
            return
        columns = projection(self.schema)
        access = access_for(self.options.connection)
        for wanted in partition.wanted:
            for piece in RangePuller(access, self.options, wanted).pieces():
                records, at = piece.records, 0
                while at < len(records):
                    message = decode_row(
                        records, at, wanted.topic, wanted.broker_name, check_crc=False
                    )
                    yield tuple(
                        value_of(column, message, wanted.topic, 0, strict_text=False)
                        for column in columns
                    )
                    at += message.store_size


class TupleSource(DataSource):  # type: ignore[misc]
    """`format("rocketmq_tuples")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "rocketmq_tuples"

    def schema(self) -> str:
        """The default columns; times as numbers, so that a row costs no more than it must."""
        return ddl_of(()).replace("TIMESTAMP", "BIGINT")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader."""
        return TupleReader(self.options, schema)


# --- topics --------------------------------------------------------------------------------------


def fill(server: Server, rows: int) -> None:
    """Send the messages through the connector's own sender, which batches."""
    server.ask("topic", TOPIC, str(QUEUES))
    given = server.options(topic=TOPIC, tags="perf")
    options = write_options(given, streaming=False)
    body = pa.array([b"%06d" % number + b"x" * (BODY_SIZE - 6) for number in range(FILL_ROWS)])
    keys = pa.array([f"key-{number}" for number in range(FILL_ROWS)])  # records differ in size
    whole = pa.RecordBatch.from_pydict({"body": body, "keys": keys})
    with QueueAccess(namesrv_addr=server.namesrv) as access:
        sender = Sender(access, options, check_columns(whole.schema, options))
        for first in range(0, rows, FILL_ROWS):
            sender.send(whole.slice(0, min(FILL_ROWS, rows - first)))
        sender.finish()
        queue = access.read_queues(TOPIC)[0]
        message = access.message_at(queue, 0)
    if message is None or len(message.properties) != PROPERTIES:
        raise RuntimeError(f"{PROPERTIES} properties were wanted, there are {message}")


def fill_kafka(session: SparkSession, servers: str, rows: int) -> None:
    """Write as many rows with Spark's sink."""
    frame = session.range(0, rows, 1, QUEUES).selectExpr(
        f"concat('key-', id % {FILL_ROWS}) AS key",
        f"rpad(format_string('%06d', id), {BODY_SIZE}, 'x') AS value",
    )
    options = {"kafka.bootstrap.servers": servers, "topic": TOPIC}
    frame.write.format("kafka").options(**options).save()


# --- cases ---------------------------------------------------------------------------------------


def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a Python worker does that only looks."""
    return batches


def cases(
    session: SparkSession, server: Server, servers: str, rows: int
) -> dict[str, Callable[[], DataFrame]]:
    """The frames to read, by name."""
    from_kafka = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC}

    def kafka() -> DataFrame:
        return session.read.format("kafka").options(**from_kafka).load()

    def ours(columns: str = "", **more: str) -> DataFrame:
        given = server.options(subscribe=TOPIC, **more)
        source = session.read.format("rocketmq").options(**given)
        return (source.schema(columns) if columns else source).load()

    def tuples() -> DataFrame:
        part = rows // QUEUES // TUPLE_SHARE
        ends = {TOPIC: {"broker-a": {str(queue): part for queue in range(QUEUES)}}}
        given = server.options(subscribe=TOPIC, endingOffsets=json.dumps(ends))
        return session.read.format("rocketmq_tuples").options(**given).load()

    def seen() -> DataFrame:
        frame = kafka()
        return frame.mapInArrow(identity, frame.schema)

    found: dict[str, Callable[[], DataFrame]] = {
        ALL: kafka,
        OFFSET_VALUE: lambda: kafka().select("offset", "value"),
        SEEN: seen,
        DEFAULT: ours,
        HEADERS: lambda: ours(includeHeaders="true"),
        SMALL: lambda: ours("offset BIGINT, body BINARY"),
        CAPPED: ours,
        TUPLES: tuples,
    }
    if find_spec("pandas") is None:  # mapInArrow asks for it
        print("pandas is not installed: nothing is seen by a Python worker")
        del found[SEEN]
    return found


def main() -> None:
    """Take the figures."""
    asked = trial()
    rows = asked.rows
    with (
        tempfile.TemporaryDirectory() as home,
        kafka_server(Path(home) / "kafka") as kafka,
        telling_server(**PULL_LIMITS) as server,
        spark_session(Path(home)) as session,
    ):
        session.dataSource.register(TupleSource)
        fill(server, rows)
        fill_kafka(session, kafka.servers, rows)
        frames = cases(session, server, kafka.servers, rows)
        taken: dict[str, list[Taken]] = defaultdict(list)
        for name, frame in frames.items():
            expected = rows // TUPLE_SHARE if name == TUPLES else rows
            if (count := frame().count()) != expected:
                raise RuntimeError(f"{name}: {count} rows, {expected} were written")
        for number in range(asked.runs + 1):
            for name, frame in frames.items():
                if name == CAPPED:
                    server.ask("set", "maxTransferCountOnMessageInMemory", "32")
                mine = name.startswith("ours")
                count = rows // TUPLE_SHARE if name == TUPLES else rows
                one = drained(session, frame(), server.pid if mine else kafka.pid, count)
                if name == CAPPED:
                    for option, value in PULL_LIMITS.items():
                        server.ask("set", option, value)
                if number:  # the first round warms up
                    taken[name].append(one)
        workers = pulling_processes(session, server, frames[DEFAULT]())
    figures = bars(taken)
    figures.append(figure("processes that pulled", "", [float(len(workers))], at_least=2))
    for name, some in taken.items():
        figures += figures_of(name, some)
    report("spark_read", figures, asked, pulls_by_process=workers)


def bars(taken: dict[str, list[Taken]]) -> list[Figure]:
    """The figures that have one."""
    kafka = taken[ALL]
    found = [
        ratio("default columns / Kafka", taken[DEFAULT], kafka, 1.0),
        ratio("with properties / Kafka", taken[HEADERS], kafka, 0.7),
        ratio("offset and body / Kafka", taken[SMALL], kafka, 1.4),
        ratio("offset and body / Kafka's offset and value", taken[SMALL], taken[OFFSET_VALUE]),
        ratio("Arrow / tuples", taken[DEFAULT], taken[TUPLES], 3.0),
        ratio("default columns, default cap of 32 / Kafka", taken[CAPPED], kafka, 0.9),
    ]
    if SEEN in taken:
        name = "with properties / Kafka seen by a Python worker"
        found.insert(2, ratio(name, taken[HEADERS], taken[SEEN], 1.2))
    return found


def pulling_processes(session: SparkSession, server: Server, frame: DataFrame) -> dict[str, int]:
    """Read once more and say which processes pulled how often, by the broker's journal.

    Raises when one of them is not a Python worker of Spark: then data went through the driver.
    """
    server.ask("requests", str(PULL_MESSAGE))
    frame.write.format("noop").mode("overwrite").save()
    by_port = server.ask("requests", str(PULL_MESSAGE))
    workers = tree(jvm_pid(session))[1:]
    found: dict[str, int] = {}
    for pid in workers:
        pulls = sum(by_port.pop(str(port), 0) for port in ports_of(pid))
        if pulls:
            found[f"{pid} {' '.join(command_of(pid).split()[1:3])}"] = pulls
    if by_port:
        raise RuntimeError(f"pulls of others than Spark's workers, by port: {by_port}")
    return found
