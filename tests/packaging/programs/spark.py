"""With the extra `spark`: Spark finds the data source by itself, writes delays and reads topics."""

import os
import sys

from pyspark.sql import SparkSession

from embedded_broker import EmbeddedBroker, VirtualClock

os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "ERROR")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
with EmbeddedBroker(clock=VirtualClock(), topics=["T"]) as broker:
    there = {"nameServer": broker.namesrv_addr}
    rows = spark.createDataFrame([(b"later", 60_000)], "body BINARY, delay_ms BIGINT")
    rows.write.format("rocketmq").options(topic="T", **there).mode("append").save()
    assert broker.timers.count() == 1
    broker.clock.advance(minutes=1)
    read = spark.read.format("rocketmq").options(subscribe="T", **there).load()
    print([bytes(row.body) for row in read.select("body").collect()])
spark.stop()
