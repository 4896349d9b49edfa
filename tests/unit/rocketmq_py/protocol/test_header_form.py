"""What is written by a form is what `RemotingCommand` writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_py.errors import FrameError, HeaderError
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FRAME_SIZE_MAX, FrameDecoder
from rocketmq_py.protocol.header_form import HeaderForm


@given(
    st.dictionaries(st.text(), st.text(), max_size=5),
    st.text(),
    st.binary(max_size=50),
    st.integers(0, 0x7FFF_FFFF),
)
def test_a_form_writes_the_same_bytes(
    fields: dict[str, str], value: str, body: bytes, opaque: int
) -> None:
    form = HeaderForm.of(310, {**fields, "i": ""}, "i")
    plain = RemotingCommand(310, opaque=opaque, ext_fields={**fields, "i": value}, body=body)
    single = form.command(value, body)
    single.opaque = opaque
    assert single == plain
    try:
        expected = plain.encode()
    except HeaderError:
        with pytest.raises(HeaderError):
            form.frames([opaque], [value], [body])
        return
    made = form.frames([opaque, 7], [value, "next"], [body, memoryview(b"two")])
    assert made.startswith(expected)
    frames = FrameDecoder().feed(made)
    assert [RemotingCommand.decode(frame).opaque for frame in frames] == [opaque, 7]
    assert RemotingCommand.decode(frames[0]) == plain
    assert frames[1].body == b"two"


def test_what_looks_like_a_gap_is_none() -> None:
    tricky = {"a": '"opaque":2147483633', "b": "\x00 what differs \x00 "}
    form = HeaderForm.of(310, {**tricky, "i": ""}, "i")
    plain = RemotingCommand(310, opaque=3, ext_fields={**tricky, "i": '"opaque":7'})
    assert form.frames([3], ['"opaque":7'], [b""]) == plain.encode()


def test_a_command_too_large_for_a_frame_is_refused() -> None:
    form = HeaderForm.of(310, {"i": ""}, "i")
    with pytest.raises(FrameError):
        form.frames([1], [""], [b"x" * FRAME_SIZE_MAX])
    with pytest.raises(HeaderError):
        form.frames([1], ["\ud800"], [b""])
