"""`send`, `recall` and `offsets` in a Spark Connect session, which has no objects of a JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock

ROOT = Path(__file__).resolve().parents[2]
# In a process of its own: a process has sessions of one kind only.
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
import spark_connector
there = {"nameServer": sys.argv[1]}
spark = SparkSession.builder.remote("local[2]").getOrCreate()
rows = spark.range(0, 20, 1, 2).selectExpr("id", "concat('m', id) AS body", "60000 AS delay_ms")
sent = spark_connector.send(rows, topic="T", extraColumns="ignore", **there)
recalled = spark_connector.recall(sent.where("id % 2 = 0"), **there)
try:
    spark_connector.send(rows.selectExpr("'' AS body"), topic="T", **there)
except Exception as error:
    refused = type(error).__name__
queues = spark_connector.offsets(spark, subscribe="T", **there)
print(json.dumps([
    type(spark).__module__,
    [row.status for row in sent.collect()],
    [row.status for row in recalled.collect()],
    refused,
    queues.count(),
]))
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.case("SP76")
def test_half_of_the_messages_is_taken_back_without_a_jvm_at_hand() -> None:
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with EmbeddedBroker(clock=VirtualClock()) as broker:
        broker.topics.create("T", queues=2)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, broker.namesrv_addr],
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr[-2_000:]
        module, sent, recalled, refused, queues = json.loads(done.stdout.splitlines()[-1])
        assert module == "pyspark.sql.connect.session"
        assert sent == ["SEND_OK"] * 20
        assert recalled == ["RECALLED"] * 10
        assert (refused, queues) == ("InvalidRowError", 2)
        assert isinstance(broker.clock, VirtualClock)
        broker.clock.advance(62)
        arrived = sorted(one.body for one in broker.messages.in_topic("T"))
        assert arrived == sorted(b"m%d" % number for number in range(1, 20, 2))
