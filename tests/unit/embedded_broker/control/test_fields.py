"""What may be given, and what is said when it does not fit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from embedded_broker.control.fields import Field, Kind, read_fields
from rocketmq_py.errors import ConfigError


@pytest.mark.parametrize(
    ("kind", "given", "read"),
    [
        (Kind.TEXT, "x", "x"),
        (Kind.INTEGER, 7, 7),
        (Kind.INTEGER, "-7", -7),
        (Kind.NUMBER, "1.5", 1.5),
        (Kind.NUMBER, 2, 2),
        (Kind.FLAG, "True", True),
        (Kind.FLAG, False, False),
        (Kind.INSTANT, 1500, datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        (Kind.INSTANT, "1500", datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        (
            Kind.INSTANT,
            "2030-01-01T00:00:00+02:00",
            datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=2))),
        ),
        (Kind.BYTES, "AP8=", b"\x00\xff"),
        (Kind.TEXTS, "a,b", ("a", "b")),
        (Kind.TEXTS, ["a"], ("a",)),
        (Kind.TEXT_MAP, {"a": "b"}, {"a": "b"}),
        (Kind.VALUE_MAP, {"a": 1}, {"a": 1}),
        (Kind.CODE, "310", 310),
        (Kind.CODE, "SEND_MESSAGE_V2", "SEND_MESSAGE_V2"),
    ],
)
def test_a_value_is_read_from_json_and_from_a_query(
    kind: Kind, given: object, read: object
) -> None:
    assert Field("f", kind, "").read(given) == read


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (Kind.TEXT, 1),
        (Kind.INTEGER, True),
        (Kind.INTEGER, 1.0),
        (Kind.INTEGER, "\u0661"),
        (Kind.INTEGER, "1e3"),
        (Kind.NUMBER, "nan"),
        (Kind.NUMBER, "inf"),
        (Kind.NUMBER, True),
        (Kind.NUMBER, [1]),
        (Kind.FLAG, 1),
        (Kind.FLAG, "yes"),
        (Kind.INSTANT, "2030-01-01T00:00:00"),
        (Kind.INSTANT, -1),
        (Kind.INSTANT, 10**18),
        (Kind.INSTANT, "soon"),
        (Kind.INSTANT, None),
        (Kind.BYTES, "?"),
        (Kind.BYTES, "é"),
        (Kind.TEXTS, [1]),
        (Kind.TEXT_MAP, {"a": 1}),
        (Kind.VALUE_MAP, []),
        (Kind.CODE, 1.5),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_type(kind: Kind, given: object) -> None:
    with pytest.raises(ConfigError) as caught:
        Field("f", kind, "").read(given)
    assert (caught.value.setting, caught.value.limit) == ("f", kind.told)


@pytest.mark.parametrize("given", [0, 11, "11"])
def test_a_number_beyond_its_limits_is_refused_with_them(given: object) -> None:
    with pytest.raises(ConfigError, match="a whole number from 1 to 10"):
        Field("f", Kind.INTEGER, "", low=1, high=10).read(given)


def test_a_choice_is_refused_with_what_there_is() -> None:
    with pytest.raises(ConfigError, match="one of a, b"):
        Field("f", Kind.TEXT, "", choices=("a", "b")).read("c")


def test_a_long_value_is_told_in_short() -> None:
    with pytest.raises(ConfigError) as caught:
        Field("f", Kind.INTEGER, "").read("x" * 10_000)
    assert len(str(caught.value)) < 200


def test_defaults_required_ones_and_unknown_names() -> None:
    fields = (Field("need", Kind.TEXT, "", required=True), Field("may", Kind.TEXT, "", default="d"))
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
