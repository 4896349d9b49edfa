"""SQL92 expressions as filters: what is told of wrong ones, and their bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_broker.core.filters import Filters, SqlFilter
from embedded_broker.core.filters.sql import sql_filter
from embedded_broker.core.filters.sql_parser import LENGTH_MAX, NESTED_MAX
from embedded_broker.core.refusals import Reason, Refused
from rocketmq_py.errors import BodyError

NO_CODES: frozenset[int] = frozenset()


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("", "the end at 0: "),
        ("a > '5'", "'5' cannot be compared by >"),
        ("a BETWEEN 9 AND 1", "the smaller end first, not 9 AND 1"),
        ("(a", "the end at 2: [)] must stand there"),
        ("a = #", "'#' at 4 is nothing that SQL92 knows"),
        ("a = 'x", "at 4 is nothing that SQL92 knows"),
        ("a = NULL", "say IS NULL"),
        ("5 IN ('a')", "IN needs a property before it, 5 is none"),
        ("a IN (5)", "5 at 6: text must stand there"),
        ("a = 9223372036854775808", "is more than 9223372036854775807"),
        ("a = 0.0", "0.0 is not between"),
        ("5", "5 is no condition"),
        ("a NOT 5", "BETWEEN or IN or CONTAINS or ENDSWITH or STARTSWITH must stand there"),
        ("a = 1 AND", "the end at 9"),
    ],
)
def test_a_wrong_expression_is_refused_with_what_is_wrong(expression: str, told: str) -> None:
    with pytest.raises(BodyError, match=told.replace("(", r"\(")) as caught:
        sql_filter(expression, NO_CODES)
    assert caught.value.reason.startswith("Invalid MessageSelector. ")


def test_an_expression_has_bounds_that_its_error_names() -> None:
    nested = "(" * NESTED_MAX + "a = 1" + ")" * NESTED_MAX
    with pytest.raises(BodyError, match=f"more than {NESTED_MAX} parentheses"):
        sql_filter(nested, NO_CODES)
    assert sql_filter(nested[1:-1], NO_CODES).matches({"a": "1"})
    for many in ("NOT " * 10_000 + "a", "- " * 10_000 + "a > 1", "(" * 10_000):
        with pytest.raises(BodyError, match="parentheses"):
            sql_filter(many, NO_CODES)
    long = "a = 1 OR " * 7_000 + "b = 2"
    assert len(long) < LENGTH_MAX
    assert sql_filter(long, NO_CODES).matches({"b": "2"})
    with pytest.raises(BodyError, match=f"at most {LENGTH_MAX}"):
        sql_filter("x" * (LENGTH_MAX + 1), NO_CODES)


def test_a_message_matches_only_when_the_expression_is_true() -> None:
    found = sql_filter("a > 5 AND b IN ('x', 'y')", NO_CODES)
    assert found.matches({"a": "7", "b": "x"})
    assert not found.matches({"a": "7", "b": "z"})
    assert not found.matches({"b": "x"})  # unknown
    assert not found.matches({"a": "seven", "b": "x"})  # no number


def test_what_cannot_be_converted_fails_all_of_an_expression() -> None:
    found = sql_filter("a > 5 OR b = 'x'", NO_CODES)
    assert not found.matches({"a": "3.5", "b": "x"})
    assert found.matches({"a": "3", "b": "x"})
    assert sql_filter("b = 'x' OR a > 5", NO_CODES).matches({"a": "3.5", "b": "x"})


@given(
    st.text(st.sampled_from("ab5'()=<>., \n-/*+NOTANDRIINULS"), max_size=60),
    st.dictionaries(st.sampled_from(["a", "b"]), st.text(max_size=8)),
)
def test_whatever_is_written_is_refused_by_name_or_answered(
    expression: str, properties: dict[str, str]
) -> None:
    try:
        found = sql_filter(expression, NO_CODES)
    except BodyError:
        return
    assert found.matches(properties) in {True, False}


def test_the_same_expression_is_read_once() -> None:
    filters = Filters()
    found = filters.of("SQL92", "a = 1")
    assert isinstance(found, SqlFilter)
    assert filters.of("SQL92", "a = 1") is found


def test_switched_off_it_refuses_also_what_it_has_read() -> None:
    allowed = True
    filters = Filters(with_sql=lambda: allowed)
    filters.of("SQL92", "a = 1")
    allowed = False
    for ask in (filters.of, filters.check):
        with pytest.raises(Refused, match="filter message by SQL92") as caught:
            ask("SQL92", "a = 1")
        assert caught.value.reason is Reason.FAILED
    filters.check("TAG", "a = 1")
    assert filters.of("TAG", "a")
