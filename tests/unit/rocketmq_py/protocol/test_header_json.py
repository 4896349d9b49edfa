"""Headers written as JSON, and what foreign writers make of them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import LanguageCode
from rocketmq_py.protocol.header_json import decode_header, encode_header, opaque_of_success

CODE, OPAQUE, FLAG, LANGUAGE, VERSION, REMARK, EXT = range(7)


def read(**document: Any) -> tuple[Any, ...]:
    return decode_header(orjson.dumps(document))


def test_keys_are_written_in_order_and_null_is_left_out() -> None:
    assert encode_header(105, 7, 0, 0, 401, None, {"topic": "T"}) == (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,"version":401}'
    )
    assert encode_header(0, 7, 1, 3, 479, "标签", {}) == (
        '{"code":0,"flag":1,"language":"PYTHON","opaque":7,"remark":"标签","version":479}'.encode()
    )


def test_separators_of_properties_are_escaped() -> None:
    assert rb'"i":"KEYS\u0001k\u0002"' in encode_header(310, 1, 0, 3, 479, None, {"i": "KEYS\1k\2"})


def test_a_language_nobody_knows_is_written_as_other() -> None:
    assert b'"language":"OTHER"' in encode_header(0, 0, 0, 99, 0, None, {})


@pytest.mark.case("W6")
def test_extra_fields_that_are_no_text_become_text_and_null_is_absent() -> None:
    header = read(
        code=105,
        extFields={"topic": 1, "a": True, "b": False, "n": None, "f": 1.5, "o": {"x": [1]}},
        unknown={"deep": [1, 2]},
    )

    assert header[EXT] == {"topic": "1", "a": "true", "b": "false", "f": "1.5", "o": '{"x":[1]}'}


@pytest.mark.case("W6")
def test_a_header_with_nothing_in_it_reads_as_defaults() -> None:
    assert read() == (0, 0, 0, LanguageCode.JAVA, 0, None, {})
    assert read(extFields=None, remark=None, language=None, version=None)[EXT] == {}


@pytest.mark.case("W7")
@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("ZIG", LanguageCode.OTHER),
        (3, LanguageCode.PYTHON),
        ("python", LanguageCode.PYTHON),
        ("GO", LanguageCode.GO),
        (99, LanguageCode.OTHER),
        (-1, LanguageCode.OTHER),
        ([], LanguageCode.OTHER),
    ],
)
def test_a_language_is_read_by_name_in_any_case_or_by_ordinal(
    language: object, expected: int
) -> None:
    assert read(code=105, language=language)[LANGUAGE] == expected


def test_numbers_may_be_text() -> None:
    header = read(code="105", opaque="-7", flag="2", version="401")

    assert (header[CODE], header[OPAQUE], header[FLAG], header[VERSION]) == (105, -7, 2, 401)


def test_a_remark_that_is_no_text_becomes_text() -> None:
    assert read(remark=17)[REMARK] == "17"


@pytest.mark.case("W5")
@pytest.mark.parametrize(
    ("header", "field"),
    [
        (b"", "header"),
        (b"{", "header"),
        (b"[]", "header"),
        (b"\xff\xfe", "header"),
        (b'{"opaque":2147483648}', "opaque"),
        (b'{"opaque":-2147483649}', "opaque"),
        (b'{"opaque":1e300}', "opaque"),
        (b'{"code":"x"}', "code"),
        (b'{"code":true}', "code"),
        (b'{"flag":[]}', "flag"),
        (b'{"version":1.5}', "version"),
        (b'{"extFields":[1]}', "extFields"),
        (b'{"extFields":"x"}', "extFields"),
    ],
)
def test_a_header_that_cannot_be_read_names_the_field(header: bytes, field: str) -> None:
    with pytest.raises(HeaderError) as caught:
        decode_header(header)

    assert caught.value.field == field


def test_text_that_is_no_unicode_cannot_be_written() -> None:
    with pytest.raises(HeaderError):
        encode_header(0, 0, 0, 0, 0, "\ud800", {})


@given(
    st.integers(-1, 2),
    st.integers(-3, 2**31 - 1),
    st.integers(0, 3),
    st.none() | st.text(),
    st.dictionaries(st.text() | st.sampled_from(["opaque", "code"]), st.text(), max_size=3),
)
def test_the_opaque_of_a_success_is_what_the_whole_header_says(
    code: int, opaque: int, flag: int, remark: str | None, fields: dict[str, str]
) -> None:
    try:
        header = encode_header(code, opaque, flag, 1, 400, remark, fields)
    except HeaderError:
        return
    found = opaque_of_success(header)
    if code == 0 and opaque >= 0:
        assert found == opaque
    else:
        assert found is None


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{}",
        b'{"code":0,',
        b'{"code":0,"opaque":}',
        b'{"code":0,"opaque":"7"}',
        b'{"opaque":7,"code":0}',
        b'{"code":0,"flag":1}',
        b'{"code": 0,"opaque":7}',
        b'{"code":0,"opaque":12345678901}',
        b'{"code":0,"opaque":%b}' % (b"9" * 5_000),  # more digits than int() takes
    ],
    ids=lambda header: header[:32],
)
def test_a_header_in_another_form_is_read_as_a_whole(header: bytes) -> None:
    assert opaque_of_success(header) is None


def test_the_opaque_may_stand_last() -> None:
    assert opaque_of_success(b'{"code":0,"flag":1,"opaque":17}') == 17
