"""Our SQL92 says what RocketMQ's own filter says, of 12,000 drawn expressions and messages."""

from __future__ import annotations

import gzip
import json
from collections import Counter

from embedded_broker.core.filters.sql_parser import parse
from embedded_broker.core.filters.sql_terms import NoMatch, SqlError
from tests.golden.sql.make import KEPT, PAIRS

SAID = {True: "T", False: "F", None: "N"}


def ours(expression: str, properties: dict[str, str]) -> str:
    """What we say, in the letters of the kept answers."""
    try:
        term = parse(expression)
    except SqlError:
        return "C"
    try:
        return SAID[term.give(properties)]  # type: ignore[index] # a condition
    except NoMatch:
        return "X"


def test_we_say_what_the_original_says() -> None:
    pairs = json.loads(gzip.decompress(KEPT.read_bytes()))["pairs"]
    different = [
        (expression, properties, theirs, found)
        for expression, properties, theirs in pairs
        if (found := ours(expression, properties)) != theirs
    ]
    assert different == []
    counts = Counter(theirs for _, _, theirs in pairs)
    assert counts.total() == PAIRS
    assert all(counts[letter] > 800 for letter in "TFNXC"), counts
