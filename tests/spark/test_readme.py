"""The programs for Spark that README and the connector's own page show run, as they stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

import spark_connector
from embedded_broker import EmbeddedBroker, VirtualClock
from tests.pages import blocks_of
from tests.spark.letters import give_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TOKEN = "sixteen characters or more"


@pytest.fixture
def controlled() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), control=True, control_token=TOKEN) as started:
        yield started


def run(blocks: list[str], given: dict[str, Any]) -> None:
    """Run the blocks one after the other; a query that one starts reads what is there, and ends."""
    from pyspark.sql.streaming.query import StreamingQuery

    for block in blocks:
        exec(compile(block, "README.md", "exec"), given)  # noqa: S102 - our own page
        for query in given.values():
            if isinstance(query, StreamingQuery) and query.isActive:
                try:
                    query.processAllAvailable()
                finally:
                    query.stop()


def test_a_read_a_scheduled_write_and_a_stream_work_as_shown(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("Reminders")
    broker.topics.create("Orders")
    broker.send("Orders", b"one")
    given = {"spark": spark, "address": broker.namesrv_addr, "folder": tmp_path}
    shown = blocks_of("README.md")
    blocks = [one for one in shown if "spark" in one or "orders.selectExpr" in one]
    assert len(blocks) == 3
    assert all(block.count("\n") <= 5 for block in blocks)
    run(blocks, given)
    assert [bytes(row.body) for row in spark.read.load(f"{tmp_path}/orders").collect()] == [b"one"]
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(timedelta(days=2) - timedelta(seconds=1))
    assert broker.messages.in_topic("Reminders") == []
    broker.clock.advance(2)
    assert [message.body for message in broker.messages.in_topic("Reminders")] == [b"one"]


def test_the_program_at_the_top_of_the_help_of_the_package_works(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    for topic in ("T", "U"):
        broker.topics.create(topic)
    broker.send("T", b"one", tags="new")
    (shown,) = re.findall(r"::\n\n(.*?)\n\n\S", spark_connector.__doc__ or "", flags=re.DOTALL)
    run([dedent(shown).replace("host:9876", broker.namesrv_addr)], {"spark": spark})
    (copy,) = broker.messages.in_topic("U")
    assert (copy.body, copy.tags) == (b"one", "new")


def test_the_page_for_users_of_the_connector_works_from_its_top_to_its_end(
    spark: SparkSession, controlled: EmbeddedBroker, tmp_path: Path
) -> None:
    broker = controlled
    for topic in ("Orders", "Reminders", "Copies", "Rehearsal", "Archive"):
        broker.topics.create(topic)
    give_up(broker, tags="invoice")
    broker.send("Orders", b"one", tags="new", keys="k")
    broker.send("Orders", b"two", tags="new", keys="k")
    given: dict[str, Any] = {
        "spark": spark,
        "address": broker.namesrv_addr,
        "control": broker.control_url.removeprefix("http://"),
        "token": TOKEN,
        "folder": tmp_path,
        "began": "2020-01-01T00:00:00Z",
        "ended": "2999-01-01T00:00:00Z",
    }
    try:
        run(blocks_of("spark_connector/README.md"), given)
    finally:
        spark.catalog.dropTempView("orders")
    assert (len(given["behind"]), given["behind"].total) == (4, 0)
    assert [tuple(row) for row in given["by_tag"].collect()] == [("new", 2)]
    assert spark.read.load(f"{tmp_path}/orders").count() == 2
    assert [row.status for row in given["taken_back"].collect()] == ["RECALLED"] * 2
    copied = [message.properties["DEDUPE_ID"] for message in broker.messages.in_topic("Copies")]
    assert len(set(copied)) == 2
    assert {bytes(row.body) for row in given["once"].collect()} == {b"one", b"two"}
    assert [row.status for row in given["answers"].collect()] == ["SEND_OK"] * 2
    assert given["failed"].collect() == []
    assert len(broker.messages.in_topic("Invoices")) == 4
    assert {one.body for one in broker.messages.in_topic("Archive")} == {b"one", b"two"}
    broker.clock.advance(20)
    assert {one.body for one in broker.messages.in_topic("Rehearsal")} == {b"one", b"two"}
    assert sorted(bytes(row.body) for row in given["ordered"].collect()) == [b"one", b"two"]
