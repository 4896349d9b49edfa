"""SQL92 expressions as filters: what is told of wrong ones, and their bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_broker.core.filters import Filters, SqlFilter
from embedded_broker.core.filters.sql import sql_filter
from embedded_broker.core.filters.sql_parser import LENGTH_MAX, NESTED_MAX
from embedded_broker.core.filters.sql_terms import STEPS_MAX
from embedded_broker.core.refusals import Reason, Refused
from rocketmq_py.errors import BodyError
from tests.golden.sql.make import WORDS

NO_CODES: frozenset[int] = frozenset()


BEGINNINGS = """Was expecting one of:
    "NOT" ...
    "TRUE" ...
    "FALSE" ...
    "NULL" ...
    <DECIMAL_LITERAL> ...
    <FLOATING_POINT_LITERAL> ...
    <STRING_LITERAL> ...
    <ID> ...
    "(" ...
    "-" ...
    "+" ...
    """
PARSER = "org.apache.rocketmq.filter.parser.ParseException: "
SCANNER = "org.apache.rocketmq.filter.parser.TokenMgrError: "
REFUSED = "java.lang.RuntimeException: "


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("", f'{PARSER}Encountered "<EOF>" at line 0, column 0.\n{BEGINNINGS}'),
        ("a = 1\n AND", f'{PARSER}Encountered "<EOF>" at line 2, column 4.\n{BEGINNINGS}'),
        ("a > AND", f'{PARSER}Encountered " "AND" "AND "" at line 1, column 5.\n{BEGINNINGS}'),
        ("a > '5'", f"{REFUSED}Value ''5'' cannot be compared."),
        (
            "a BETWEEN 9 AND 1",
            (
                f"{REFUSED}Illegal values of between, left value(9) must less than or equal to "
                "right value(1)"
            ),
        ),
        ("a = NULL", f"{REFUSED}'NULL' cannot be compared."),
        ("5 IN ('a')", f"{REFUSED}Expected a property for In expression, got: 5"),
        (
            "a = 9223372036854775808",
            'java.lang.NumberFormatException: For input string: "9223372036854775808"',
        ),
        ("a = 0.0", f"{REFUSED}0.0 is less than 4.9E-324"),
        ("a = 1e400", f"{REFUSED}1e400 is greater than 1.7976931348623157E308"),
        ("5", f"{PARSER}Expression will not result in a boolean value: 5"),
        (
            "NOT 2.5E10",
            f"{PARSER}Expression will not result in a boolean value: 2.5E10",
        ),
        (
            "a IN (5)",
            (
                f'{PARSER}Encountered " <DECIMAL_LITERAL> "5 "" at line 1, column 7.\n'
                "Was expecting:\n    <STRING_LITERAL> ...\n    "
            ),
        ),
        (
            "a = # b",
            f'{SCANNER}Lexical error at line 1, column 5.  Encountered: "#" (35), after : ""',
        ),
        (
            "a = 'x",
            f'{SCANNER}Lexical error at line 1, column 7.  Encountered: <EOF> after : "\\\'x"',
        ),
        (
            "a = /\U0001f600",
            (
                f'{SCANNER}Lexical error at line 1, column 6.  Encountered: "\\ud83d" (55357), '
                'after : "/"'
            ),
        ),
    ],
)
def test_a_wrong_expression_is_refused_in_the_words_of_the_original(
    expression: str, told: str
) -> None:
    with pytest.raises(BodyError) as caught:
        sql_filter(expression, NO_CODES)
    assert caught.value.reason == told


def test_an_expression_has_bounds_that_its_error_names() -> None:
    nested = "(" * NESTED_MAX + "a = 1" + ")" * NESTED_MAX
    with pytest.raises(BodyError, match=f"more than {NESTED_MAX} parentheses"):
        sql_filter(nested, NO_CODES)
    assert sql_filter(nested[1:-1], NO_CODES).matches({"a": "1"})
    for many in ("NOT " * 10_000 + "a", "- " * 10_000 + "a > 1", "(" * 10_000):
        with pytest.raises(BodyError, match="parentheses"):
            sql_filter(many, NO_CODES)
    for many in ("a" + " = a" * 10_000, "a" + " IS NULL" * 8_000, "a" + " CONTAINS 'x'" * 4_000):
        with pytest.raises(BodyError, match=f"more than {NESTED_MAX} comparisons in a row"):
            sql_filter(many, NO_CODES)
    assert sql_filter("a" + " IS NOT NULL" * NESTED_MAX, NO_CODES).matches({})
    long = "a = 1 OR " * 7_000 + "b = 2"
    assert len(long) < LENGTH_MAX
    assert sql_filter(long, NO_CODES).matches({"b": "2"})
    with pytest.raises(BodyError, match=f"at most {LENGTH_MAX}"):
        sql_filter("x" * (LENGTH_MAX + 1), NO_CODES)


@pytest.mark.parametrize(
    ("expression", "steps"),
    [
        ("TRUE", 1),
        ("a = 'x'", 3),
        ("1 < 2 AND 3 < 4", 7),
        ("NOT NOT (a IS NULL)", 4),
        ("a NOT CONTAINS ''", 2),
        ("a BETWEEN 1 AND 2", 7),  # which compares twice
        ("a NOT BETWEEN 1 AND 2", 7),
        (f"a = '{'x' * 1600}'", 103),
        (f"a IN ('{'x' * 800}', '{'y' * 800}')", 102),
    ],
)
def test_a_filter_knows_how_many_steps_it_takes_for_a_message(expression: str, steps: int) -> None:
    assert sql_filter(expression, NO_CODES).steps == steps


@pytest.mark.parametrize("inside", ["BETWEEN", "NOT BETWEEN"])
def test_an_expression_whose_steps_double_with_each_word_is_refused(inside: str) -> None:
    doubling = "1"
    for _ in range(NESTED_MAX // 2 - 1):
        doubling = f"-({doubling} {inside} 1 AND 2)"
    with pytest.raises(BodyError, match=rf"takes \d+ steps.*at most {STEPS_MAX}"):
        sql_filter(f"{doubling} IS NULL", NO_CODES)


def test_the_longest_expression_without_doubling_has_fewer_steps_than_are_allowed() -> None:
    for condition in ("1=1 OR ", "a BETWEEN 1 AND 2 OR ", "-a IS NULL OR "):
        many = (condition * LENGTH_MAX)[: LENGTH_MAX - 40].rpartition("OR")[0] + "OR TRUE"
        assert sql_filter(many, NO_CODES).steps < STEPS_MAX


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
    # What stands behind a minus is looked at, though a condition has no number.
    negated = sql_filter("- (a > 5) = b OR TRUE", NO_CODES)
    assert negated.matches({"a": "3"})
    assert not negated.matches({"a": "3.5"})


@given(
    st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)
    | st.text(st.sampled_from("ab5'()=<>., \n-/*+NOTANDRIINULS"), max_size=60),
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


@pytest.mark.parametrize("number", ["{}", "{}.{}", ".{}", "1e{}", "0x{}", "0x{}.{}p1", "0x.{}"])
@pytest.mark.parametrize("condition", ["a > 1.5", "a > b", "a = 1", "a = 3000000000"])
def test_a_text_of_a_million_digits_that_is_no_number_is_looked_at_once(
    condition: str, number: str
) -> None:
    """Each digit once: to look at all of them for each digit would take days."""
    digits = "1" * 1_000_000
    wanted = sql_filter(condition, NO_CODES)
    assert not wanted.matches({"a": number.format(digits, digits) + "x", "b": "1"})


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.", "1"), (".5", "0.5"), ("1.5e1f", "15"), ("0x1.8p1", "3"), ("0xFp0D", "15")],
)
def test_a_text_is_a_number_in_every_form_of_java(text: str, value: str) -> None:
    assert sql_filter("a >= b AND a <= b", NO_CODES).matches({"a": text, "b": value})
