"""What may be given, and what is said when it does not fit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from embedded_broker.control.fields import Field, FieldType, read_fields
from rocketmq_py.errors import ConfigError


@pytest.mark.parametrize(
    ("kind", "given", "read"),
    [
        (FieldType.TEXT, "x", "x"),
        (FieldType.INTEGER, 7, 7),
        (FieldType.INTEGER, "-7", -7),
        (FieldType.NUMBER, "1.5", 1.5),
        (FieldType.NUMBER, 2, 2),
        (FieldType.FLAG, "True", True),
        (FieldType.FLAG, False, False),
        (FieldType.INSTANT, 1500, datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        (FieldType.INSTANT, "1500", datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        (
            FieldType.INSTANT,
            "2030-01-01T00:00:00+02:00",
            datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        ),
        (FieldType.BYTES, "AP8=", b"\x00\xff"),
        (FieldType.TEXTS, "a,b", ("a", "b")),
        (FieldType.TEXTS, ["a"], ("a",)),
        (FieldType.TEXT_MAP, {"a": "b"}, {"a": "b"}),
        (FieldType.VALUE_MAP, {"a": 1}, {"a": 1}),
        (FieldType.CODE, "310", 310),
        (FieldType.CODE, "SEND_MESSAGE_V2", "SEND_MESSAGE_V2"),
    ],
)
def test_a_value_is_read_from_json_and_from_a_query(
    kind: FieldType, given: object, read: object
) -> None:
    assert Field("f", kind, "").read(given) == read


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (FieldType.TEXT, 1),
        (FieldType.INTEGER, True),
        (FieldType.INTEGER, 1.0),
        (FieldType.INTEGER, "\u0661"),
        (FieldType.INTEGER, "1e3"),
        (FieldType.NUMBER, "nan"),
        (FieldType.NUMBER, "inf"),
        (FieldType.NUMBER, True),
        (FieldType.NUMBER, [1]),
        (FieldType.FLAG, 1),
        (FieldType.FLAG, "yes"),
        (FieldType.INSTANT, "2030-01-01T00:00:00"),
        (FieldType.INSTANT, -1),
        (FieldType.INSTANT, 10**18),
        (FieldType.INSTANT, "soon"),
        (FieldType.INSTANT, None),
        (FieldType.BYTES, "?"),
        (FieldType.BYTES, "é"),
        (FieldType.TEXTS, [1]),
        (FieldType.TEXT_MAP, {"a": 1}),
        (FieldType.VALUE_MAP, []),
        (FieldType.CODE, 1.5),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_type(kind: FieldType, given: object) -> None:
    with pytest.raises(ConfigError) as caught:
        Field("f", kind, "").read(given)
    assert (caught.value.setting, caught.value.limit) == ("f", kind.told)


@pytest.mark.parametrize("given", [0, 11, "11"])
def test_a_number_beyond_its_limits_is_refused_with_them(given: object) -> None:
    with pytest.raises(ConfigError, match="a whole number from 1 to 10"):
        Field("f", FieldType.INTEGER, "", low=1, high=10).read(given)


def test_a_choice_is_refused_with_what_there_is() -> None:
    with pytest.raises(ConfigError, match="one of a, b"):
        Field("f", FieldType.TEXT, "", choices=("a", "b")).read("c")


def test_a_long_value_is_told_in_short() -> None:
    with pytest.raises(ConfigError) as caught:
        Field("f", FieldType.INTEGER, "").read("x" * 10_000)
    assert len(str(caught.value)) < 200


def test_defaults_required_ones_and_unknown_names() -> None:
    fields = (
        Field("need", FieldType.TEXT, "", required=True),
        Field("may", FieldType.TEXT, "", default="d"),
    )
    assert read_fields(fields, {"need": "x", "may": None}) == {"need": "x", "may": "d"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "setting need = None is not possible: it is required: a text"),
        ({"need": "x", "mai": 1}, "did you mean may"),
        ({"zzzz": 1}, "there are need, may"),
    ]
    for given, told in wrong:
        with pytest.raises(ConfigError, match=told):
            read_fields(fields, given)
    with pytest.raises(ConfigError, match="it takes none"):
        read_fields((), {"x": 1})
