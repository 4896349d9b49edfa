"""A table of reminders becomes delayed messages, each due at its own time.

A DataFrame with one row for each reminder is written to a topic. Its column `deliver_at` says when
the message shall be delivered. The broker's clock then jumps through two weeks, a day at a time.
Every message has its due time in its body. The example compares it with the time of delivery.

    .venv/bin/python examples/spark_bulk_scheduling.py                  2,000 reminders
    .venv/bin/python examples/spark_bulk_scheduling.py --rows 200000    full scale

The exit status is 1 if a reminder is early, late, missing or doubled.
"""

from __future__ import annotations

import argparse
import sys
from datetime import timedelta

from _spark import checked, local_spark, run_with_spark

from embedded_broker import EmbeddedBroker, VirtualClock

TOPIC = "Reminders"
DAYS = 14
LATE_MS = 1_000  # one slot of the timer wheel


def schedule(broker: EmbeddedBroker, rows: int) -> None:
    """Write one delayed message for each reminder, due in some minute of the two weeks."""
    from pyspark.sql import functions

    with local_spark("bulk scheduling") as spark:
        minute = functions.expr(f"1 + pmod(xxhash64(id), {DAYS * 1440 - 1})")
        due_ms = functions.lit(broker.clock.now_ms) + minute * 60_000
        reminders = spark.range(rows).select(
            functions.format_string("%d %d", due_ms, "id").alias("body"),
            functions.format_string("customer-%d", functions.col("id") % 1000).alias("keys"),
            functions.timestamp_millis(due_ms).alias("deliver_at"),
        )
        reminders.write.format("rocketmq").options(
            nameServer=broker.namesrv_addr,
            topic=TOPIC,
            maxDelayMs="0",  # no limit by this machine's clock: the broker has one of its own
        ).mode("append").save()


def program() -> int:
    parser = argparse.ArgumentParser(description="Schedule reminders in bulk.")
    parser.add_argument("--rows", type=int, default=2_000, help="how many reminders")
    rows = parser.parse_args().rows
    clock = VirtualClock()
    settings = {"timerMaxDelaySec": 2 * DAYS * 86_400}
    with EmbeddedBroker(clock=clock, config=settings, inproc=False) as broker:
        broker.topics.create(TOPIC, queues=4)
        schedule(broker, rows)
        waiting = left = broker.timers.count(topic=TOPIC)
        print(f"{waiting} reminders wait; the first is due at {broker.timers.next_due()}")
        for day in range(1, DAYS + 1):
            clock.advance(timedelta(days=1))
            before, left = left, broker.timers.count(topic=TOPIC)
            print(f"day {day:2}: {before - left:6} delivered, {left:6} wait")
        reminders = broker.messages.in_topic(TOPIC)
        late_ms = [
            round(one.stored_at.timestamp() * 1000) - int(one.body.split()[0]) for one in reminders
        ]
        print(f"late by {min(late_ms, default=0)} to {max(late_ms, default=0)} ms")
    return checked(
        ("waiting", rows, waiting),
        ("delivered", rows, len(reminders)),
        ("different ones", rows, len({one.body for one in reminders})),
        ("early or late", 0, sum(not 0 <= late <= LATE_MS for late in late_ms)),
    )


if __name__ == "__main__":
    sys.exit(run_with_spark(program))
