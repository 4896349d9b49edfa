"""What the parts of a SQL92 expression mean: three truths, and Java's conversions of text.

A part is a `Term`: what it gives for the properties of a message, and what its operators must know
beforehand. Properties are text; the other side decides what a text is converted to, and a text that
cannot be fails the whole expression (`NoMatch`). The rules, odd ones included, are those of the
original's ``ComparisonExpression``, ``LogicExpression``, ``UnaryExpression`` and
``ConstantExpression``. Must not know: how an expression is written, who asks. Read on:
``sql_parser.py``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from attrs import frozen

Properties: TypeAlias = Mapping[str, str]
Value: TypeAlias = str | int | float | bool | None
Give: TypeAlias = Callable[[Properties], Value]
Truth: TypeAlias = Callable[[Properties], bool | None]

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_DOUBLE_MIN: Final = 5e-324
_DIGITS_MAX: Final = 4_000
_CHAR_MAX: Final = "\uffff"
"""What lies above are two of Java's characters, and no digit."""
_integer: Final = re.compile(r"[+-]?\d+").fullmatch
"""Digits of any script, as ``Integer.valueOf`` takes them; those of doubles are ASCII."""
_double: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII
).fullmatch
_hex_double: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?", re.ASCII
).fullmatch
_TRIMMED: Final = "".join(map(chr, range(0x21)))
"""What Java's ``trim`` takes off."""


class SqlError(ValueError):
    """An expression that cannot be used; says what is wrong with it."""


class NoMatch(Exception):  # noqa: N818 - no error: the message does not match
    """A value that cannot be converted; the message is passed over whatever else is true."""


class Kind(Enum):
    """What a term is known to give before any message is seen."""

    INTEGER = auto()
    LONG = auto()
    DOUBLE = auto()
    TEXT = auto()
    TRUTH = auto()
    NULL = auto()


_NUMBERS: Final = frozenset({Kind.INTEGER, Kind.LONG, Kind.DOUBLE})


@frozen
class Term:
    """A part of an expression."""

    kind: Kind
    give: Give
    is_constant: bool = False
    """A literal: checked when the expression is made."""
    name: str | None = None
    """Of a property."""
    text: str = ""
    """How an error names it."""


# --- the simplest terms --------------------------------------------------------------------------


def property_of(name: str) -> Term:
    """Give the value of a property of the message: a text or nothing."""

    def give(properties: Properties) -> Value:
        return properties.get(name)

    return Term(Kind.TEXT, give, name=name, text=name)


def constant(kind: Kind, value: Value, text: str) -> Term:
    """Give always the same."""
    return Term(kind, lambda _: value, is_constant=True, text=text)


def whole_number(text: str) -> Term:
    """Make a number of digits, perhaps with an L behind them."""
    digits = text.rstrip("lL")
    value = int(digits) if len(digits) < 20 else LONG_MAX + 1
    if value > LONG_MAX:
        raise SqlError(f"{digits[:40]} is more than {LONG_MAX}, the largest number")
    return constant(Kind.INTEGER if value <= INT_MAX else Kind.LONG, value, digits)


def fraction(text: str) -> Term:
    """Make a number with a point or an exponent. 0.0 is refused, as by the original."""
    value = float(text)
    if not _DOUBLE_MIN <= value < float("inf"):
        raise SqlError(f"{text[:40]} is not between {_DOUBLE_MIN} and 1.8E308")
    return constant(Kind.DOUBLE, value, text)


def negated(term: Term) -> Term:
    """Give the number with the other sign; of what is no number, nothing.

    What is no number is asked all the same: it may fail the whole expression.
    """
    give, text = term.give, f"(- {term.text})"
    if term.kind in _NUMBERS:
        value = give({})
        changed = -value if isinstance(value, (int, float)) else None
        return Term(term.kind, lambda _: changed, text=text)

    def nothing(properties: Properties) -> Value:
        give(properties)
        return None

    return Term(Kind.NULL, nothing, text=text)


def truth_of(term: Term) -> Term:
    """Take a term as a condition: conditions are, and a property is never true."""
    if term.kind is Kind.TRUTH or (term.kind is Kind.NULL and term.is_constant):
        return term
    if term.name is None:
        raise SqlError(f"{term.text} is no condition")
    name = term.name
    return _condition(lambda properties: None if properties.get(name) is None else False, term.text)


