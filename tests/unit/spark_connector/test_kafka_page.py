"""The page for users of Kafka's source leaves out no option of theirs, and names ours rightly.

Its programs are run in ``tests/spark/test_from_kafka.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_connector.options.parsing import KAFKAS as KAFKAS_HERE
from spark_connector.options.table import OPTIONS

PAGE = Path(__file__).resolve().parents[3] / "spark_connector" / "FROM_KAFKA.md"
KAFKAS = {
    "assign",
    "subscribe",
    "subscribePattern",
    "kafka.bootstrap.servers",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsets",
    "endingOffsets",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "kafka.group.id",
    "includeHeaders",
    "startingOffsetsByTimestampStrategy",
    "topic",
}
"""The options of Spark's Kafka source and sink, by its guide."""
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


def rows(title: str) -> list[list[str]]:
    """The cells of the tables of a section, without heads."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def names(cells: list[str]) -> list[str]:
    return re.findall(r"`([A-Za-z][\w.]*)`", " ".join(cells))


def test_every_option_and_column_of_kafkas_source_has_a_row() -> None:
    told = names([row[0] for row in rows("Options of a read")])
    told += names([row[0] for row in rows("Columns and options of a write")])
    assert KAFKAS - set(told) == set()
    assert [names(row[:1])[0] for row in rows("Read with Kafka's columns")] == COLUMNS


def test_a_name_that_is_another_one_here_is_told_as_the_page_has_it() -> None:
    tables = rows("Options of a read") + rows("Columns and options of a write")
    told = {name.lower(): names(row[1:2]) for row in tables for name in names(row[:1])}
    for name, ours in KAFKAS_HERE.items():
        assert OPTIONS[ours].name in told[name]


def test_what_stands_there_for_an_option_is_one_of_ours() -> None:
    ours = names([cell for row in rows("Options of a read") for cell in row[1:]])
    assert len(ours) > 20
    assert {name for name in ours if name.lower() not in OPTIONS} == {"rocketmq.", "properties"}


@pytest.mark.parametrize("name", ["value", "key", "partition", "timestamp", "headers"])
def test_names_of_columns_that_stay_are_known_to_reads(name: str) -> None:
    from spark_connector.decoding.read_columns import source_of

    assert name in names([row[1] for row in rows("Read with Kafka's columns")])
    assert source_of(name) != name
