"""What is read of a usual header is what decoding it says; all else is left to that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_broker.remoting.journal import HEADER_KEPT_MAX
from embedded_broker.remoting.usual_form import answer_pattern, usual_document
from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame
from rocketmq_py.protocol.json_text import dumps

USUAL: dict[str, Any] = {
    "code": 11,
    "extFields": {"topic": "T", "queueId": "0"},
    "flag": 0,
    "language": "JAVA",
    "opaque": 7,
    "serializeTypeCurrentRPC": "JSON",
    "version": 479,
}

VALUES: st.SearchStrategy[object] = (
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text() | st.just({})
)


def test_a_usual_header_is_read() -> None:
    assert usual_document(dumps(USUAL), 11) == USUAL
    assert usual_document(dumps(USUAL), 310) is None


@given(st.sampled_from([*USUAL, "remark"]), VALUES)
def test_what_is_read_can_be_decoded_and_says_the_same(name: str, value: object) -> None:
    header = dumps({**USUAL, name: value})
    document = usual_document(header, 11)
    if document is None:
        return
    command = RemotingCommand.decode(Frame(0, header, b""))
    assert (document["code"], document["opaque"]) == (command.code, command.opaque)
    assert (document["extFields"], document["version"]) == (command.ext_fields, command.version)
    assert not command.flag
    assert not command.remark


@pytest.mark.parametrize(
    "odd",
    [
        {"version": "new"},
        {"version": None},
        {"opaque": "1x"},
        {"opaque": 1 << 31},
        {"opaque": True},
        {"flag": 1},
        {"flag": 2},
        {"remark": "hello"},
        {"extFields": None},
        {"extFields": {"topic": "T", "queueId": 0}},
        {"extFields": {"topic": None}},
        {"extFields": ["topic"]},
        {"extFields": {"topic": "x" * HEADER_KEPT_MAX}},
    ],
)
def test_an_odd_header_is_left_to_who_reads_all(odd: dict[str, Any]) -> None:
    assert usual_document(dumps({**USUAL, **odd}), 11) is None


@pytest.mark.parametrize("text", [b"", b"7", b"[]", b'{"code":11', b'{"code":11}', b"\xff"])
def test_what_is_no_header_is_none(text: bytes) -> None:
    assert usual_document(text, 11) is None


@given(st.text(), st.integers(0, 10**12), st.integers(-(2**31), 2**31 - 1))
def test_a_pattern_writes_what_the_codec_writes(text: str, number: int, opaque: int) -> None:
    fields = {"mark": text, "number": str(number)}
    samples = {"1212121212": b"%d"}
    try:
        expected = RemotingCommand(
            0, opaque, 1, language=0, version=479, remark="FOUND", ext_fields=fields
        ).encode()[8:]
    except HeaderError:
        return
    if any(sample in text for sample in ("1212121212", "1919191919")):
        return
    pattern = answer_pattern(0, "FOUND", 479, {**fields, "number": "1212121212"}, samples)
    assert pattern % (number, opaque) == expected