def _condition(truth: Truth, text: str) -> Term:
    return Term(Kind.TRUTH, truth, text=text)


# --- conditions ----------------------------------------------------------------------------------


def not_(term: Term) -> Term:
    """Turn a condition round; what is unknown stays so."""
    give = truth_of(term).give

    def truth(properties: Properties) -> bool | None:
        value = give(properties)
        return None if value is None else not value

    return _condition(truth, f"(NOT {term.text})")


def all_of(terms: Sequence[Term]) -> Term:
    """Join conditions by AND: what stands behind a false one is not looked at."""
    gives = [truth_of(term).give for term in terms]

    def truth(properties: Properties) -> bool | None:
        known: bool | None = True
        for give in gives:
            value = give(properties)
            if value is None:
                known = None
            elif not value:
                return False
        return known

    return _condition(truth, " AND ".join([term.text for term in terms]))


def any_of(terms: Sequence[Term]) -> Term:
    """Join conditions by OR: what stands behind a true one is not looked at."""
    gives = [truth_of(term).give for term in terms]

    def truth(properties: Properties) -> bool | None:
        known: bool | None = False
        for give in gives:
            value = give(properties)
            if value is None:
                known = None
            elif value:
                return True
        return known

    return _condition(truth, " OR ".join([term.text for term in terms]))


def is_null(term: Term) -> Term:
    """Whether a term gives nothing; never unknown."""
    give = term.give
    return _condition(lambda properties: give(properties) is None, f"({term.text} IS NULL)")


