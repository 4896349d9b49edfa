"""How the server's JSON dialect is read and written: bare keys, objects as keys.

Java's fastjson writes maps with number keys as ``{0:5}`` and maps with object keys as
``{{"queueId":0}:5}``, on the wire and in ``config/*.json``. One tolerant reader takes these, their
quoted forms and strict JSON alike; one emitter writes exactly what Java writes, or the quoted form.
Must not know what a document means: that is `bodies`. Strict JSON is in `json_text`.
"""

from typing import Any, Final, Literal

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.json_text import dumps, loads

Dialect = Literal["fastjson", "standard"]

ObjectKey = tuple[tuple[str, object], ...]
"""An object that is a key: its fields as pairs, ordered by name."""

DEPTH_MAX: Final = 64
"""How deep the tolerant reader follows nested values."""

_SPACE: Final = " \t\r\n"
_FLAT: Final = frozenset({str, int, float, bool})
_NUMBER: Final = frozenset("+-.0123456789Ee")
_LITERALS: Final[tuple[tuple[str, object], ...]] = (
    ("true", True),
    ("false", False),
    ("null", None),
)


# Any: a document can hold anything until `bodies` has looked at it.
def loads_lenient(source: bytes | str) -> Any:
    """Read a document; raises `BodyError` with the offset in characters.

    A bare integer key reads as its text, so quoted and bare tables come out equal. A key that is
    an object reads as an `ObjectKey`.

    >>> loads_lenient(b'{0:"a"}') == loads_lenient(b'{"0":"a"}')
    True
    >>> loads_lenient(b'{{"topic":"T","queueId":0}:7}')
    {(('queueId', 0), ('topic', 'T')): 7}
    """
    try:
        return loads(source)
    except ValueError:
        pass
    try:
        text = source.decode() if isinstance(source, bytes) else source
    except UnicodeDecodeError as error:
        raise BodyError("JSON", "is not UTF-8", error.start) from error
    return _Reader(text).document()


