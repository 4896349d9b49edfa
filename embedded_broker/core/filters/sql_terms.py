"""Terms of SQL92 expressions: which constants are taken, and what operators say of their operands.

A part is a `Term`: what it gives for the properties of a message, and what its operators must know
beforehand. What is neither true nor false is unknown. The rules, odd ones included, are those of
the original's ``ComparisonExpression``, ``LogicExpression``, ``UnaryExpression`` and
``ConstantExpression``; so are the sentences of errors. Must not know: how an expression is written,
who asks. Read on: ``sql_parser.py``, and ``sql_values.py`` for how values are compared.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from attrs import frozen

from embedded_broker.core.filters.sql_values import (
    DOUBLE_MAX,
    DOUBLE_MIN,
    INT_MAX,
    LONG_MAX,
    NUMBERS,
    NoMatch,
    Sign,
    SqlError,
    SqlType,
    Value,
    literal,
    no_number,
    plain,
    sign_for,
    sign_of_texts,
)
from rocketmq_py.protocol.tag_hash import java_hash

Properties: TypeAlias = Mapping[str, str]
Give: TypeAlias = Callable[[Properties], Value]
Truth: TypeAlias = Callable[[Properties], bool | None]
Show: TypeAlias = Callable[[], str]

_REFUSED: Final = "java.lang.RuntimeException"
_NO_NUMBER: Final = "java.lang.NumberFormatException"
_NO_CAST: Final = (
    "class java.lang.Boolean cannot be cast to class java.lang.String (java.lang.Boolean and "
    "java.lang.String are in module java.base of loader 'bootstrap')"
)
_NO_CONDITION: Final = "org.apache.rocketmq.filter.parser.ParseException"

STEPS_MAX: Final = 65_536
"""Steps of one expression: more than the longest one has, unless BETWEEN is nested in BETWEEN.

