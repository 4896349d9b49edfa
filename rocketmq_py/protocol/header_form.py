"""Many commands whose headers differ in one field and the opaque: the rest is written once.

To write a header takes longer than to carry it; a program that sends rows one by one notices. The
bytes are those of `RemotingCommand.encode`. Must not know what the fields mean. Read on:
``command.py``, ``header_json.py``.
"""

from typing import Final

from attrs import define, frozen

from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import SerializeType
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import encode_frame
from rocketmq_py.protocol.json_text import dumps

_MARK: Final = "\x00 what differs \x00"
_MARK_TEXT: Final = dumps(_MARK)
_OPAQUE: Final = 0x7FFF_FFF1
_OPAQUE_TEXT: Final = b'"opaque":%d' % _OPAQUE
_JSON: Final = int(SerializeType.JSON)


@frozen
class HeaderForm:
    """A header with two gaps.

    >>> form = HeaderForm.of(310, {"b": "T", "i": ""}, "i")
    >>> plain = RemotingCommand(310, ext_fields={"b": "T", "i": "keys=1"}, body=b"body")
    >>> form.command("keys=1", b"body").encode() == plain.encode()
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

    def command(self, value: str, body: bytes) -> RemotingCommand:
        """Make a command whose gap has this value."""
        return _FormedCommand(self.code, body=body, form=self, value=value)


@define(slots=True, eq=False)
class _FormedCommand(RemotingCommand):
    """A command that is written by its form; its extra fields stay empty."""

    form: HeaderForm | None = None
    value: str = ""

    def encode(self) -> bytes:
        form = self.form
        if form is None:
            return super().encode()
        try:
            value = dumps(self.value)
        except ValueError as error:
            raise HeaderError("extFields", None, str(error)) from error
        header = b"%b%b%b%d%b" % (form.before, value, form.between, self.opaque, form.after)
        return encode_frame(_JSON, header, self.body)
