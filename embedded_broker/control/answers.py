"""Answers of the control face: values of the broker as JSON, and their OpenAPI schemas.

Answers: how a value that an operation gives is written, and how a reader is told its type. Fields
of values keep their names. Instants are texts in UTC with milliseconds. Bytes are given twice: as
text, null when they are no UTF-8, and in base64 under the name with ``_base64``. Must not know:
operations, HTTP.
"""

import types
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import attrs

Json = Any  # what JSON can hold, and a schema, which is JSON too
_PLAIN: Final[dict[type, dict[str, str]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    str: {"type": "string"},
    Path: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
    object: {},
    type(None): {"type": "null"},
}
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}
_BASE64: Final = {"type": "string", "contentEncoding": "base64"}


def to_json(value: object) -> Json:
    """Give a value as what JSON can hold."""
    return _writer(type(value))(value)


def _writer_of(kind: type) -> Callable[[Any], Json]:  # Any: a value of this type
    if attrs.has(kind):
        return partial(_object, tuple(one.name for one in attrs.fields(kind)))
    for base, write in _WRITERS:
        if issubclass(kind, base):
            return write
    raise TypeError(f"{kind.__name__} has no form in JSON")


_writer: Final[Callable[[type], Callable[[Any], Json]]] = lru_cache(256)(_writer_of)
"""How values of a type are written, chosen once."""


def _instant(when: datetime) -> Json:
    if when.tzinfo is not UTC:
        when = when.astimezone(UTC)
    return when.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _object(names: tuple[str, ...], value: object) -> Json:
    told: dict[str, Json] = {}
    for name in names:
        item = getattr(value, name)
        if type(item) in _AS_THEY_ARE:
            told[name] = item
        elif isinstance(item, bytes):
            told[name], told[f"{name}_base64"] = _text(item), b64encode(item).decode()
        else:
            told[name] = to_json(item)
    return told


_AS_THEY_ARE: Final = frozenset({str, int, float, bool, type(None)})
_WRITERS: Final[tuple[tuple[Any, Callable[[Any], Json]], ...]] = (  # Any: a type, or several
    ((str, int, float, type(None)), lambda one: one),
    (datetime, _instant),
    (Enum, lambda one: to_json(one.value)),
    (Mapping, lambda one: {str(key): to_json(item) for key, item in one.items()}),
    (Path, str),
    (Iterable, lambda one: [to_json(item) for item in one]),
)


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def schema_of(annotation: Any, named: dict[str, Json]) -> Json:
    """Give the schema of a type. Those of classes go into ``named`` and are referred to."""
    if annotation in _PLAIN:
        return dict(_PLAIN[annotation])
    origin, inside = get_origin(annotation), get_args(annotation)
    if origin in {Union, types.UnionType}:
        return {"anyOf": [schema_of(one, named) for one in inside]}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(inside[1], named)}
    if origin in {list, tuple}:
        return {"type": "array", "items": schema_of(inside[0], named)}
    if issubclass(annotation, Enum):
        return {"type": "string", "enum": [one.value for one in annotation]}
    name = annotation.__name__
    if name not in named:
        named[name] = {}  # before its fields: one of them may lead back here
        named[name] = _class_schema(annotation, named)
    return {"$ref": f"#/components/schemas/{name}"}


def _class_schema(kind: type, named: dict[str, Json]) -> Json:
    hints = get_type_hints(kind)
    told: dict[str, Json] = {}
    for one in attrs.fields(kind):
        if hints[one.name] is bytes:
            told[one.name], told[f"{one.name}_base64"] = dict(_TEXT_OR_NULL), dict(_BASE64)
        else:
            told[one.name] = schema_of(hints[one.name], named)
    return {
        "type": "object",
        "description": (kind.__doc__ or "").partition("\n\n")[0].replace("``", ""),
        "properties": told,
        "required": list(told),
    }
