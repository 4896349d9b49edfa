"""How a SQL92 expression is written: words, and what may follow what.

The grammar, low to high: OR; AND; ``=`` ``<>`` ``IS [NOT] NULL``; comparisons, ``[NOT] BETWEEN``,
``[NOT] IN``, ``[NOT] CONTAINS|STARTSWITH|ENDSWITH``; ``+ - NOT``; literals, properties,
parentheses. As the original's parser (``SelectorParser.jj``) this one stops where an expression
cannot go on, and what stands behind is not looked at: a parser made from a grammar would refuse
that. Must not know: what terms mean; that is ``sql_terms.py``.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from embedded_broker.core.filters import sql_terms as terms
from embedded_broker.core.filters.sql_terms import Kind, SqlError, Term

LENGTH_MAX: Final = 65_536
NESTED_MAX: Final = 64
"""Parentheses and signs inside each other; each takes a handful of calls."""

_KEYWORDS: Final = {
    "NOT",
    "AND",
    "OR",
    "BETWEEN",
    "IN",
    "TRUE",
    "FALSE",
    "NULL",
    "IS",
    *terms.SEARCHES,
}
_gap: Final = re.compile(
    r"(?:[ \t\n\r\f]|--[^\n\r]*(?:\r\n|\n|\r)|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)*"
).match
_word: Final = re.compile(
    r"(?P<text>'(?:''|[^'])*')"
    r"|(?P<fraction>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?"
    r"|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<whole>0|[1-9][0-9]*[lL]?)"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<sign><>|>=|<=|[=<>(),+\-])"
).match


class _Word(NamedTuple):
    """One word; ``kind`` of a keyword or sign is itself, in capital letters."""

    kind: str
    text: str
    at: int


def parse(expression: str) -> Term:
    """Read a condition; raises `SqlError` with what is wrong and where."""
    if len(expression) > LENGTH_MAX:
        raise SqlError(f"the expression has {len(expression)} characters, at most {LENGTH_MAX}")
    return _Parser(expression).condition()


class _Parser:
    """One expression while it is read."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._at = 0
        self._nested = 0
        self._next: _Word | None = None

    def condition(self) -> Term:
        """Read the whole; what cannot go on is left."""
        return terms.truth_of(self._any())

    # --- words -----------------------------------------------------------------------------

    def _peek(self) -> _Word:
        if self._next is None:
            self._next = self._read()
        return self._next

    @property
    def _kind(self) -> str:
        """The kind of the next word."""
        return self._peek().kind

    def _read(self) -> _Word:
        text = self._expression
        gap = _gap(text, self._at)
        at = self._at if gap is None else gap.end()
        if at == len(text):
            return _Word("END", "the end", at)
        found = _word(text, at)
        if found is None:
            raise SqlError(f"{text[at : at + 20]!r} at {at} is nothing that SQL92 knows")
        self._at = found.end()
        kind, word = found.lastgroup or "", found[0]
        if kind == "name" and word.upper() in _KEYWORDS:
            kind = word.upper()
        elif kind == "sign":
            kind = word
        return _Word(kind, word, at)

    def _take(self, *kinds: str) -> str:
        """Take the next word, which must be of one of these kinds, and give its text."""
        word = self._peek()
        if kinds and word.kind not in kinds:
            raise SqlError(f"{word.text[:40]} at {word.at}: {' or '.join(kinds)} must stand there")
        self._next = None
        return word.text

    def _has(self, kind: str) -> bool:
        """Take the next word if it is of this kind."""
        if self._kind != kind:
            return False
        self._take()
        return True

    # --- expressions -----------------------------------------------------------------------

    def _any(self) -> Term:
        return self._joined("OR", self._all, terms.any_of)

    def _all(self) -> Term:
        return self._joined("AND", self._equality, terms.all_of)

    def _joined(
        self, word: str, read: Callable[[], Term], join: Callable[[list[Term]], Term]
    ) -> Term:
        found = [read()]
        while self._has(word):
            found.append(read())
        return found[0] if len(found) == 1 else join(found)

    def _equality(self) -> Term:
        left = self._comparison()
        while self._kind in {"=", "<>", "IS"}:
            operator = self._take()
            if operator == "=":
                left = terms.equal(left, self._comparison())
            elif operator == "<>":
                left = terms.not_(terms.equal(left, self._comparison()))
            else:
                negated = self._has("NOT")
                self._take("NULL")
                left = terms.is_null(left)
                left = terms.not_(left) if negated else left
        return left

    def _comparison(self) -> Term:
        left = self._unary()
        while True:
            if self._kind in terms.ORDERS:
                left = terms.ordered(left, self._take(), self._unary())
            elif self._kind in {"NOT", "BETWEEN", "IN", *terms.SEARCHES}:
                left = self._search(left, wanted=not self._has("NOT"))
            else:
                return left

    def _search(self, left: Term, *, wanted: bool) -> Term:
        operator = self._take("BETWEEN", "IN", *sorted(terms.SEARCHES)).upper()
        if operator == "BETWEEN":
            low = self._unary()
            self._take("AND")
            return terms.between(left, low, self._unary(), inside=wanted)
        if operator == "IN":
            self._take("(")
            texts = [self._text()]
            while self._has(","):
                texts.append(self._text())
            self._take(")")
            return terms.is_in(left, texts, inside=wanted)
        return terms.finds(left, operator, self._text(), found=wanted)

    def _unary(self) -> Term:
        self._nested += 1
        if self._nested > NESTED_MAX:
            raise SqlError(f"more than {NESTED_MAX} parentheses and signs inside each other")
        try:
            if self._has("+"):
                return self._unary()
            if self._has("-"):
                return terms.negated(self._unary())
            if self._has("NOT"):
                return terms.not_(self._unary())
            return self._primary()
        finally:
            self._nested -= 1

    def _primary(self) -> Term:
        if self._has("("):
            inner = self._any()
            self._take(")")
            return inner
        kind = self._kind
        if kind == "text":
            text = self._text()
            return terms.constant(Kind.TEXT, text, repr(text))
        word = self._take("text", "fraction", "whole", "name", "TRUE", "FALSE", "NULL")
        match kind:
            case "fraction":
                return terms.fraction(word)
            case "whole":
                return terms.whole_number(word)
            case "name":
                return terms.property_of(word)
            case "NULL":
                return terms.constant(Kind.NULL, None, kind)
        return terms.constant(Kind.TRUTH, kind == "TRUE", kind)

    def _text(self) -> str:
        return self._take("text")[1:-1].replace("''", "'")
