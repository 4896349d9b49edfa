"""Fields of an operation: what a caller may give, and how it is read.

Answers: which types a field of a path, a query or a JSON body has, within which limits, and what is
said when a value does not fit: the error names the setting, the value and the limit. Must not know:
HTTP, brokers. Read on: ``operation.py`` for who has fields, ``openapi.py`` for how they are told.
"""

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from enum import Enum
from math import isfinite
from typing import Any, Final

from attrs import frozen

from embedded_broker.clocks.instants import instant
from rocketmq_py.clock import LATEST_MS
from rocketmq_py.errors import ConfigError

_FLAGS: Final = {"true": True, "false": False}
_MISSING: Final = object()


class FieldType(Enum):
    """The type of a field: its JSON type, its OpenAPI format, and what a caller is told of it."""

    TEXT = ("string", "", "a text")
    INTEGER = ("integer", "int64", "a whole number")
    NUMBER = ("number", "double", "a number")
    FLAG = ("boolean", "", "true or false")
    INSTANT = (
        "string",
        "date-time",
        'a time with a zone such as "2030-01-01T00:00:00Z", or milliseconds since 1970',
    )
    BYTES = ("string", "byte", "bytes in base64")
    TEXTS = ("array", "", "a list of texts")
    TEXT_MAP = ("object", "", "an object whose values are texts")
    VALUE_MAP = ("object", "", "an object of names and values")
    CODE = ("string", "", "the number or the name of a code")

    def __init__(self, json_type: str, json_format: str, told: str) -> None:
        self.json_type = json_type
        self.json_format = json_format
        self.told = told


@frozen
class Field:
    """One thing that a caller may give; ``low`` and ``high`` limit a number."""

    name: str
    kind: FieldType
    meaning: str
    required: bool = False
    default: Any = None  # Any: of the field's own type
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def limit(self) -> str:
        """Say which values it can have."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.low is not None and self.high is not None:
            return f"{self.kind.told} from {self.low:g} to {self.high:g}"
        if self.low is not None:
            return f"{self.kind.told}, {self.low:g} or more"
        return self.kind.told

    def read(self, value: object) -> Any:  # Any: of the field's own type
        """Give a value that came as JSON or as text; ``ConfigError`` when it does not fit."""
        found = _READERS[self.kind](value)
        if found is _MISSING or (self.choices and found not in self.choices):
            raise ConfigError(self.name, _short(value), self.limit)
        if isinstance(found, int | float) and not (
            (self.low is None or found >= self.low) and (self.high is None or found <= self.high)
        ):
            raise ConfigError(self.name, value, self.limit)
        return found


def read_fields(fields: Iterable[Field], given: Mapping[str, object]) -> dict[str, Any]:
    """Give the value of every field, its default where nothing was given.

    A JSON null counts as not given. Raises ``ConfigError`` for a field that does not exist, a
    missing one that is required and a value that does not fit.
    """
    known = {field.name: field for field in fields}
    for name, value in given.items():
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            has = f"; there are {', '.join(known)}" if known else "; it takes none"
            raise ConfigError(name, _short(value), f"there is no such field{hint or has}")
    values: dict[str, Any] = {}
    for name, field in known.items():
        value = given.get(name)
        if value is not None:
            values[name] = field.read(value)
        elif field.required:
            raise ConfigError(name, None, f"it is required: {field.limit}")
        else:
            values[name] = field.default
    return values


def _short(value: object) -> object:
    return f"{value[:80]}…" if isinstance(value, str) and len(value) > 80 else value


def _text(value: object) -> object:
    return value if isinstance(value, str) else _MISSING


def _integer(value: object) -> object:
    if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else _MISSING


def _number(value: object) -> object:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return _MISSING
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return _MISSING
    return value


def _flag(value: object) -> object:
    if isinstance(value, str):
        return _FLAGS.get(value.lower(), _MISSING)
    return value if isinstance(value, bool) else _MISSING


def _instant(value: object) -> object:
    number = _integer(value)
    if isinstance(number, int):
        return instant(number) if 0 <= number <= LATEST_MS else _MISSING
    if not isinstance(value, str):
        return _MISSING
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return _MISSING
    return _MISSING if when.tzinfo is None else when


def _bytes(value: object) -> object:
    try:
        return b64decode(value, validate=True) if isinstance(value, str) else _MISSING
    except (binascii.Error, ValueError):
        return _MISSING


def _texts(value: object) -> object:
    if isinstance(value, str):  # of a query: a comma between two
        return tuple(one for one in value.split(",") if one)
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    return _MISSING


def _text_map(value: object) -> object:
    is_map = isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    return value if is_map else _MISSING


def _value_map(value: object) -> object:
    return value if isinstance(value, dict) else _MISSING


def _code(value: object) -> object:
    number = _integer(value)
    return number if isinstance(number, int) else _text(value)


_READERS: Final[dict[FieldType, Callable[[object], object]]] = {
    FieldType.TEXT: _text,
    FieldType.INTEGER: _integer,
    FieldType.NUMBER: _number,
    FieldType.FLAG: _flag,
    FieldType.INSTANT: _instant,
    FieldType.BYTES: _bytes,
    FieldType.TEXTS: _texts,
    FieldType.TEXT_MAP: _text_map,
    FieldType.VALUE_MAP: _value_map,
    FieldType.CODE: _code,
}
