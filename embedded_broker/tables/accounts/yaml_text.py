"""How the YAML of an access control file becomes values, and values become such a file.

Answers: mappings and lists, in blocks and in brackets, quotes and comments: all that RocketMQ's
`plain_acl.yml` and the files that its tools write are made of. A scalar is text as it is written,
but for true, false and null: a secret of digits stays what it is. Anything else of YAML (anchors,
tags, texts of several lines, several documents) is refused with its line, never guessed. Must not
know: accounts.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from rocketmq_py.errors import ConfigError

DEPTH_MAX: Final = 16
_WORDS: Final[dict[str, bool | None]] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.|=%/-]*")
_REFUSED: Final = tuple("&*!|>@`%}?,]")
"""What a scalar cannot begin with unless it is quoted."""
_QUOTED: Final = r"""'(?:[^']|'')*'|"(?:[^"\\]|\\.)*\""""
_KEY: Final = re.compile(rf"""(?P<key>{_QUOTED}|[^\s"'#\[\]{{}}][^#]*?)\s*:(?:\s+(?P<rest>.*))?$""")
_COMMENT: Final = re.compile(rf"(?<![^\s\[{{,])(?:{_QUOTED})|(?P<comment>(?<!\S)#)|.")
"""One piece of a line after the other, until one is the beginning of a comment."""
_TOKEN: Final = re.compile(
    rf"""\s*(?:(?P<text>{_QUOTED}|[^\s"'\[\]{{}},:][^\[\]{{}},]*?)(?=\s*(?:[\[\]{{}},]|:\s|:?$))"""
    r"|(?P<mark>[\[\]{},:]))"
)
"""A piece of what stands in brackets: a scalar, or a mark."""


_CLOSING: Final = {"[": "]", "{": "}"}


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def read_yaml(text: str, source: str) -> Any:  # Any: a document, nobody has looked at it yet
    r"""Read a file; raises ``ConfigError`` with ``source`` and the line of what is not understood.

    >>> read_yaml("accounts:\n- accessKey: RocketMQ\n  admin: false\n", "acl.yml")
    {'accounts': [{'accessKey': 'RocketMQ', 'admin': False}]}
    """
    reader = _Reader(source, list(_lines(text, source)))
    value = reader.block(0, 0)
    reader.expect_end()
    return value


def write_yaml(value: Any) -> str:  # Any: what read_yaml gives
    """Write mappings, lists and scalars, each on its lines."""
    return "\n".join(_written(value, "")) + "\n"


def _lines(text: str, source: str) -> Iterator[_Line]:
    begun = ended = False
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = _without_comment(raw).rstrip()
        stripped = line.lstrip(" ")
        if not stripped or (line == "---" and not begun):
            continue
        if ended or line == "---":
            raise _error(source, number, "begins a second document")
        begun, ended = True, line == "..."
        if ended:
            continue
        if stripped[0] == "\t":
            raise _error(source, number, "is indented by a tab; use blanks")
        yield _Line(number, len(line) - len(stripped), stripped)


def _without_comment(line: str) -> str:
    for piece in _COMMENT.finditer(line):
        if piece["comment"]:
            return line[: piece.start()]
    return line


def _error(source: str, number: int, problem: str) -> ConfigError:
    return ConfigError("acl", f"{source} line {number}", f"it {problem}")


