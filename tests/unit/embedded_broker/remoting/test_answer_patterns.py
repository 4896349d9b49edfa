"""A template of an answer writes what the codec writes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from embedded_broker.remoting.answer_patterns import OPAQUE_SAMPLE, AnswerPattern
from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import encode_frame

NUMBER = "1212121212"


@example("50% off, %d, %%", 1, 2)
@given(st.text(), st.integers(0, 10**12), st.integers(-(2**31), 2**31 - 1))
def test_a_pattern_writes_what_the_codec_writes(text: str, number: int, opaque: int) -> None:
    fields = {"mark": text, "number": str(number)}
    command = RemotingCommand(
        0, opaque, 1, language=0, version=479, remark="FOUND", ext_fields=fields
    )
    try:
        expected = command.encode()
    except HeaderError:
        return
    if any(sample in text for sample in (NUMBER, OPAQUE_SAMPLE)):
        return
    sample = {**fields, "number": NUMBER}
    answer = AnswerPattern.of(0, "FOUND", 479, sample, {NUMBER: b"%d"}).fill((number, opaque))
    assert (answer.code, answer.remark) == (0, "FOUND")
    assert encode_frame(0, answer.header) == expected
