"""What one request or one response says: the value that client and broker exchange.

`RemotingCommand` is the whole of `RemotingCommand` in the original without its header classes;
those are tables in `headers`, and `ext_fields` is what they read and write. Must not know sockets,
threads or who pairs requests with answers. How frames are cut is in `frame`.
"""

from collections.abc import Sequence
from typing import Final, Self

from attrs import define, field

from rocketmq_py.protocol import header_binary, header_json
from rocketmq_py.protocol.codes import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    LanguageCode,
    MQVersion,
    SerializeType,
)
from rocketmq_py.protocol.frame import Buffer, Frame, encode_frame, encode_head

_JSON: Final = int(SerializeType.JSON)
_PYTHON: Final = int(LanguageCode.PYTHON)
_VERSION: Final = int(MQVersion.V5_3_3)

# Indexed by SerializeType.
_ENCODE_HEADER: Final = (header_json.encode_header, header_binary.encode_header)
_DECODE_HEADER: Final = (header_json.decode_header, header_binary.decode_header)


@define(slots=True)
class RemotingCommand:
    """One command: a request, a one-way request or a response.

    `opaque` pairs a response with its request and is chosen by the requester. `body` is empty when
    there is none. `body_parts`, when given, is sent behind `body`: several buffers that are copied
    only once, into the frame; a decoded command never has any.

    >>> from rocketmq_py.protocol.frame import FrameDecoder
    >>> request = RemotingCommand(code=105, opaque=7, ext_fields={"topic": "T"})
    >>> (frame,) = FrameDecoder().feed(request.encode())
    >>> RemotingCommand.decode(frame) == request
    True
    """

    code: int
    opaque: int = 0
    flag: int = 0
    language: int = _PYTHON
    version: int = _VERSION
    remark: str | None = None
    ext_fields: dict[str, str] = field(factory=dict)
    body: bytes = b""
    serialize_type: int = _JSON
    body_parts: Sequence[Buffer] = ()

    @property
    def is_response(self) -> bool:
        """Whether this command answers another one."""
        return self.flag & FLAG_RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """Whether the sender wants no answer, not even an error."""
        return self.flag & FLAG_ONEWAY != 0

    def encode(self) -> bytes:
        """Write the whole frame, the header in the form that `serialize_type` says.

        Raises `HeaderError` when the header cannot carry a value (a code over 16 bits in a binary
        header, text that is no Unicode), `FrameError` when the frame would be too large.
        """
        parts = self.body_parts
        body = (self.body, *parts) if parts else self.body
        return encode_frame(self.serialize_type, self._header(), body)

    def encode_head(self, body_size: int) -> bytes:
        """Write the frame up to a body of this size, which is sent behind it as it is.

        Raises as `encode` does.
        """
        return encode_head(self.serialize_type, self._header(), body_size)

    def _header(self) -> bytes:
        return _ENCODE_HEADER[self.serialize_type](
            self.code,
            self.opaque,
            self.flag,
            self.language,
            self.version,
            self.remark,
            self.ext_fields,
        )

    @classmethod
    def decode(cls, frame: Frame) -> Self:
        """Read a frame; raises `HeaderError`, after which the connection cannot be used."""
        serialize_type, header, body = frame
        return cls(*_DECODE_HEADER[serialize_type](header), body, serialize_type)

    def answer(
        self,
        code: int,
        remark: str | None = None,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> "RemotingCommand":
        """Make the response to this request, in the form the request came in.

        The caller sets `version` and `language` (they belong to a profile), and `serialize_type`
        where the answer's form does not follow the request.
        """
        return RemotingCommand(
            code,
            self.opaque,
            FLAG_RESPONSE,
            remark=remark,
            ext_fields={} if ext_fields is None else ext_fields,
            body=body,
            serialize_type=self.serialize_type,
        )
