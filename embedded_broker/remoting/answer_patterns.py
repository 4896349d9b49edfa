"""Templates of answer headers: an answer that differs in a few values only is not encoded anew.

Answers to sends and pulls are such. A template is made of a sample of the answer that was encoded
the general way, so both have the same bytes. Must not know: what the fields mean. Read on:
``handlers/send/send_message.py`` and ``handlers/consume/pull_message.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from attrs import frozen

from embedded_broker.remoting.requests import WrittenAnswer
from rocketmq_py.protocol.codes import FLAG_RESPONSE, LanguageCode
from rocketmq_py.protocol.frame import Buffer
from rocketmq_py.protocol.header_json import encode_header

OPAQUE_SAMPLE: Final = "1919191919"


@frozen
class AnswerPattern:
    """Answers with one code and remark whose fields have the same names."""

    code: int
    remark: str | None
    header: bytes
    """A format for ``%``: the values that differ, and at last the opaque."""

    @classmethod
    def of(
        cls,
        code: int,
        remark: str | None,
        version: int,
        fields: dict[str, str],
        directives: Mapping[str, bytes],
    ) -> "AnswerPattern":
        """Make a template of an answer with these fields.

        ``directives`` says by which directive each sample among the ``fields`` is replaced, in
        their order. A sample must be a text that occurs nowhere else.
        """
        opaque = int(OPAQUE_SAMPLE)
        header = encode_header(
            code, opaque, FLAG_RESPONSE, LanguageCode.JAVA, version, remark, fields
        ).replace(b"%", b"%%")
        for sample, directive in {**directives, OPAQUE_SAMPLE: b"%d"}.items():
            header = header.replace(sample.encode(), directive)
        return cls(code, remark, header)

    def fill(
        self, values: tuple[int | bytes, ...], body_parts: Sequence[Buffer] = ()
    ) -> WrittenAnswer:
        """Give the answer with these values, of which the last is the opaque."""
        return WrittenAnswer(self.code, self.remark, self.header % values, body_parts)
