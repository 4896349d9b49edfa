"""Orders that are not paid in 30 minutes are cancelled: a stream with state, and delayed messages.

A stream reads the topic Orders. For every new order it sends a message "cancel" that is due in 30
minutes, and keeps its recall handle in a table. When the order is paid, it takes the message back.
So a consumer of the topic Cancels hears of unpaid orders only. The clock is virtual: half an hour
passes at once.

Spark may run a batch again after a crash. The table says which batches are complete, so a complete
batch is never done twice. A batch that broke off sends its messages again, and the handles of their
first copies are lost. So a real consumer checks whether an order is paid before it cancels it.

    .venv/bin/python examples/spark_unpaid_orders.py                  300 orders
    .venv/bin/python examples/spark_unpaid_orders.py --rows 100000    full scale

The exit status is 1 if a paid order is cancelled, or an unpaid one is not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from _spark import checked, local_spark, run_with_spark

import spark_connector
from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    DefaultMQPushConsumer,
    MessageExt,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS, CANCELS = "Orders", "Cancels"
PAY_WITHIN = timedelta(minutes=30)
WAIT_SECONDS = 60


class Shop:
    """The stream that watches over orders, and its table of cancellations to come."""

    def __init__(self, spark: SparkSession, broker: EmbeddedBroker, folder: Path) -> None:
        self._spark = spark
        self._there = {"nameServer": broker.namesrv_addr}
        self._checkpoint = str(folder / "checkpoint")
        self._table = folder / "cancellations"
        self.recalls: Counter[str] = Counter()

    def say(self, orders: DataFrame, event: str) -> None:
        """Put an event of each order into the topic."""
        # All events of one order go to one queue, where they keep their order.
        columns = ("order AS body", "order AS keys", "order AS sharding_key")
        events = orders.selectExpr(*columns, f"'{event}' AS tags")
        to = self._there | {"topic": ORDERS}
        events.write.format("rocketmq").options(**to).mode("append").save()

    def work(self) -> None:
        """Handle all events that are there; the checkpoint knows how far that is."""
        events = (
            self._spark.readStream.format("rocketmq")
            .options(**self._there)
            .options(subscribe=ORDERS, startingOffsets="earliest")
            .load()
            .selectExpr("CAST(body AS string) AS order", "tags AS event")
        )
        query = (
            events.writeStream.foreachBatch(self._handle)
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def _handle(self, events: DataFrame, batch: int) -> None:
        done = self._table / f"batch={batch}"
        if not (done / "_SUCCESS").exists():
            new = events.where("event = 'created'")
            cancels = new.selectExpr(
                "order", "order AS body", f"{PAY_WITHIN // timedelta(milliseconds=1)} AS delay_ms"
            )
            sent = spark_connector.send(
                cancels, topic=CANCELS, extraColumns="ignore", **self._there
            )
            # Only now is the batch done: the handles are safe.
            handles = sent.select("order", "recall_handle")
            handles.write.mode("overwrite").parquet(str(done))
        paid = events.where("event = 'paid'").select("order").distinct()
        waiting = self._spark.read.parquet(str(self._table))
        # Taking back twice does no harm, so a repeated batch may do it again.
        recalled = spark_connector.recall(waiting.join(paid, "order"), **self._there)
        for status, count in recalled.groupBy("status").count().collect():
            self.recalls[status] += count


class Canceller:
    """Consumes the topic Cancels: what arrives there was not paid in time."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.cancelled: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._consumer = DefaultMQPushConsumer("Canceller", namesrv_addr=broker.namesrv_addr)
        self._consumer.consume_from_where = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        self._consumer.subscribe(CANCELS, "*")
        self._consumer.register_message_listener(self._listen)
        self.running = self._consumer

    def _listen(
        self, messages: list[MessageExt], _context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        with self._changed:
            self.cancelled.update(message.body.decode() for message in messages)
            self._changed.notify_all()
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    def wait_for(self, count: int) -> None:
        """Wait until that many cancellations arrived, or too long."""
        with self._changed:
            self._changed.wait_for(lambda: self.cancelled.total() >= count, WAIT_SECONDS)


def program() -> int:
    parser = argparse.ArgumentParser(description="Cancel orders that are not paid in time.")
    parser.add_argument("--rows", type=int, default=300, help="how many orders")
    rows = max(10, parser.parse_args().rows)
    clock = VirtualClock()
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedBroker(clock=clock, inproc=False, topics=[ORDERS, CANCELS]) as broker,
        local_spark("unpaid orders") as spark,
    ):
        shop, canceller = Shop(spark, broker, Path(name)), Canceller(broker)
        orders = spark.range(rows).selectExpr("id", "concat('order-', id) AS order")
        shop.say(orders, "created")
        shop.work()
        print(f"{rows} orders; {broker.timers.count(topic=CANCELS)} cancellations wait")

        clock.advance(PAY_WITHIN / 2)
        shop.say(orders.where("id % 3 != 0"), "paid")
        shop.work()
        unpaid = {f"order-{number}" for number in range(0, rows, 3)}
        waiting = broker.timers.count(topic=CANCELS)
        print(f"after 15 minutes {rows - len(unpaid)} are paid, {waiting} cancellations wait")

        with canceller.running:
            clock.advance(PAY_WITHIN)
            canceller.wait_for(len(unpaid))
            print(f"after 45 minutes {canceller.cancelled.total()} are cancelled")
            shop.say(orders.where("id = 0"), "paid")
            shop.work()  # too late: the broker says so
        print(f"recalls: {dict(shop.recalls)}")
    return checked(
        ("cancellations that wait", len(unpaid), waiting),
        ("recalls", {"RECALLED": rows - len(unpaid), "TOO_LATE": 1}, dict(shop.recalls)),
        ("cancelled orders are the unpaid ones", True, set(canceller.cancelled) == unpaid),
        ("cancelled once", len(unpaid), canceller.cancelled.total()),
    )


if __name__ == "__main__":
    sys.exit(run_with_spark(program))
