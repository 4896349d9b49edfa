"""How sources and sinks reach servers: namespaces, TLS files, and keys that change under way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import SparkFiles
from pyspark.errors import PySparkException

from embedded_broker import EmbeddedBroker, Tls
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.certificates import Certificates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_namespace_is_on_the_wire_and_in_no_row(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    for topic in ("shop%T", "T", "shop%U"):
        broker.topics.create(topic, queues=1)
    broker.send("T", b"of nobody's namespace")
    common = {"nameServer": broker.namesrv_addr, "namespace": "shop"}
    frame = spark.createDataFrame([("a", "T"), ("b", "U")], "body string, topic string")
    frame.write.format("rocketmq").options(**common).mode("append").save()
    assert [message.body for message in broker.messages.in_topic("shop%T")] == [b"a"]
    reader = spark.read.format("rocketmq").options(**common, subscribePattern=".*")
    rows = reader.schema("topic string, body string").load().collect()
    assert sorted(map(tuple, rows)) == [("T", "a"), ("U", "b")]


def test_rows_come_and_go_by_tls_with_a_file_that_spark_carries(
    spark: SparkSession, certificates: Certificates, tmp_path: Path
) -> None:
    server = certificates.server
    secured = Tls(certificate=server.chain, key=server.key, mode="enforcing")
    with EmbeddedBroker(tls=secured, topics=["T"]) as broker:
        given = {"nameServer": broker.namesrv_addr, "tls": "true", "tlsCa": "ca-of-a-test.pem"}
        reader = spark.read.format("rocketmq").options(subscribe="T", **given)
        with pytest.raises(PySparkException, match=r"tlsCa = .*there is no such file on"):
            reader.load().collect()
        carried = tmp_path / "ca-of-a-test.pem"
        carried.write_bytes(certificates.authority.read_bytes())
        spark.sparkContext.addFile(str(carried))
        rows = spark.createDataFrame([("a",), ("b",)], "body string")
        rows.write.format("rocketmq").options(topic="T", **given).mode("append").save()
        assert sorted(bytes(row.body) for row in reader.load().collect()) == [b"a", b"b"]


@pytest.mark.case("SP78")
def test_a_stream_goes_on_when_its_keys_are_changed(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=1)
    broker.send("T", b"before")
    shipped = tmp_path / "keys-of-a-test.json"
    shipped.write_text(json.dumps({"accessKey": "old", "secretKey": "first"}))
    spark.sparkContext.addFile(str(shipped))
    keys = Path(SparkFiles.get(shipped.name))
    reader = (
        spark.readStream.format("rocketmq")
        .schema("body string")
        .options(
            nameServer=broker.namesrv_addr,
            subscribe="T",
            startingOffsets="earliest",
            credentialsFile=shipped.name,
        )
    )
    query = (
        reader.load()
        .writeStream.format("memory")
        .queryName("keys_of_a_test")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        # Other keys, with a size and a time that do not show it; the old ones are refused once.
        stamp = keys.stat().st_mtime_ns
        keys.write_text(json.dumps({"accessKey": "new", "secretKey": "other"}))
        os.utime(keys, ns=(stamp, stamp))
        refused = broker.faults.on(RequestCode.PULL_MESSAGE)
        refused.respond(ResponseCode.NO_PERMISSION)
        broker.journal.clear()
        broker.send("T", b"after")
        broker.wait_for(lambda _broker: refused.hits, timeout=30)
        query.processAllAvailable()
        assert query.exception() is None
    finally:
        query.stop()
    found = {row.body for row in spark.table("keys_of_a_test").collect()}
    assert (found, refused.hits) == ({"before", "after"}, 1)
    # The refused pull and the next one: no task was tried again.
    assert len(broker.journal.requests(code=RequestCode.PULL_MESSAGE)) == 2
