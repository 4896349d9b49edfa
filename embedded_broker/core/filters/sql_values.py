"""The values in a SQL92 expression: Java's conversions of text, and what is equal, less or greater.

Properties are text; the other side decides what a text is converted to, and a text that cannot be
fails the whole expression (`NoMatch`). The rules are those of ``ComparisonExpression.__compare``.
Must not know: operators. Read on: ``sql_terms.py``.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from enum import Enum, auto
from typing import Any, Final, TypeAlias

Value: TypeAlias = str | int | float | bool | None

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
DOUBLE_MIN: Final = 5e-324
DOUBLE_MAX: Final = 1.7976931348623157e308
_DIGITS_MAX: Final = 4_000
_CHAR_MAX: Final = "\uffff"
"""What lies above are two of Java's characters, and no digit."""
_integer: Final = re.compile(r"[+-]?\d++").fullmatch
"""Digits of any script, as ``Integer.valueOf`` takes them; those of doubles are ASCII."""
_double: Final = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?)",
    re.ASCII,
).fullmatch
"""A digit is looked at once, here and below: a long text that is no number takes no longer."""
_hex_double: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++[fFdD]?",
    re.ASCII,
).fullmatch
_TRIMMED: Final = "".join(map(chr, range(0x21)))
"""What Java's ``trim`` takes off."""


class SqlError(ValueError):
    """An expression that cannot be used; says what is wrong with it.

    The sentence is the original's where it has one. ``java_class`` is what it throws then, which
    clients see before the sentence.
    """

    def __init__(self, sentence: str, java_class: str = "") -> None:
        super().__init__(f"{java_class}: {sentence}" if java_class else sentence)


class NoMatch(Exception):  # noqa: N818 - no error: the message does not match
    """A value that cannot be converted; the message is passed over whatever else is true."""


class SqlType(Enum):
    """What a term is known to give before any message is seen."""

    INTEGER = auto()
    LONG = auto()
    DOUBLE = auto()
    TEXT = auto()
    TRUTH = auto()
    NULL = auto()


NUMBERS: Final = frozenset({SqlType.INTEGER, SqlType.LONG, SqlType.DOUBLE})


# --- comparing -----------------------------------------------------------------------------------

# Any, here and below: of which kind values are is known to who chooses the function.
Sign: TypeAlias = Callable[[Any, Any], int]
"""Negative, 0 or positive, as ``Comparable.compareTo``; raises `NoMatch`."""


def sign_for(left: SqlType, right: SqlType) -> Sign:
    """Give how values of two kinds are compared: ``ComparisonExpression.__compare``."""
    compare: Sign = _sign_of_doubles if SqlType.DOUBLE in {left, right} else _sign
    if left is right:
        return compare
    if left is SqlType.TRUTH and right is SqlType.TEXT:
        return _unreadable
    if SqlType.NULL in {left, right} or left is SqlType.TRUTH:
        return _never
    if left is SqlType.TEXT:
        read_left = _READERS[right]
        return lambda one, other: compare(read_left(one), other)
    if right is SqlType.TRUTH:
        return _never
    if right is SqlType.TEXT:
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


def sign_of_texts(one: str, other: str) -> int:
    """Compare two texts by size: as the numbers that they are."""
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


_READERS: Final[dict[SqlType, Callable[[str], Value]]] = {
    SqlType.INTEGER: _to_integer,
    SqlType.LONG: _to_long,
    SqlType.DOUBLE: _to_double,
    SqlType.TRUTH: _to_truth,
}


# --- names in errors -----------------------------------------------------------------------------


def literal(value: Value) -> str:
    """Name a literal as ``ConstantExpression`` does."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    named = plain(value)
    return named.upper() if value is None or isinstance(value, bool) else named


def no_number(text: str, *, is_double: bool = False) -> str:
    """Say as Java does that a text is no number."""
    text = text.strip(_TRIMMED) if is_double else text
    return f'For input string: "{text}"' if text or not is_double else "empty String"


def plain(value: Value) -> str:
    """Give Java's ``toString`` of a value."""
    if isinstance(value, float):
        return _java_double(value)
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _java_double(value: float) -> str:
    """Give Java's ``Double.toString`` of a number above 0: with an exponent from 10,000,000 on."""
    if 1e-3 <= value < 1e7:
        return repr(value)
    if value == DOUBLE_MIN:
        return "4.9E-324"  # two digits at least
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *others = map(str, digits)
    return f"{first}.{''.join(others) or '0'}E{int(exponent) + len(others)}"
