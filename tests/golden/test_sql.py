"""Our SQL92 says what RocketMQ's own filter says, of 15,000 drawn expressions and messages."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

from embedded_broker.core.filters.sql_parser import parse
from embedded_broker.core.filters.sql_values import NoMatch, SqlError
from tests.golden.sql.make import KEPT, PAIRS

SAID = {True: "T", False: "F", None: "N"}


def ours(expression: str, properties: dict[str, str]) -> list[str]:
    """What we say, in the letters of the kept answers; and why, of an expression that is wrong."""
    try:
        term = parse(expression)
    except SqlError as error:
        return ["C", str(error)]
    try:
        return [SAID[term.give(properties)]]  # type: ignore[index] # a condition
    except NoMatch:
        return ["X"]


def kept() -> list[tuple[str, dict[str, str], list[str]]]:
    """Expressions, properties, and what the original says."""
    pairs: list[list[Any]] = json.loads(gzip.decompress(KEPT.read_bytes()))["pairs"]
    return [(expression, properties, said) for expression, properties, *said in pairs]


def test_we_say_what_the_original_says() -> None:
    pairs = kept()
    different = [
        (expression, properties, theirs, found)
        for expression, properties, theirs in pairs
        if (found := ours(expression, properties)) != theirs
    ]
    assert different == []
    counts = Counter(theirs[0] for _, _, theirs in pairs)
    assert counts.total() == PAIRS
    assert all(counts[letter] > 800 for letter in "TFNXC"), counts
