"""What SQL92 costs the broker: evaluations of an expression of four terms, on one core."""

from __future__ import annotations

import time

from embedded_broker.core.filters.sql import SqlFilter, sql_filter
from tests.perf.measure import figure, five, keep

EXPRESSION = "amount > 5 AND region IN ('north', 'south') AND kind = 'order' AND note IS NOT NULL"
MESSAGES = [
    {"amount": "7", "region": "north", "kind": "order", "note": "n"},
    {"amount": "3", "region": "north", "kind": "order", "note": "n"},
    {"amount": "7", "region": "east", "kind": "order", "note": "n"},
    {"amount": "7", "region": "south", "kind": "order"},
]
ROUNDS = 100_000


def evaluations(wanted: SqlFilter) -> float:
    """Evaluations a second, as many of messages that match as of those that fail at each term."""
    matches = wanted.matches
    started = time.process_time()
    for _ in range(ROUNDS):
        for properties in MESSAGES:
            matches(properties)
    return ROUNDS * len(MESSAGES) / (time.process_time() - started)


def compilations() -> float:
    """Expressions read a second."""
    started = time.process_time()
    for _ in range(ROUNDS // 100):
        sql_filter(EXPRESSION, frozenset())
    return ROUNDS // 100 / (time.process_time() - started)


def main() -> None:
    """Take the figures."""
    wanted = sql_filter(EXPRESSION, frozenset())
    figures = [
        figure(
            "evaluations of four terms",
            "messages/s",
            five(lambda: evaluations(wanted)),
            at_least=300_000,
        ),
        figure("expressions read", "expressions/s", five(compilations)),
    ]
    keep("sql", figures)
