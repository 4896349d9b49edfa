"""Tokens of SQL92 expressions: where they stand, and how an unexpected one is told.

Lines, columns and texts are those of the original's scanner and parser, whose errors clients see in
the answer to request 46. Characters are counted as Java's: an emoji is two of them. Must not know:
which words may follow which. Read on: ``sql_parser.py``.
"""

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from embedded_broker.core.filters.sql_values import SqlError

_KEYWORDS: Final = ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS")
_SEARCHES: Final = ("CONTAINS", "STARTSWITH", "ENDSWITH")
_KINDS: Final = {"whole": "DECIMAL_LITERAL", "fraction": "FLOATING_POINT_LITERAL"} | {
    "text": "STRING_LITERAL",
    "name": "ID",
}
_SIGNS: Final = ("=", "<>", ">", ">=", "<", "<=", "(", ",", ")", "+", "-")
_IMAGES: Final = (
    {word: f'"{word}"' for word in (*_KEYWORDS, *_SEARCHES)}
    | {kind: f"<{image}>" for kind, image in _KINDS.items()}
    | {sign: f'"{sign}"' for sign in _SIGNS}
)
"""How errors name the kinds of words, in the order in which they list them."""
END: Final = "<EOF>"

_TAB: Final = 8
_LAST_OF_ONE: Final = "\uffff"
_ESCAPES: Final = {
    char: "\\" + letter for char, letter in zip("\b\t\n\f\r\"'\\", "btnfr\"'\\", strict=True)
} | {"\0": ""}
_SCANNER: Final = "org.apache.rocketmq.filter.parser.TokenMgrError"
_PARSER: Final = "org.apache.rocketmq.filter.parser.ParseException"

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


class Word(NamedTuple):
    """One word; ``kind`` of a keyword or sign is itself, in capital letters."""

    kind: str
    text: str
    at: int
    end: int


class UnexpectedError(SqlError):
    """A word stands where it cannot."""


class Words:
    """The words of one expression.

    Without ``with_searches`` they are those of 4.9: three keywords are names, and errors do not
    list what its parser has looked for ahead.
    """

    def __init__(self, expression: str, *, with_searches: bool = True) -> None:
        self._text = _as_java_counts(expression)
        self._names = () if with_searches else _SEARCHES

    def read(self, begin: int) -> Word:
        """Give the first word that begins there or behind; raises `SqlError` where none can be."""
        text = self._text
        gap = _gap(text, begin)
        at = begin if gap is None else gap.end()
        if at == len(text):
            return Word(END, "", at, at)
        found = _word(text, at)
        if found is None:
            raise SqlError(self._unreadable(at), _SCANNER)
        kind, word = found.lastgroup or "", found[0]
        if kind == "sign" or (kind == "name" and self._is_keyword(word.upper())):
            kind = word.upper()
        return Word(kind, word, at, found.end())

    def _is_keyword(self, word: str) -> bool:
        return word in _IMAGES and word not in self._names

    def unexpected(
        self, word: Word, wanted: Collection[str], last: Collection[str] = ()
    ) -> UnexpectedError:
        """Tell that a word stands where others must; those of ``last`` are listed behind."""
        met = END
        if word.kind != END:
            met = f' {_IMAGES[word.kind]} "{_escaped(word.text)} "'
        line, column = self._place(min(word.at, len(self._text) - 1))
        known = (kind for kind in _IMAGES if kind not in self._names)
        kinds = [kind for kind in known if kind in wanted] + ([] if self._names else list(last))
        listed = "".join(f"{_IMAGES[kind]} ...\n    " for kind in kinds)
        return UnexpectedError(
            f'Encountered "{met}" at line {line}, column {column}.\n'
            f"Was expecting{'' if len(kinds) == 1 else ' one of'}:\n    {listed}",
            _PARSER,
        )

    def _unreadable(self, at: int) -> str:
        """Tell of characters that no word begins with, as far as they were looked at."""
        text = self._text
        if text[at] == "'" or text.startswith("/*", at):
            last = len(text) - 1
        else:
            last = min(at + (text[at] in "/."), len(text) - 1)
        line, column = self._place(last)
        if last == len(text) - 1:
            met, after = f"{END} ", text[at:]
            line, column = (line + 1, 0) if text[last] in "\r\n" else (line, column + 1)
            if len(after) == 1:
                after = ""
        else:
            met, after = f'"{_escaped(text[last])}" ({ord(text[last])}), ', text[at:last]
        return (
            f"Lexical error at line {line}, column {column}.  Encountered: {met}"
            f'after : "{_escaped(after)}"'
        )

    def _place(self, at: int) -> tuple[int, int]:
        """Give line and column of a character, from 1 on; a tab goes on to the next eighth."""
        line = column = 0
        before = "\n"
        for char in self._text[: at + 1]:
            column += 1
            if before == "\n" or (before == "\r" and char != "\n"):
                line, column = line + 1, 1
            if char == "\t":
                column += _TAB - 1 - (column - 1) % _TAB
            before = char
        return line, column


def _as_java_counts(text: str) -> str:
    """Give a text in which each character is one of Java's."""
    if not text or max(text) <= _LAST_OF_ONE:
        return text
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    return "".join(map(chr, units))


def as_written(text: str) -> str:
    """Give a text of `Words` as properties hold it."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _escaped(text: str) -> str:
    return "".join(
        _ESCAPES.get(char, char if " " <= char <= "~" else f"\\u{ord(char):04x}") for char in text
    )
