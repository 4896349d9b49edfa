"""Many commands whose headers differ in one field and the opaque: the rest is written once.

To write a header takes longer than to carry it; a program that sends rows one by one notices. The
bytes are those of `RemotingCommand.encode`. Must not know what the fields mean. Read on:
``command.py``, ``header_json.py``.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from attrs import frozen

from rocketmq_py.errors import FrameError, HeaderError
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FRAME_SIZE_MAX, Buffer
from rocketmq_py.protocol.json_text import dumps

_MARK: Final = "\x00 what differs \x00"
_MARK_TEXT: Final = dumps(_MARK)
_OPAQUE: Final = 0x7FFF_FFF1
_OPAQUE_TEXT: Final = b'"opaque":%d' % _OPAQUE
_HEAD: Final = Struct(">iI")
_LENGTH_MAX: Final = FRAME_SIZE_MAX - 4


@frozen
class HeaderForm:
    """A header with two gaps.

    >>> form = HeaderForm.of(310, {"b": "T", "i": ""}, "i")
    >>> plain = RemotingCommand(310, opaque=7, ext_fields={"b": "T", "i": "keys=1"}, body=b"body")
    >>> form.frames([7], ["keys=1"], [b"body"]) == plain.encode()
    True
    """

    code: int
    fields: dict[str, str]
    gap: str
    before: bytes
    between: bytes
    after: bytes

    @classmethod
    def of(cls, code: int, fields: dict[str, str], gap: str) -> "HeaderForm":
        """Make the form of commands that differ in the field ``gap``, which ``fields`` has."""
        marked = RemotingCommand(code, opaque=_OPAQUE, ext_fields={**fields, gap: _MARK})
        frame = marked.encode()
        before, _, rest = frame[8:].partition(_MARK_TEXT)
        between, _, after = rest.rpartition(_OPAQUE_TEXT)
        return cls(code, fields, gap, before, between + b'"opaque":', after)

    def command(self, value: str, body: Buffer) -> RemotingCommand:
        """Make one command by itself, whose gap has this value."""
        fields = {**self.fields, self.gap: value}
        return RemotingCommand(self.code, ext_fields=fields, body=bytes(body))

    def frames(
        self, opaques: Iterable[int], values: Iterable[str], bodies: Iterable[Buffer]
    ) -> bytes:
        """Write the frames of commands, one behind the other.

        Raises `HeaderError` for a value that is no Unicode, `FrameError` for a frame that is too
        large.
        """
        before, between, after = self.before, self.between, self.after
        fixed_size = len(before) + len(between) + len(after)
        pack, write = _HEAD.pack, dumps
        parts: list[Buffer] = []
        for opaque, value, body in zip(opaques, values, bodies, strict=True):
            try:
                text = write(value)
            except ValueError as error:
                raise HeaderError("extFields", None, str(error)) from error
            number = b"%d" % opaque
            header_size = fixed_size + len(text) + len(number)
            length = 4 + header_size + len(body)
            if length > _LENGTH_MAX:
                raise FrameError(0, "length", length, f"at most {_LENGTH_MAX}")
            parts += (pack(length, header_size), before, text, between, number, after, body)
        return b"".join(parts)
