"""Values as JSON, and their schemas."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from pathlib import Path

import pytest
from attrs import frozen

from embedded_broker.control.answers import schema_of, to_json


class Colour(Enum):
    RED = "red"


@frozen
class Inner:
    at: datetime
    colour: Colour


@frozen
class Outer:
    """Holds one of each.

    More about it.
    """

    body: bytes
    inner: Inner | None
    names: tuple[str, ...]
    counts: dict[str, int]
    path: Path


def test_a_value_of_many_parts_is_written() -> None:
    inner = Inner(datetime(2030, 1, 1, 1, 2, 3, 4567, timezone(timedelta(hours=1))), Colour.RED)
    assert to_json(Outer(b"\xc3\xbc", inner, ("a",), {"b": 1}, Path("/tmp"))) == {  # noqa: S108
        "body": "ü",
        "body_base64": "w7w=",
        "inner": {"at": "2030-01-01T00:02:03.004Z", "colour": "red"},
        "names": ["a"],
        "counts": {"b": 1},
        "path": "/tmp",  # noqa: S108
    }


def test_bytes_that_are_no_text_are_null_and_base64() -> None:
    told = to_json(Outer(b"\xff", None, (), {}, Path()))
    assert (told["body"], told["body_base64"], told["inner"]) == (None, "/w==", None)


def test_an_instant_of_a_whole_second_has_milliseconds_too() -> None:
    assert to_json(datetime(2030, 1, 1, tzinfo=UTC)) == "2030-01-01T00:00:00.000Z"


def test_what_has_no_form_is_said() -> None:
    with pytest.raises(TypeError, match="object has no form in JSON"):
        to_json(object())


def test_the_schema_says_what_is_written() -> None:
    named: dict[str, object] = {}
    assert schema_of(list[Outer], named) == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/Outer"},
    }
    assert named == {
        "Outer": {
            "type": "object",
            "description": "Holds one of each.",
            "properties": {
                "body": {"type": ["string", "null"]},
                "body_base64": {"type": "string", "contentEncoding": "base64"},
                "inner": {"anyOf": [{"$ref": "#/components/schemas/Inner"}, {"type": "null"}]},
                "names": {"type": "array", "items": {"type": "string"}},
                "counts": {
                    "type": "object",
                    "additionalProperties": {"type": "integer", "format": "int64"},
                },
                "path": {"type": "string"},
            },
            "required": ["body", "body_base64", "inner", "names", "counts", "path"],
        },
        "Inner": {
            "type": "object",
            "description": named["Inner"]["description"],  # type: ignore[index]
            "properties": {
                "at": {"type": "string", "format": "date-time"},
                "colour": {"type": "string", "enum": ["red"]},
            },
            "required": ["at", "colour"],
        },
    }