class _Reader:
    """Reads one text from the left; `at` is the next character."""

    __slots__ = ("at", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> Any:
        value = self.value(0)
        if self.peek():
            raise self.error("text behind the end of the document")
        return value

    def error(self, reason: str) -> BodyError:
        return BodyError("JSON", reason, self.at)

    def peek(self) -> str:
        """Skip blanks; give the next character, or an empty text at the end."""
        text = self.text
        at = self.at
        while at < len(text) and text[at] in _SPACE:
            at += 1
        self.at = at
        return text[at : at + 1]

    def take(self, wanted: str) -> None:
        if self.peek() != wanted:
            raise self.error(f"{wanted!r} expected")
        self.at += 1

    def value(self, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise self.error(f"nested deeper than {DEPTH_MAX}")
        first = self.peek()
        if first == "{":
            return self.mapping(depth)
        if first == "[":
            return self.array(depth)
        if first == '"':
            return self.string()
        for word, meaning in _LITERALS:
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return meaning
        return self.strict(self.number_text())

    def mapping(self, depth: int) -> dict[Any, Any]:
        self.take("{")
        entries: dict[Any, Any] = {}
        if self.peek() == "}":
            self.at += 1
            return entries
        while True:
            key = self.key(depth)
            self.take(":")
            entries[key] = self.value(depth + 1)
            if self.peek() == "}":
                self.at += 1
                return entries
            self.take(",")

    def key(self, depth: int) -> str | ObjectKey:
        first = self.peek()
        if first == '"':
            return self.string()
        if first == "{":
            pairs = self.value(depth + 1).items()
            if any(type(name) is not str for name, _ in pairs) or any(
                isinstance(value, (dict, list)) for _, value in pairs
            ):
                raise self.error("an object that is a key may hold plain values only")
            return tuple(sorted(pairs, key=lambda pair: pair[0]))
        digits = self.number_text()
        if type(self.strict(digits)) is not int:
            raise self.error("a bare key must be an integer")
        return digits

    def array(self, depth: int) -> list[Any]:
        self.take("[")
        items: list[Any] = []
        if self.peek() == "]":
            self.at += 1
            return items
        while True:
            items.append(self.value(depth + 1))
            if self.peek() == "]":
                self.at += 1
                return items
            self.take(",")

    def string(self) -> str:
        text = self.text
        start = self.at
        end = start + 1
        while True:
            end = text.find('"', end)
            if end < 0:
                raise self.error("a text has no end")
            before = end - 1
            while text[before] == "\\":
                before -= 1
            if (end - before) % 2:  # an even number of backslashes escapes only themselves
                break
            end += 1
        self.at = end + 1
        inner = text[start + 1 : end]
        return str(self.strict(text[start : end + 1])) if "\\" in inner else inner

    def number_text(self) -> str:
        text = self.text
        start = end = self.at
        while end < len(text) and text[end] in _NUMBER:
            end += 1
        if end == start:
            raise self.error("a value expected")
        self.at = end
        return text[start:end]

    def strict(self, piece: str) -> Any:
        try:
            return loads(piece)
        except ValueError as error:
            raise self.error(f"cannot be read: {error}") from error


def dumps_fastjson(
    value: object, *, dialect: Dialect = "fastjson", pretty: bool = False, depth: int = 0
) -> bytes:
    """Write a document as Java does: names in order, None left out of objects.

    Integer keys and `ObjectKey` keys are bare in the dialect ``fastjson``; in ``standard`` they are
    quoted, and text beyond ASCII is escaped. `pretty` is the tab-indented form of ``config/*.json``
    (``JSON.toJSONString(.., true)``), where entries under number keys stay on one line; `depth` is
    how deep the value stands in such a file.

    >>> dumps_fastjson({"offsetTable": {3: 202, 4: 2}})
    b'{"offsetTable":{3:202,4:2}}'
    >>> dumps_fastjson({"offsetTable": {3: 202, 4: 2}}, dialect="standard")
    b'{"offsetTable":{"3":202,"4":2}}'
    """
    writer = _Writer(quoted=dialect == "standard", pretty=pretty)
    writer.value(value, depth)
    return "".join(writer.parts).encode()


def _is_flat(entries: dict[Any, Any]) -> bool:
    """Whether the JSON library writes it as Java does: plain values under plain names.

    Names of letters and digits are in the same order with and without their quotes.
    """
    if not _FLAT.issuperset(map(type, entries.values())) or {*map(type, entries)} != {str}:
        return False
    names = "".join(entries)
    return names.isascii() and names.isalnum()


class _Writer:
    """Collects the pieces of one text."""

    __slots__ = ("parts", "pretty", "quoted")

    def __init__(self, *, quoted: bool, pretty: bool) -> None:
        self.parts: list[str] = []
        self.quoted = quoted
        self.pretty = pretty

    def value(self, value: object, depth: int) -> None:
        if isinstance(value, str):
            self.parts.append(self.text(value))
        elif isinstance(value, dict):
            self.mapping(value, depth)
        elif isinstance(value, (list, tuple)):
            self.array(value, depth)
        else:
            self.parts.append(dumps(value).decode())

    def text(self, value: str) -> str:
        quoted = dumps(value).decode()
        if self.quoted and not quoted.isascii():
            units = quoted.encode("utf-16-be")
            pairs = zip(units[::2], units[1::2], strict=True)
            return "".join(
                f"\\u{high:02X}{low:02X}" if high or low > 126 else chr(low) for high, low in pairs
            )
        return quoted

    def key(self, key: object) -> str:
        if isinstance(key, str):
            return self.text(key)
        bare = dumps_fastjson(dict(key) if isinstance(key, tuple) else key).decode()
        return self.text(bare) if self.quoted else bare

    def mapping(self, entries: dict[Any, Any], depth: int) -> None:
        if not self.pretty and not self.quoted and _is_flat(entries):
            self.parts.append(dumps(entries, sort_keys=True).decode())
            return
        present = [(key, value) for key, value in entries.items() if value is not None]
        if all(type(key) is int for key, _ in present):
            present.sort(key=lambda entry: entry[0])
            written = [(self.key(key), value) for key, value in present]
        else:
            written = [(self.key(key), value) for key, value in present]
            written.sort(key=lambda entry: entry[0])
        one_line = not self.quoted and any(type(key) is not str for key, _ in present)
        self.parts.append("{")
        for index, (key_text, value) in enumerate(written):
            if index:
                self.parts.append(",")
            if not one_line:
                self.new_line(depth + 1)
            self.parts += (key_text, ":")
            self.value(value, depth + 1)
        if written:
            self.new_line(depth)
        self.parts.append("}")

    def array(self, items: list[Any] | tuple[Any, ...], depth: int) -> None:
        self.parts.append("[")
        for index, item in enumerate(items):
            if index:
                self.parts.append(",")
            self.new_line(depth + 1)
            self.value(item, depth + 1)
        if items:
            self.new_line(depth)
        self.parts.append("]")

    def new_line(self, depth: int) -> None:
        if self.pretty:
            self.parts.append("\n" + "\t" * depth)
