"""The page for users of rocketmq-spark leaves out no option of theirs, and names ours rightly.

Its programs are run in ``tests/spark/test_from_rocketmq_spark.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_connector.errors import OptionError
from spark_connector.options.parsing import OLD_CONNECTORS
from spark_connector.options.read_options import read_options
from spark_connector.options.table import OPTIONS

PAGE = Path(__file__).resolve().parents[3] / "spark_connector" / "FROM_ROCKETMQ_SPARK.md"
THEIRS = {
    "nameServer",
    "topic",
    "startingOffsets",
    "endingOffsets",
    "failOnDataLoss",
    "subExpression",
    "pullTimeoutMs",
    "pullBatchSize",
    "maxOffsetsPerTrigger",
    "group",
}
"""The options of its source for Structured Streaming, by its guide and its settings."""


def rows() -> list[list[list[str]]]:
    """Give the names in each cell of the table of options."""
    section = PAGE.read_text(encoding="utf-8").partition("## Options of a read\n")[2]
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [
        [re.findall(r"`([A-Za-z][\w.]*)`", cell) for cell in line.strip("|").split("|")]
        for line in lines[2:]
    ]


def test_every_option_of_the_old_connector_has_a_row() -> None:
    told = {name for row in rows() for name in row[0]}
    assert THEIRS - told == set()


def test_what_stands_there_for_an_option_is_one_of_ours() -> None:
    for _theirs, ours, _different in rows():
        assert ours
        assert {name for name in ours if name.lower() not in OPTIONS} == set()


@pytest.mark.parametrize("name", OLD_CONNECTORS)
def test_an_old_name_is_answered_by_the_one_here(name: str) -> None:
    ours = OPTIONS[OLD_CONNECTORS[name]].name
    (row,) = [row for row in rows() if name in [one.lower() for one in row[0]]]
    assert ours in row[1] or (ours, row[1]) == ("topic", ["subscribe"])
    with pytest.raises(OptionError, match=f"did you mean {ours}"):
        read_options({"nameServer": "a:1", name: "x"}, streaming=True)
