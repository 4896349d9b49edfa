"""Bodies as JSON, Avro and protobuf become columns, by Spark's own functions.

A topic has bytes; what they mean is declared by whoever reads: a schema as DDL for `from_json`, as
JSON for `from_avro`, a descriptor for `from_protobuf`. A stream is read in the same way. JSON needs
nothing more. The other two need a package of Spark's, of the version that Spark has, and without
it this program says so and leaves that part out:

    .venv/bin/python examples/spark_declared_schemas.py                     JSON
    .venv/bin/python examples/spark_declared_schemas.py --packages          all, from Maven's center
    .venv/bin/python examples/spark_declared_schemas.py --jars a.jar,b.jar  with files of your own

In a session of your own that is `--packages org.apache.spark:spark-avro_2.13:VERSION` and the same
with `spark-protobuf_2.13`. The exit status is 1 if an order is read otherwise than it was sent.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from _needs import missing_packages
from _spark import checked, local_spark, run_with_spark

from embedded_broker import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PACKAGES = ("spark-avro_2.13", "spark-protobuf_2.13")
ORDERS = [(1, "north", 9.5), (2, "south", 12.0), (3, "north", 0.25)]
COLUMNS = "id BIGINT, shop STRING, price DOUBLE"
AVRO = """{"type": "record", "name": "Order", "fields": [
  {"name": "id", "type": "long"},
  {"name": "shop", "type": "string"},
  {"name": "price", "type": "double"}]}"""
PROTOBUF = (("id", "TYPE_INT64"), ("shop", "TYPE_STRING"), ("price", "TYPE_DOUBLE"))
"""The fields of ``message Order { int64 id = 1; string shop = 2; double price = 3; }``."""


class MissingError(Exception):
    """What a part needs and this machine does not have."""


class Topics:
    """Writes bodies to a topic and reads them back as they are."""

    def __init__(self, spark: SparkSession, broker: EmbeddedBroker) -> None:
        self._broker = broker
        self._there = {"nameServer": broker.namesrv_addr}
        self._spark = spark
        self.orders = spark.createDataFrame(ORDERS, COLUMNS)

    def write(self, topic: str, bodies: DataFrame) -> None:
        """Send a column ``body``."""
        self._broker.topics.create(topic, queues=2)
        to = self._there | {"topic": topic}
        bodies.write.format("rocketmq").options(**to).mode("append").save()

    def write_bytes(self, topic: str, bodies: list[bytes]) -> None:
        """Send bodies that no column of Spark made."""
        self.write(topic, self._spark.createDataFrame([(one,) for one in bodies], "body BINARY"))

    def read(self, topic: str, kind: str = "BINARY") -> DataFrame:
        """Give the bodies, as bytes or as text."""
        reader = self._spark.read.format("rocketmq").schema(f"body {kind}")
        return reader.options(subscribe=topic, **self._there).load()


def from_json_bodies(topics: Topics) -> DataFrame:
    """Read JSON; a body that is none gives a null struct, and is left out here."""
    from pyspark.sql import functions

    order = functions.struct(*topics.orders.columns)
    topics.write("Json", topics.orders.select(functions.to_json(order).alias("body")))
    topics.write_bytes("Json", [b"no JSON at all"])
    # Asked for as text, so that nothing is cast; from_json takes no bytes.
    parsed = topics.read("Json", "STRING").select(
        functions.from_json("body", COLUMNS, {"mode": "PERMISSIVE"}).alias("order")
    )
    return parsed.select("order.*").where("id IS NOT NULL")


def from_avro_bodies(topics: Topics) -> DataFrame:
    """Read plain Avro; behind a schema registry five bytes stand before it: substring(body, 6)."""
    from pyspark.sql import functions
    from pyspark.sql.avro.functions import from_avro, to_avro

    order = functions.struct(*topics.orders.columns)
    bodies = or_missing(lambda: topics.orders.select(to_avro(order, AVRO).alias("body")))
    topics.write("Avro", bodies)
    parsed: DataFrame = topics.read("Avro").select(from_avro("body", AVRO).alias("order"))
    return parsed.select("order.*")


def from_protobuf_bodies(topics: Topics) -> DataFrame:
    """Read protobuf; the descriptor is what ``protoc --descriptor_set_out`` writes into a file."""
    from pyspark.sql.protobuf.functions import from_protobuf

    if missing_packages("google.protobuf"):
        raise MissingError("the Python package protobuf for its bodies: pip install protobuf")
    kind, descriptor = protobuf_order()
    sent = [kind(**dict(zip(("id", "shop", "price"), one, strict=True))) for one in ORDERS]
    topics.write_bytes("Protobuf", [one.SerializeToString() for one in sent])
    read = topics.read("Protobuf")
    # With or without Spark's package: the bodies are those that were sent.
    arrived = [kind.FromString(bytes(row.body)) for row in read.collect()]
    if sorted((one.id, one.shop, one.price) for one in arrived) != ORDERS:
        raise ValueError("bodies of protobuf came back as others")

    def order() -> Column:
        return from_protobuf("body", "shop.Order", binaryDescriptorSet=descriptor).alias("order")

    return or_missing(lambda: read.select(order()).select("order.*"))


def protobuf_order() -> tuple[Any, bytes]:
    """Return the class of an order, and its descriptor, as a compiler of protobuf makes them."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate(PROTOBUF, 1):
        types = descriptor_pb2.FieldDescriptorProto
        message.field.add(
            name=name, number=number, type=getattr(types, kind), label=types.LABEL_OPTIONAL
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    return kind, descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def or_missing(make: Callable[[], DataFrame]) -> DataFrame:
    """Make a frame; raises `MissingError` when Spark says that its package is not loaded."""
    from pyspark.errors import AnalysisException

    try:
        return make()
    except AnalysisException as error:
        if not str(error.getCondition()).endswith("_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE"):
            raise
        package = PACKAGES["PROTOBUF" in str(error.getCondition())]
        raise MissingError(f"--packages org.apache.spark:{package}:VERSION") from None


PARTS = {
    "JSON": from_json_bodies,
    "Avro": from_avro_bodies,
    "protobuf": from_protobuf_bodies,
}


def program() -> int:
    parser = argparse.ArgumentParser(description="Turn bodies into columns.")
    parser.add_argument("--jars", default="", help="files of Spark's packages, by commas")
    parser.add_argument("--packages", action="store_true", help="let Spark fetch its packages")
    arguments = parser.parse_args()
    settings = {"spark.jars": arguments.jars}
    if arguments.packages:
        from pyspark import __version__

        wanted = (f"org.apache.spark:{name}:{__version__}" for name in PACKAGES)
        settings["spark.jars.packages"] = ",".join(wanted)
    facts = []
    with (
        EmbeddedBroker(inproc=False) as broker,
        local_spark("declared schemas", settings) as spark,
    ):
        topics = Topics(spark, broker)
        for name, columns in PARTS.items():
            try:
                found = sorted(map(tuple, columns(topics).collect()))
            except MissingError as error:
                print(f"SKIPPED {name} needs {error}")
                continue
            facts.append((f"orders from {name}", ORDERS, found))
    return checked(*facts)


if __name__ == "__main__":
    sys.exit(run_with_spark(program))