class _Reader:
    """Reads blocks; every block begins at its first line and ends before the next outer one."""

    def __init__(self, source: str, lines: list[_Line]) -> None:
        self._source = source
        self._lines = lines
        self._at = 0

    def expect_end(self) -> None:
        """Refuse lines that belong to no block."""
        if self._at < len(self._lines):
            line = self._lines[self._at]
            raise _error(self._source, line.number, "is not indented as the lines around it")

    def block(self, indent: int, depth: int) -> Any:
        """Read the list or mapping whose lines begin at least at ``indent``."""
        line = self._next(indent)
        if line is None:
            return None
        if depth > DEPTH_MAX:
            raise _error(self._source, line.number, f"is deeper than {DEPTH_MAX} levels")
        if line.text == "-" or line.text.startswith("- "):
            return self._list(line.indent, depth)
        if _KEY.match(line.text):
            return self._mapping(line.indent, depth)
        self._at += 1
        return self._scalar(line.text, line)

    def _next(self, indent: int) -> _Line | None:
        line = self._lines[self._at] if self._at < len(self._lines) else None
        return line if line is not None and line.indent >= indent else None

    def _list(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while (line := self._next(indent)) is not None and line.indent == indent:
            if line.text != "-" and not line.text.startswith("- "):
                break
            rest = line.text[1:].lstrip(" ")
            if rest:  # what follows the dash is the first line of a block of its own
                inner = indent + len(line.text) - len(rest)
                self._lines[self._at] = _Line(line.number, inner, rest)
                found.append(self.block(inner, depth + 1))
            else:
                self._at += 1
                found.append(self.block(indent + 1, depth + 1))
        return found

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (line := self._next(indent)) is not None and line.indent == indent:
            match = _KEY.match(line.text)
            if match is None or line.text.startswith("- "):
                break
            key, rest = self._key(match["key"], line, found), (match["rest"] or "").strip()
            self._at += 1
            found[key] = self._scalar(rest, line) if rest else self._value(indent, depth)
        return found

    def _value(self, indent: int, depth: int) -> Any:
        """Read what stands below a key: deeper lines, or a list at the key's own depth."""
        line = self._next(indent)
        if line is not None and line.indent == indent and (line.text + " ").startswith("- "):
            return self._list(indent, depth + 1)
        return self.block(indent + 1, depth + 1)

    def _key(self, text: str, line: _Line, found: dict[str, Any]) -> str:
        key = self._quoted(text, line) if text[0] in "\"'" else text
        if key in found:
            raise _error(self._source, line.number, f"says {key} a second time")
        return key

    def _scalar(self, text: str, line: _Line) -> Any:
        if text.startswith(tuple(_CLOSING)):
            return self._bracketed(text, line)
        if text[:1] in {'"', "'"}:
            return self._quoted(text, line)
        if text.startswith(_REFUSED):
            raise _error(self._source, line.number, f"has {text[0]!r}: put the value into quotes")
        if ": " in text or text == "-" or text.startswith("- "):
            raise _error(self._source, line.number, "has two things on it: put one into quotes")
        return _WORDS.get(text, text)

    def _quoted(self, text: str, line: _Line) -> str:
        if re.fullmatch(_QUOTED, text) is None:
            raise _error(self._source, line.number, "has a quote that does not end")
        if text[0] == "'":
            return text[1:-1].replace("''", "'")
        try:
            return str(json.loads(text))
        except ValueError:
            raise _error(self._source, line.number, "has a bad text in double quotes") from None

    # -- brackets -----------------------------------------------------------------------------

    def _bracketed(self, text: str, line: _Line) -> Any:
        """Read a list or mapping in brackets; it ends on its line or on a later one."""
        tokens: list[re.Match[str]] = []
        open_ones = 0
        while True:
            for token in self._tokens(text, line):
                tokens.append(token)
                open_ones += (token["mark"] in _CLOSING) - (token["mark"] in _CLOSING.values())
            if open_ones <= 0:
                break
            if self._at == len(self._lines):
                raise _error(self._source, line.number, "has a bracket that does not end")
            text, self._at = self._lines[self._at].text, self._at + 1
        pieces = iter(tokens)
        value = self._flow(next(pieces), pieces, line, 0)
        if next(pieces, None) is not None:
            raise _error(self._source, line.number, "has more behind its bracket")
        return value

    def _tokens(self, text: str, line: _Line) -> Iterator[re.Match[str]]:
        at = 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise _error(self._source, line.number, "has a quote that does not end")
            yield token
            at = token.end()

    def _flow(
        self, token: re.Match[str], pieces: Iterator[re.Match[str]], line: _Line, depth: int
    ) -> Any:
        mark = token["mark"]
        if mark is None:
            return self._scalar(token["text"], line)
        if mark not in _CLOSING or depth > DEPTH_MAX:
            raise self._bad_bracket(line)
        found: Any = [] if mark == "[" else {}
        while (first := next(pieces))["mark"] != _CLOSING[mark]:
            if mark == "[":
                found.append(self._flow(first, pieces, line, depth + 1))
            else:
                if first["text"] is None or next(pieces)["mark"] != ":":
                    raise self._bad_bracket(line)
                key = self._key(first["text"], line, found)
                found[key] = self._flow(next(pieces), pieces, line, depth + 1)
            behind = next(pieces)["mark"]
            if behind == _CLOSING[mark]:
                break
            if behind != ",":
                raise self._bad_bracket(line)
        return found

    def _bad_bracket(self, line: _Line) -> ConfigError:
        return _error(self._source, line.number, "has brackets that are no list and no mapping")


def _written(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict | list) and item:
                yield f"{indent}{_text(key)}:"
                yield from _written(item, indent + ("  " if isinstance(item, dict) else ""))
            else:
                yield f"{indent}{_text(key)}: {_text(item)}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            if isinstance(item, dict | list) and item:
                first, *rest = _written(item, indent + "  ")
                yield f"{indent}- {first.strip()}"
                yield from rest
            else:
                yield f"{indent}- {_text(item)}"
    else:
        yield indent + _text(value)


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value in ([], {}):
        return "[]" if value == [] else "{}"
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return str(value)
    return json.dumps(value)
