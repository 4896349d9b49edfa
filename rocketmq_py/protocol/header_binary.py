"""How the header of a command is written in RocketMQ's own binary form.

``int16 code, int8 language, int16 version, int32 opaque, int32 flag, int32 n, remark,
int32 n, {int16 n, key, int32 n, value}`` (`RocketMQSerializable`). An empty text cannot be
carried: it is read as absent. Must not know bodies; the other form is `header_json`.
"""

import struct
from typing import Final

from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import LanguageCode
from rocketmq_py.protocol.header_json import HeaderParts

_FIXED: Final = struct.Struct(">hbhiii")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT16_MAX: Final = 2**15 - 1
_LANGUAGE_MAX: Final = max(LanguageCode)
_OTHER: Final = int(LanguageCode.OTHER)


def encode_header(
    code: int,
    opaque: int,
    flag: int,
    language: int,
    version: int,
    remark: str | None,
    ext_fields: dict[str, str],
) -> bytes:
    """Write a header; raises `HeaderError` for a code over 16 bits instead of cutting it."""
    if not -_INT16_MAX - 1 <= code <= _INT16_MAX:
        raise HeaderError("code", code, "does not fit the 16 bits of a binary header: use JSON")
    field = "remark"
    try:
        remark_bytes = remark.encode() if remark else b""
        pairs: list[bytes] = []
        for field, value in ext_fields.items():
            key_bytes = field.encode()
            value_bytes = value.encode()
            pairs += (
                _INT16.pack(len(key_bytes)),
                key_bytes,
                _INT32.pack(len(value_bytes)),
                value_bytes,
            )
        field = "header"
        ext_bytes = b"".join(pairs)
        fixed = _FIXED.pack(code, language, version, opaque, flag, len(remark_bytes))
    except (struct.error, UnicodeEncodeError) as error:
        raise HeaderError(field, None, f"cannot be written: {error}") from error
    return b"".join((fixed, remark_bytes, _INT32.pack(len(ext_bytes)), ext_bytes))


def decode_header(header: bytes) -> HeaderParts:
    """Read a header; raises `HeaderError` for any length that leaves the header."""
    size = len(header)
    if size < _FIXED.size:
        raise HeaderError("header", size, f"is shorter than its {_FIXED.size + 4} fixed bytes")
    code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
    at = _FIXED.size
    if not 0 <= remark_size <= size - at - 4:
        raise HeaderError("remark", remark_size, f"length leaves the header of {size} bytes")
    try:
        remark = header[at : at + remark_size].decode() if remark_size else None
    except UnicodeDecodeError as error:
        raise HeaderError("remark", None, f"is not UTF-8: {error}") from error
    at += remark_size
    (ext_size,) = _INT32.unpack_from(header, at)
    at += 4
    if not 0 <= ext_size <= size - at:
        raise HeaderError("extFields", ext_size, f"length leaves the header of {size} bytes")
    ext_fields = _pairs(header, at, at + ext_size) if ext_size else {}
    if not 0 <= language <= _LANGUAGE_MAX:
        language = _OTHER
    return code, opaque, flag, language, version, remark, ext_fields


def _pairs(header: bytes, at: int, end: int) -> dict[str, str]:
    """Read keys and values from `at` to exactly `end`; empty ones are absent."""
    number = int.from_bytes
    pairs: dict[str, str] = {}
    try:
        while at < end:
            key_end = at + 2 + number(header[at : at + 2], "big")
            value_at = key_end + 4
            value_end = value_at + number(header[key_end:value_at], "big")
            if value_end > end or value_at > end:
                raise HeaderError("extFields", value_end - at, f"entry at offset {at} is cut off")
            if value_end > value_at and key_end > at + 2:
                key = header[at + 2 : key_end].decode()
                pairs[key] = header[value_at:value_end].decode()
            at = value_end
    except UnicodeDecodeError as error:
        raise HeaderError("extFields", None, f"entry at offset {at} is not UTF-8") from error
    return pairs