def is_in(term: Term, texts: Sequence[str], *, inside: bool) -> Term:
    """Whether a property is one of some texts, or none of them; unknown without the property."""
    name, wanted = term.name, frozenset(texts)
    if name is None:
        raise SqlError(f"IN needs a property before it, {term.text} is none")

    def truth(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else (value in wanted) is inside

    return _condition(truth, f"({name} IN ...)")


_FINDS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
SEARCHES: Final = frozenset(_FINDS)
"""The operators that look for a text in a text."""


def finds(term: Term, operator: str, text: str, *, found: bool) -> Term:
    """Whether a text has another in it; false, and never unknown, where there is no text.

    That holds for the negated form, too, and where the text that is looked for is empty.
    """
    give, find = term.give, _FINDS[operator]

    def truth(properties: Properties) -> bool | None:
        value = give(properties) if text else None
        return isinstance(value, str) and find(value, text) is found

    return _condition(truth, f"({term.text} {operator} ...)")


# --- comparing -----------------------------------------------------------------------------------


def equal(left: Term, right: Term) -> Term:
    """Whether two terms give the same; unknown if only the first gives nothing."""
    for term in (left, right):
        if term.is_constant and term.kind is Kind.NULL:
            raise SqlError("NULL cannot be compared: say IS NULL")
    if left.is_constant and right.is_constant and left.kind is Kind.TRUTH is not right.kind:
        raise SqlError(f"{left.text} cannot be compared with {right.text}")
    give_left, give_right, sign = left.give, right.give, _sign_for(left.kind, right.kind)

    def truth(properties: Properties) -> bool | None:
        one, other = give_left(properties), give_right(properties)
        if one is None or other is None:
            return True if one is other else None if one is None else False
        return sign(one, other) == 0

    return _condition(truth, f"({left.text} = {right.text})")


_TESTS: Final[dict[str, Callable[[int], bool]]] = {
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
}
ORDERS: Final = frozenset(_TESTS)
"""The operators that compare by size."""


def ordered(left: Term, operator: str, right: Term) -> Term:
    """Compare by size; unknown where either side gives nothing."""
    for term in (left, right):
        if term.kind is Kind.TRUTH or (term.is_constant and term.kind not in _NUMBERS):
            raise SqlError(f"{term.text} cannot be compared by {operator}: it is no number")
    give_left, give_right, test = left.give, right.give, _TESTS[operator]
    both_text = left.kind is Kind.TEXT is right.kind
    sign: Sign = _sign_of_texts if both_text else _sign_for(left.kind, right.kind)

    def truth(properties: Properties) -> bool | None:
        one = give_left(properties)
        if one is None:
            return None
        other = give_right(properties)
        return None if other is None else test(sign(one, other))

    return _condition(truth, f"({left.text} {operator} {right.text})")


def between(term: Term, low: Term, high: Term, *, inside: bool) -> Term:
    """Whether a term lies between two others, or outside of them; the ends are inside."""
    if not inside:
        return any_of([ordered(term, "<", low), ordered(term, ">", high)])
    if low.is_constant and high.is_constant:
        if Kind.NULL in {low.kind, high.kind}:
            raise SqlError("the ends of BETWEEN cannot be NULL")
        try:
            is_empty = _sign_for(high.kind, low.kind)(high.give({}), low.give({})) < 0
        except NoMatch as error:
            raise SqlError(f"{low.text} and {high.text} cannot be compared") from error
        if is_empty:
            raise SqlError(f"BETWEEN needs the smaller end first, not {low.text} AND {high.text}")
    return all_of([ordered(term, ">=", low), ordered(term, "<=", high)])


# --- conversions ---------------------------------------------------------------------------------

# Any, here and below: of which kind values are is known to who chooses the function.
Sign: TypeAlias = Callable[[Any, Any], int]
"""Negative, 0 or positive, as ``Comparable.compareTo``; raises `NoMatch`."""


def _sign_for(left: Kind, right: Kind) -> Sign:
    """Give how values of two kinds are compared: ``ComparisonExpression.__compare``."""
    compare: Sign = _sign_of_doubles if Kind.DOUBLE in {left, right} else _sign
    if left is right:
        return compare
    if left is Kind.TRUTH and right is Kind.TEXT:
        return _unreadable
    if Kind.NULL in {left, right} or left is Kind.TRUTH:
        return _never
    if left is Kind.TEXT:
        read_left = _READERS[right]
        return lambda one, other: compare(read_left(one), other)
    if right is Kind.TRUTH:
        return _never
    if right is Kind.TEXT:
        read_right = _READERS[left]
        return lambda one, other: compare(one, read_right(other))
    if compare is _sign:
        return compare
    return lambda one, other: compare(float(one), float(other))


def _sign(one: Any, other: Any) -> int:
    return bool(one > other) - bool(one < other)


def _sign_of_doubles(one: float, other: float) -> int:
    """Compare as Java does: NaN is the greatest and equals itself, -0.0 is less than 0.0."""
    if one == other:
        return (str(other)[0] == "-") - (str(one)[0] == "-")
    if one != one or other != other:  # noqa: PLR0124 - that is what NaN is known by
        return (one != one) - (other != other)  # noqa: PLR0124
    return _sign(one, other)


def _sign_of_texts(one: str, other: str) -> int:
    return _sign_of_doubles(_to_double(one), _to_double(other))


def _never(_one: object, _other: object) -> int:
    """Compare what cannot be compared: the first counts as the smaller one."""
    return -1


def _unreadable(_one: object, _other: object) -> int:
    raise NoMatch


def _to_integer(text: str) -> int:
    return _whole(text, INT_MAX)


def _to_long(text: str) -> int:
    return _whole(text, LONG_MAX)


def _whole(text: str, most: int) -> int:
    if _integer(text) and len(text) < _DIGITS_MAX and max(text) <= _CHAR_MAX:
        number = int(text)
        if -most - 1 <= number <= most:
            return number
    raise NoMatch


def _to_double(text: str) -> float:
    trimmed = text.strip(_TRIMMED)
    if _double(trimmed):
        return float(trimmed if trimmed[-1] not in "fFdD" else trimmed[:-1])
    if _hex_double(trimmed):
        try:
            return float.fromhex(trimmed if trimmed[-1] not in "fFdD" else trimmed[:-1])
        except OverflowError:
            return float("-inf" if trimmed[0] == "-" else "inf")
    raise NoMatch


def _to_truth(text: str) -> bool:
    return text.lower() == "true"


_READERS: Final[dict[Kind, Callable[[str], Value]]] = {
    Kind.INTEGER: _to_integer,
    Kind.LONG: _to_long,
    Kind.DOUBLE: _to_double,
    Kind.TRUTH: _to_truth,
}
