"""Strict JSON: the compiled library and the standard one behave the same."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from rocketmq_py.protocol import json_text

BOTH = pytest.mark.parametrize(
    ("dumps", "loads"), [json_text._compiled(), json_text._standard()], ids=["orjson", "json"]
)


@BOTH
def test_values_are_written_without_spaces_and_in_utf8(dumps: Any, loads: Any) -> None:
    value = {"b": [1, -2.5, True, None], "a": "标签\x01\n"}

    assert dumps(value) == '{"b":[1,-2.5,true,null],"a":"标签\\u0001\\n"}'.encode()
    assert dumps(value, sort_keys=True).startswith(b'{"a"')
    assert loads(dumps(value)) == value
    assert loads(dumps(value).decode()) == value


@BOTH
@pytest.mark.parametrize(
    "text", [b"", b"{", b"NaN", b"[1,]", b"\xff", b'"\\ud800"', b"{0:1}", b"[" * 100_000]
)
def test_what_is_no_json_raises_value_error(dumps: Any, loads: Any, text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the texts belong to the libraries
        loads(text)


@BOTH
@pytest.mark.parametrize("value", [object(), "\ud800", {1, 2}])
def test_what_cannot_be_json_raises_value_error(dumps: Any, loads: Any, value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the texts belong to the libraries
        dumps(value)


def test_the_standard_library_serves_where_orjson_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "orjson", None)

    dumps, _ = json_text._choose()

    assert dumps({"a": 1}) == b'{"a":1}'
    assert dumps.__module__ == json_text.__name__
    assert "_standard" in dumps.__qualname__  # type: ignore[attr-defined] # a function has a name
