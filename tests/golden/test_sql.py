"""Our SQL92 says what RocketMQ's own filter says, of drawn expressions and messages."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from embedded_broker.core.filters.sql_parser import parse
from embedded_broker.core.filters.sql_values import NoMatch, SqlError
from tests.golden.sql.make import PAIRS, kept

SAID = {True: "T", False: "F", None: "N"}


def ours(expression: str, properties: dict[str, str], *, with_searches: bool = True) -> list[str]:
    """What we say, in the letters of the kept answers; and why, of an expression that is wrong."""
    try:
        term = parse(expression, with_searches=with_searches)
    except SqlError as error:
        return ["C", str(error)]
    try:
        return [SAID[term.give(properties)]]  # type: ignore[index] # a condition
    except NoMatch:
        return ["X"]


@pytest.mark.parametrize(("version", "count"), PAIRS.items())
def test_we_say_what_the_original_says(version: str, count: int) -> None:
    pairs = json.loads(gzip.decompress(kept(version).read_bytes()))["pairs"]
    with_searches = version >= "5"
    different = [
        (expression, properties, theirs, found)
        for expression, properties, *theirs in pairs
        if (found := ours(expression, properties, with_searches=with_searches)) != theirs
    ]
    assert different == []
    counts = Counter(letter for _, _, letter, *_ in pairs)
    assert counts.total() == count
    assert all(counts[letter] > count / 25 for letter in "TFNXC"), counts
