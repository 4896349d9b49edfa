"""Parser of SQL92 expressions: what may follow what.

The grammar, low to high: OR; AND; ``=`` ``<>`` ``IS [NOT] NULL``; comparisons, ``[NOT] BETWEEN``,
``[NOT] IN``, ``[NOT] CONTAINS|STARTSWITH|ENDSWITH``; ``+ - NOT``; literals, properties,
parentheses. As the original's parser (``SelectorParser.jj``) this one stops where an expression
cannot go on, and what stands behind is not looked at: a parser made from a grammar would refuse
that. Must not know: what terms mean; that is ``sql_terms.py``. Read on: ``sql_words.py``.
"""

from collections.abc import Callable, Collection
from typing import Final

from embedded_broker.core.filters import sql_terms as terms
from embedded_broker.core.filters.sql_terms import Term
from embedded_broker.core.filters.sql_values import SqlError, SqlType
from embedded_broker.core.filters.sql_words import UnexpectedError, Word, Words, as_written

LENGTH_MAX: Final = 65_536
NESTED_MAX: Final = 64
"""Parentheses and signs inside each other, and comparisons of comparisons; each takes a handful of
calls when a message is looked at."""

_SEARCHES: Final = {"BETWEEN", "IN", *terms.SEARCHES}
_COMPARISONS: Final = {"NOT", *_SEARCHES, *terms.ORDERS}
_EQUALITIES: Final = {"=", "<>", "IS"}
_LITERALS: Final = {"TRUE", "FALSE", "NULL", "whole", "fraction", "text"}
_BEGINNINGS: Final = {"NOT", "-", "(", "name", *_LITERALS}


def parse(expression: str, *, with_searches: bool = True) -> Term:
    """Read a condition; raises `SqlError` with what is wrong and where.

    Without ``with_searches`` CONTAINS, STARTSWITH and ENDSWITH are names like any other.
    """
    if len(expression) > LENGTH_MAX:
        raise SqlError(f"the expression has {len(expression)} characters, at most {LENGTH_MAX}")
    return _Parser(Words(expression, with_searches=with_searches)).condition()


class _Parser:
    """One expression while it is read."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._at = 0
        self._nested = 0
        self._read: Word | None = None
        self._missed: set[str] = set()
        """What could have stood here, too."""

    def condition(self) -> Term:
        """Read the whole; what cannot go on is left."""
        return terms.truth_of(self._any())

    # --- words -----------------------------------------------------------------------------

    @property
    def _next(self) -> Word:
        if self._read is None:
            self._read = self._words.read(self._at)
        return self._read

    def _is(self, kinds: Collection[str]) -> bool:
        """Whether the next word is of one of these kinds; else an error will name them."""
        if self._next.kind in kinds:
            return True
        self._missed.update(kinds)
        return False

    def _take(self, *kinds: str) -> str:
        """Take the next word, which must be of one of these kinds if any, and give its text."""
        if kinds and not self._is(kinds):
            raise self._words.unexpected(self._next, self._missed)
        word = self._next
        self._at, self._read = word.end, None
        self._missed.clear()
        return word.text

    def _has(self, kind: str) -> bool:
        """Take the next word if it is of this kind."""
        if not self._is((kind,)):
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
            one = read()
            found[0] = terms.truth_of(found[0])
            found.append(terms.truth_of(one))
        return found[0] if len(found) == 1 else join(found)

    def _equality(self) -> Term:
        left, many = self._comparison(), 0
        while self._is(_EQUALITIES):
            many = self._deeper(many)
            operator = self._take().upper()
            if operator == "IS":
                left = self._is_null(left)
                continue
            left = terms.equal(left, self._comparison())
            if operator == "<>":
                left = terms.not_(left)
        return left

    def _is_null(self, left: Term) -> Term:
        negated = self._has("NOT")
        if not negated and not self._is({"NULL"}):
            raise self._words.unexpected(self._next, {"NOT"}, ["NULL"])
        self._take("NULL")
        return terms.not_(terms.is_null(left)) if negated else terms.is_null(left)

    def _comparison(self) -> Term:
        left, many = self._unary(), 0
        while self._is(_COMPARISONS):
            many = self._deeper(many)
            if self._next.kind in terms.ORDERS:
                left = terms.ordered(left, self._take(), self._unary())
            else:
                left = self._search(left)
        return left

    def _deeper(self, many: int) -> int:
        """Count how many stand in a row: each is inside the next one."""
        if many >= NESTED_MAX:
            raise SqlError(f"more than {NESTED_MAX} comparisons in a row")
        return many + 1

    def _search(self, left: Term) -> Term:
        first = self._next
        wanted = not self._has("NOT")
        if self._next.kind not in _SEARCHES:
            raise self._words.unexpected(first, _COMPARISONS - {"NOT"})
        operator = self._take().upper()
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
            match self._next.kind:
                case "+":
                    return self._plus()
                case "-":
                    self._take()
                    return terms.negated(self._unary())
                case "NOT":
                    self._take()
                    return terms.not_(self._unary())
            return self._primary()
        finally:
            self._nested -= 1

    def _plus(self) -> Term:
        """Read what stands behind a plus. The original looks first whether it can be read."""
        sign = self._next
        self._take()
        try:
            return self._unary()
        except UnexpectedError:
            raise self._words.unexpected(sign, _BEGINNINGS) from None

    def _primary(self) -> Term:
        word = self._next
        if word.kind not in _BEGINNINGS:
            raise self._words.unexpected(word, _BEGINNINGS, ["+"])
        if self._has("("):
            inner = self._any()
            self._take(")")
            return inner
        if word.kind == "text":
            return terms.constant(SqlType.TEXT, self._text())
        self._take()
        match word.kind:
            case "fraction":
                return terms.fraction(word.text)
            case "whole":
                return terms.whole_number(word.text)
            case "name":
                return terms.property_of(word.text)
            case "NULL":
                return terms.constant(SqlType.NULL, None)
        return terms.constant(SqlType.TRUTH, word.kind == "TRUE")

    def _text(self) -> str:
        return as_written(self._take("text")[1:-1].replace("''", "'"))
