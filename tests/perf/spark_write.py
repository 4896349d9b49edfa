"""Writing from Spark to a topic, beside Spark's own Kafka sink; and delayed rows, one by one.

Each round has a broker of its own, so that what earlier rounds stored is not in the way. After the
last round delayed rows are waited for and read back: none may have been stored before its time.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.perf.kafka import PARTITIONS, kafka_server
from tests.perf.measure import Figure, figure
from tests.perf.spark_session import (
    Server,
    Taken,
    figures_of,
    ratio,
    report,
    spark_session,
    taking,
    telling_server,
    trial,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BODY_SIZE = 256
DELAYED_SHARE = 5
"""One row in so many is written with a delay."""
FAR_MS = 3_600_000
SOON_MS = 30_000
DUE_S = 120.0

KAFKA = "Kafka sink"
OURS = "ours"
DELAYED = "ours, each row with a delay"


def rows_of(session: SparkSession, rows: int, name: str) -> DataFrame:
    """Bodies of 256 bytes, in four tasks."""
    body = f"rpad(format_string('%06d', id), {BODY_SIZE}, 'x') AS {name}"
    return session.range(0, rows, 1, PARTITIONS).selectExpr(body)


def to_kafka(session: SparkSession, servers: str, pid: int, rows: int, topic: str) -> Taken:
    """Write with Spark's sink."""
    frame = rows_of(session, rows, "value")
    options = {"kafka.bootstrap.servers": servers, "topic": topic}
    with taking(session, pid, rows) as found:
        frame.write.format("kafka").options(**options).save()
    return found[0]


def to_ours(session: SparkSession, server: Server, rows: int, topic: str, delay_ms: int) -> Taken:
    """Write with our sink; every row waits for as long, or none."""
    frame = rows_of(session, rows, "body")
    more = {"delayMs": str(delay_ms)} if delay_ms else {}
    server.ask("topic", topic, str(PARTITIONS))
    with taking(session, server.pid, rows) as found:
        frame.write.format("rocketmq").options(**server.options(topic=topic, **more)).mode(
            "append"
        ).save()
    visible = server.ask("visible", topic)
    if not delay_ms and visible < rows:
        raise RuntimeError(f"{visible} messages in topic {topic}, {rows} were written")
    if delay_ms == FAR_MS and visible:
        raise RuntimeError(f"{visible} messages came an hour early")
    return found[0]


def earliest_ms(session: SparkSession, server: Server, rows: int) -> float:
    """Write rows with a short delay, wait for them, and say by how much the first was late."""
    to_ours(session, server, rows, "Soon", SOON_MS)
    deadline_s = time.perf_counter() + DUE_S
    while server.ask("visible", "Soon") < rows:
        if time.perf_counter() > deadline_s:
            raise TimeoutError(f"not all of {rows} delayed rows came within {DUE_S:.0f} s")
        time.sleep(0.5)
    columns = "store_timestamp BIGINT, deliver_at BIGINT, body BINARY"
    source = session.read.format("rocketmq").schema(columns)
    found = source.options(**server.options(subscribe="Soon")).load()
    least, count = found.selectExpr(
        "min(store_timestamp - deliver_at)", "count(DISTINCT body)"
    ).collect()[0]
    if count != rows:
        raise RuntimeError(f"{count} different bodies came, {rows} were written")
    return float(least)


def main() -> None:
    """Take the figures."""
    asked = trial()
    rows, delayed = asked.rows, asked.rows // DELAYED_SHARE
    taken: dict[str, list[Taken]] = defaultdict(list)
    least = 0.0
    with (
        tempfile.TemporaryDirectory() as home,
        kafka_server(Path(home) / "kafka") as kafka,
        spark_session(Path(home)) as session,
    ):
        for number in range(asked.runs + 1):
            with telling_server() as server:
                found = {
                    KAFKA: to_kafka(session, kafka.servers, kafka.pid, rows, f"Perf{number}"),
                    OURS: to_ours(session, server, rows, "Perf", 0),
                    DELAYED: to_ours(session, server, delayed, "Late", FAR_MS),
                }
                if number == asked.runs:
                    least = earliest_ms(session, server, delayed)
            for name, one in found.items():
                if number:  # the first round warms up
                    taken[name].append(one)
    figures: list[Figure] = [
        ratio("ours / Kafka sink", taken[OURS], taken[KAFKA], 1.1),
        figure("delayed", "rows/s", [one.rate for one in taken[DELAYED]], at_least=60_000),
        figure("least lateness of a delayed row", "ms", [least]),
    ]
    if least < 0:
        raise RuntimeError(f"a row was stored {-least} ms before its time")
    for name, some in taken.items():
        figures += figures_of(name, some)
    report("spark_write", figures, asked, delayed_rows=delayed)