BETWEEN compares its first operand twice, so each level of nesting doubles what is evaluated.
"""
_CHARS_OF_A_STEP: Final = 16
"""So many characters of a literal or a name count as one more step."""


@frozen
class Term:
    """A part of an expression."""

    kind: SqlType
    give: Give
    steps: int
    """How many terms are evaluated for a message at most, this one included."""
    is_constant: bool = False
    """A literal: checked when the expression is made."""
    name: str | None = None
    """Of a property."""
    show: Show = str
    """How an error names it: asked for then only, for it grows with the expression."""

    def __attrs_post_init__(self) -> None:
        """Refuse a part that is too much to evaluate for each message, and to show."""
        if self.steps > STEPS_MAX:
            raise SqlError(
                f"the expression takes {self.steps} steps for each message, at most {STEPS_MAX}: "
                "BETWEEN inside of BETWEEN doubles them"
            )


# --- the simplest terms --------------------------------------------------------------------------


def property_of(name: str) -> Term:
    """Give the value of a property of the message: a text or nothing."""

    def give(properties: Properties) -> Value:
        return properties.get(name)

    return Term(SqlType.TEXT, give, _steps_of(name), name=name, show=lambda: name)


def constant(kind: SqlType, value: Value) -> Term:
    """Give always the same."""
    steps = _steps_of(value) if isinstance(value, str) else 1
    return Term(kind, lambda _: value, steps, is_constant=True, show=lambda: literal(value))


def _steps_of(*texts: str) -> int:
    """Count a term that looks at some texts."""
    return 1 + sum(map(len, texts)) // _CHARS_OF_A_STEP


def whole_number(text: str) -> Term:
    """Make a number of digits, perhaps with an L behind them."""
    digits = text.rstrip("lL")
    value = int(digits) if len(digits) < 20 else LONG_MAX + 1
    if value > LONG_MAX:
        raise SqlError(no_number(digits), _NO_NUMBER)
    return constant(SqlType.INTEGER if value <= INT_MAX else SqlType.LONG, value)


def fraction(text: str) -> Term:
    """Make a number with a point or an exponent. 0.0 is refused, as by the original."""
    value = float(text)
    if value > DOUBLE_MAX:
        raise SqlError(f"{text} is greater than {plain(DOUBLE_MAX)}", _REFUSED)
    if value < DOUBLE_MIN:
        raise SqlError(f"{text} is less than {plain(DOUBLE_MIN)}", _REFUSED)
    return constant(SqlType.DOUBLE, value)


def negated(term: Term) -> Term:
    """Give the number with the other sign; of what is no number, nothing.

    What is no number is asked all the same: it may fail the whole expression.
    """
    give, show = term.give, _wrapped("- ", term)
    if term.kind in NUMBERS:
        value = give({})
        changed = -value if isinstance(value, (int, float)) else None
        return Term(term.kind, lambda _: changed, 1, show=show)

    def nothing(properties: Properties) -> Value:
        give(properties)
        return None

    return Term(SqlType.NULL, nothing, 1 + term.steps, show=show)


def truth_of(term: Term) -> Term:
    """Take a term as a condition: conditions are, and a property is never true."""
    if term.kind is SqlType.TRUTH or (term.kind is SqlType.NULL and term.is_constant):
        return term
    if term.name is None:
        raise SqlError(
            f"Expression will not result in a boolean value: {term.show()}", _NO_CONDITION
        )
    name = term.name
    return _condition(
        lambda properties: None if properties.get(name) is None else False, term.show, term
    )


def _condition(truth: Truth, show: Show, *parts: Term) -> Term:
    """Make a condition that evaluates each of its parts once at most."""
    return Term(SqlType.TRUTH, truth, 1 + sum(part.steps for part in parts), show=show)


def _wrapped(sign: str, term: Term) -> Show:
    return lambda: f"({sign}{term.show()})"


def _joined(sign: str, terms: Sequence[Term]) -> Show:
    """Name terms that are joined two by two, the first ones innermost."""

    def show() -> str:
        first, *others = [term.show() for term in terms]
        return "(" * len(others) + first + "".join(f" {sign} {other})" for other in others)

    return show


# --- conditions ----------------------------------------------------------------------------------


def not_(term: Term) -> Term:
    """Turn a condition round; what is unknown stays so."""
    term = truth_of(term)
    give = term.give

    def truth(properties: Properties) -> bool | None:
        value = give(properties)
        return None if value is None else not value

    return _condition(truth, _wrapped("NOT ", term), term)


def all_of(terms: Sequence[Term]) -> Term:
    """Join conditions by AND: what stands behind a false one is not looked at."""
    terms = [truth_of(term) for term in terms]
    gives = [term.give for term in terms]

    def truth(properties: Properties) -> bool | None:
        known: bool | None = True
        for give in gives:
            value = give(properties)
            if value is None:
                known = None
            elif not value:
                return False
        return known

    return _condition(truth, _joined("&&", terms), *terms)


def any_of(terms: Sequence[Term]) -> Term:
    """Join conditions by OR: what stands behind a true one is not looked at."""
    terms = [truth_of(term) for term in terms]
    gives = [term.give for term in terms]

    def truth(properties: Properties) -> bool | None:
        known: bool | None = False
        for give in gives:
            value = give(properties)
            if value is None:
                known = None
            elif value:
                return True
        return known

    return _condition(truth, _joined("||", terms), *terms)


def is_null(term: Term) -> Term:
    """Whether a term gives nothing; never unknown."""
    give = term.give
    return _condition(
        lambda properties: give(properties) is None, lambda: f"({term.show()} == NULL)", term
    )


def is_in(term: Term, texts: Sequence[str], *, inside: bool) -> Term:
    """Whether a property is one of some texts, or none of them; unknown without the property."""
    name, wanted = term.name, frozenset(texts)
    if name is None:
        raise SqlError(f"Expected a property for In expression, got: {term.show()}", _REFUSED)

    def truth(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else (value in wanted) is inside

    show = _listed(f"{name} {'IN' if inside else 'NOT IN'}", texts)
    return Term(SqlType.TRUTH, truth, term.steps + _steps_of(*texts), show=show)


def _listed(operator: str, texts: Sequence[str]) -> Show:
    """Name a list of texts; the original keeps five and more in a ``HashSet``, in its order."""

    def show() -> str:
        told = list(texts)
        if len(told) >= 5:
            places = 1 << max(int(len(told) / 0.75), 15).bit_length()
            told = sorted(dict.fromkeys(told), key=lambda text: _spread(text) % places)
        return f"{operator} ( {', '.join(told)} )"

    return show


def _spread(text: str) -> int:
    """Give the hash by which a ``HashMap`` places a text."""
    code = java_hash(text) & 0xFFFFFFFF
    return code ^ code >> 16


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

    show = _wrapped(f"{'' if found else 'NOT '}{operator} ", term)
    return Term(SqlType.TRUTH, truth, term.steps + _steps_of(text), show=show)


# --- comparing -----------------------------------------------------------------------------------


def equal(left: Term, right: Term) -> Term:
    """Whether two terms give the same; unknown if only the first gives nothing."""
    for term in (left, right):
        if term.is_constant and term.kind is SqlType.NULL:
            raise SqlError("'NULL' cannot be compared.", _REFUSED)
    if left.is_constant and right.is_constant and left.kind is SqlType.TRUTH is not right.kind:
        raise SqlError(f"'{left.show()}' cannot be compared with '{right.show()}'", _REFUSED)
    give_left, give_right, sign = left.give, right.give, sign_for(left.kind, right.kind)

    def truth(properties: Properties) -> bool | None:
        one, other = give_left(properties), give_right(properties)
        if one is None or other is None:
            return True if one is other else None if one is None else False
        return sign(one, other) == 0

    return _condition(truth, _joined("==", [left, right]), left, right)


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
        if term.kind is SqlType.TRUTH or (term.is_constant and term.kind not in NUMBERS):
            raise SqlError(f"Value '{term.show()}' cannot be compared.", _REFUSED)
    give_left, give_right, test = left.give, right.give, _TESTS[operator]
    both_text = left.kind is SqlType.TEXT is right.kind
    sign: Sign = sign_of_texts if both_text else sign_for(left.kind, right.kind)

    def truth(properties: Properties) -> bool | None:
        one = give_left(properties)
        if one is None:
            return None
        other = give_right(properties)
        return None if other is None else test(sign(one, other))

    return _condition(truth, _joined(operator, [left, right]), left, right)


def between(term: Term, low: Term, high: Term, *, inside: bool) -> Term:
    """Whether a term lies between two others, or outside of them; the ends are inside."""
    if not inside:
        return any_of([ordered(term, "<", low), ordered(term, ">", high)])
    if low.is_constant and high.is_constant:
        _check_ends(low, high)
    return all_of([ordered(term, ">=", low), ordered(term, "<=", high)])


def _check_ends(low: Term, high: Term) -> None:
    """Refuse two literals between which nothing lies, or which cannot be compared."""
    if SqlType.NULL in {low.kind, high.kind}:
        raise SqlError("Illegal values of between, values can not be null!", _REFUSED)
    least, most = low.give({}), high.give({})
    try:
        is_empty = sign_for(high.kind, low.kind)(most, least) < 0
    except NoMatch as error:
        if high.kind is SqlType.TRUTH:
            raise SqlError(_NO_CAST, "java.lang.ClassCastException") from error
        text = str(least if low.kind is SqlType.TEXT else most)
        is_double = SqlType.DOUBLE in {low.kind, high.kind}
        raise SqlError(f"{_NO_NUMBER}: {no_number(text, is_double=is_double)}", _REFUSED) from error
    if is_empty:
        raise SqlError(
            f"Illegal values of between, left value({plain(least)}) must less than or equal to "
            f"right value({plain(most)})",
            _REFUSED,
        )
