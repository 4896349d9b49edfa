"""Which headers of sends differ in little but time and properties, and how to read those.

Programs that send rows one by one write the same header again and again, and to read it costs more
than to store a message. What surrounds time, properties, signature and opaque is learnt from a
header that was read whole, and checked by reading a sample that was made of it. Must not know what
the fields mean. Read on: ``send_message.py``.
"""

import re
from typing import Any, Final, NamedTuple, Self

from attrs import define, field, frozen

from embedded_broker.core.incoming import Incoming, Terms
from rocketmq_py.protocol.json_text import loads
from rocketmq_py.protocol.signing import SIGNATURE

_BORN: Final = b'"g":"'
_SIGNATURE: Final = b'"%b":"' % SIGNATURE.encode()
_SIGNED: Final = rb"[A-Za-z0-9+/]{27}="
_is_signature: Final = re.compile(_SIGNED).fullmatch
_PIECES: Final = re.compile(
    rb'(.*"g":")[1-9]\d{12}(".*"i":)"(?:[^"\\]|\\.)*"(?:(.*'
    + _SIGNATURE
    + rb")"
    + _SIGNED
    + rb')?(.*"opaque":)\d+(.*)',
    re.DOTALL,
).fullmatch
_SAMPLE_SIGNATURE: Final = "SignatureSignatureSignature="
_SAMPLE: Final = b'%b1717171717171%b"\\u0001 sample \\u0002"%b%b%b1919191%b'
_SAMPLE_FIELDS: Final = {"g": "1717171717171", "i": "\x01 sample \x02"}
_SAMPLE_OPAQUE: Final = 1_919_191
_BORN_DIGITS: Final = 13
"""Of milliseconds between the years 2001 and 2286."""
_OPAQUE_DIGITS_MAX: Final = 9
FORMS_MAX: Final = 1024
"""So many forms of headers are remembered."""


class SendHeader(NamedTuple):
    """What a header of a known form says.

    ``fields`` are its own when it is signed, else those of another header of that form.
    """

    born_ms: int
    properties: str
    opaque: int
    fields: dict[str, str]


@frozen
class SendForm:
    """What headers that are alike have in common; ``fields`` are those of one of them."""

    topic: str
    terms: Terms
    fields: dict[str, str]
    _pieces: tuple[bytes, bytes, bytes | None, bytes, bytes]
    """What lies before the time, the properties, the signature and the opaque, and behind it."""

    @classmethod
    def of(cls, header: bytes, document: dict[str, Any], message: Incoming) -> Self | None:
        """Learn from a header that was read as ``document``; None when it is unusual."""
        found = _PIECES(header)
        if found is None:
            return None
        before, until, signed, between, after = found.groups()
        fields = document["extFields"]
        if signed is None and SIGNATURE in fields:
            return None  # what it signs must not be taken for what another header says
        sample, signature = _SAMPLE_FIELDS, b""
        if signed is not None:
            sample, signature = {**sample, SIGNATURE: _SAMPLE_SIGNATURE}, _SAMPLE_SIGNATURE.encode()
        like = {**document, "extFields": {**fields, **sample}, "opaque": _SAMPLE_OPAQUE}
        text = _SAMPLE % (before, until, signed or b"", signature, between, after)
        try:
            is_sound = loads(text) == like
        except ValueError:
            return None
        if not is_sound:
            return None
        return cls(message.topic, message.terms, fields, (before, until, signed, between, after))

    def read(self, header: bytes) -> SendHeader | None:
        """Read what is its own in a header; None when it differs in anything else."""
        before, until, signed, between, after = self._pieces
        time_at = len(before)
        time_end = time_at + _BORN_DIGITS
        text_at, signature = time_end + len(until), b""
        if signed is None:
            between_at = text_end = header.rfind(between)
        else:
            text_end = header.rfind(signed)
            between_at = header.rfind(between)
            signature = header[text_end + len(signed) : between_at]
        born = header[time_at:time_end]
        opaque = header[between_at + len(between) : len(header) - len(after)]
        if not (
            header.startswith(before)
            and header.startswith(until, time_end)
            and header.endswith(after)
            and text_at < text_end
            and born.isdigit()
            and opaque.isdigit()
            and len(opaque) <= _OPAQUE_DIGITS_MAX
            and not opaque.startswith(b"0")  # which no number of JSON does
            and (signed is None or _is_signature(signature))
        ):
            return None
        try:
            text = loads(header[text_at:text_end])
        except ValueError:
            return None
        if type(text) is not str:
            return None
        fields = self.fields
        if signed is not None:  # somebody will check whether it fits all of them
            own = {"g": born.decode(), "i": text, SIGNATURE: signature.decode()}
            fields = {**fields, **own}
        return SendHeader(int(born), text, int(opaque), fields)


@define(eq=False)
class SendForms:
    """The forms of the headers that come: one for each group, topic and queue of a sender.

    What a header says up to its time tells which one it is. A form is learnt from the second header
    that begins so, since most of those that come once do not come again.
    """

    _known: dict[bytes, SendForm | None] = field(factory=dict, init=False)
    """By what headers begin with; None if there is nothing to learn from those."""
    _once: set[bytes] = field(factory=set, init=False)
    """What one header began with."""

    def find(self, header: bytes) -> SendForm | None:
        """Give the form that a header may have."""
        return self._known.get(header[: header.find(_BORN)])

    def learn(self, header: bytes, document: dict[str, Any], message: Incoming) -> None:
        """Take a header that has no known form, or another one than the form which was found."""
        known, once, begin = self._known, self._once, header[: header.find(_BORN)]
        if _SIGNATURE in begin:
            return  # no other one begins so
        if begin in once:
            once.remove(begin)
            known[begin] = SendForm.of(header, document, message)
        elif known.pop(begin, self) is None:
            known[begin] = None
        else:
            if len(known) + len(once) >= FORMS_MAX:
                known.clear()
                once.clear()
            once.add(begin)
