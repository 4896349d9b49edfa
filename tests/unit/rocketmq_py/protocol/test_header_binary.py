"""Headers written in RocketMQ's binary form."""

from __future__ import annotations

import pytest

from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import LanguageCode
from rocketmq_py.protocol.header_binary import decode_header, encode_header

ROUTE = bytes.fromhex("00690001910000000700000000000000000000000c0005746f7069630000000154")


def test_the_worked_example_reads_and_writes() -> None:
    parts = (105, 7, 0, LanguageCode.JAVA, 401, None, {"topic": "T"})

    assert encode_header(*parts) == ROUTE
    assert decode_header(ROUTE) == parts


@pytest.mark.case("W14")
@pytest.mark.parametrize("code", [200_050, 32_768, -32_769])
def test_a_code_over_16_bits_is_refused_instead_of_cut(code: int) -> None:
    with pytest.raises(HeaderError, match="16 bits") as caught:
        encode_header(code, 1, 0, 3, 479, None, {})

    assert caught.value.value == code


def test_an_empty_text_reads_as_absent() -> None:
    header = encode_header(0, 1, 1, 3, 479, "", {"a": "", "b": "x"})

    assert decode_header(header) == (0, 1, 1, 3, 479, None, {"b": "x"})


def test_an_unknown_language_reads_as_other() -> None:
    header = bytearray(ROUTE)
    header[2] = 0x7F

    assert decode_header(bytes(header))[3] == LanguageCode.OTHER


@pytest.mark.parametrize(
    ("remark", "ext"), [("\ud800", {}), (None, {"k" * 32_768: "v"}), (None, {"k": "\udfff"})]
)
def test_what_the_form_cannot_carry_is_refused(remark: str | None, ext: dict[str, str]) -> None:
    with pytest.raises(HeaderError):
        encode_header(0, 0, 0, 0, 0, remark, ext)


def test_a_version_over_16_bits_is_refused() -> None:
    with pytest.raises(HeaderError):
        encode_header(0, 0, 0, 0, 40_000, None, {})


@pytest.mark.case("W5")
@pytest.mark.parametrize("size", range(len(ROUTE)))
def test_a_header_cut_anywhere_is_refused(size: int) -> None:
    with pytest.raises(HeaderError):
        decode_header(ROUTE[:size])


@pytest.mark.case("W5")
@pytest.mark.parametrize(
    ("at", "value", "field"),
    [
        (13, 0x7FFF_FFFF, "remark"),
        (13, -1, "remark"),
        (17, 13, "extFields"),
        (17, -1, "extFields"),
        (28, 2, "extFields"),
        (28, -1, "extFields"),
    ],
)
def test_a_length_beyond_the_header_is_refused(at: int, value: int, field: str) -> None:
    header = ROUTE[:at] + value.to_bytes(4, "big", signed=True) + ROUTE[at + 4 :]

    with pytest.raises(HeaderError) as caught:
        decode_header(header)

    assert caught.value.field == field


def test_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(HeaderError, match="UTF-8"):
        decode_header(ROUTE[:-1] + b"\xff")
    with pytest.raises(HeaderError, match="UTF-8"):
        decode_header(ROUTE[:13] + (1).to_bytes(4, "big") + b"\xff" + bytes(4))
