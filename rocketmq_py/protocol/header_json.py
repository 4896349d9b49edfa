"""How the header of a command is written as JSON, and how foreign writings of it are read.

The reader accepts what servers must accept: left-out keys, unknown keys, numbers, booleans and
nulls among the extra fields, a code as text, a language as number or in any case
(`RemotingSerializable`, fastjson). The writer emits extra fields as text only, because Go and C++
clients read nothing else. Must not know bodies; the other form is `header_binary`.
"""

from typing import Any, Final

from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import LanguageCode
from rocketmq_py.protocol.json_text import dumps, loads

_LANGUAGE_NAMES: Final = tuple(language.name for language in LanguageCode)
_LANGUAGES: Final[dict[object, int]] = {language.name: int(language) for language in LanguageCode}
_OTHER: Final = int(LanguageCode.OTHER)
_JAVA: Final = int(LanguageCode.JAVA)


HeaderParts = tuple[int, int, int, int, int, str | None, dict[str, str]]
"""What every header says, whichever way it is written: code, opaque, flag, language, version,
remark, extra fields; the order of `RemotingCommand`."""


def encode_header(
    code: int,
    opaque: int,
    flag: int,
    language: int,
    version: int,
    remark: str | None,
    ext_fields: dict[str, str],
) -> bytes:
    """Write a header as Java does: keys in order, null left out, no spaces."""
    document: dict[str, object] = {"code": code}
    if ext_fields:
        document["extFields"] = ext_fields
    document["flag"] = flag
    document["language"] = (
        _LANGUAGE_NAMES[language] if 0 <= language < len(_LANGUAGE_NAMES) else "OTHER"
    )
    document["opaque"] = opaque
    if remark is not None:
        document["remark"] = remark
    document["version"] = version
    try:
        return dumps(document)
    except ValueError as error:
        raise HeaderError("extFields", None, str(error)) from error


def decode_header(header: bytes) -> HeaderParts:
    """Read a header; raises `HeaderError` naming the field that cannot be read."""
    try:
        document = loads(header)
    except ValueError as error:
        raise HeaderError("header", None, f"is no JSON text: {error}") from error
    if type(document) is not dict:
        raise HeaderError("header", None, "is no JSON object")
    get = document.get
    code = get("code", 0)
    opaque = get("opaque", 0)
    flag = get("flag", 0)
    version = get("version", 0)
    if type(code) is not int or not -0x8000_0000 <= code <= 0x7FFF_FFFF:
        code = _int32("code", code)
    if type(opaque) is not int or not -0x8000_0000 <= opaque <= 0x7FFF_FFFF:
        opaque = _int32("opaque", opaque)
    if type(flag) is not int or not -0x8000_0000 <= flag <= 0x7FFF_FFFF:
        flag = _int32("flag", flag)
    if type(version) is not int or not -0x8000_0000 <= version <= 0x7FFF_FFFF:
        version = _int32("version", version)
    language = get("language", "JAVA")
    language = (
        _LANGUAGES[language]
        if type(language) is str and language in _LANGUAGES
        else _language(language)
    )
    remark = get("remark")
    if remark is not None and type(remark) is not str:
        remark = _text("remark", remark)
    ext_fields = get("extFields")
    if not ext_fields:
        ext_fields = {}
    elif type(ext_fields) is not dict:
        raise HeaderError("extFields", ext_fields, "is no JSON object")
    elif not _TEXT_ONLY.issuperset(map(type, ext_fields.values())):
        ext_fields = {
            key: value if type(value) is str else _text(key, value)
            for key, value in ext_fields.items()
            if value is not None
        }
    return code, opaque, flag, language, version, remark, ext_fields


_TEXT_ONLY: Final = frozenset({str})


def opaque_of_success(header: bytes) -> int | None:
    """Read nothing but the opaque of an answer that says success, at a sixth of the cost.

    None: it is something else, or not written as servers write it, and `decode_header` says what
    it is. No request has the code 0, and inside of a JSON text every quotation mark has a
    backslash, so that what is found here is the name of a field.
    """
    if not header.startswith(_SUCCESS):
        return None
    at = header.rfind(_OPAQUE) + len(_OPAQUE)
    number = header[at : header.find(b",", at)]
    if at < len(_SUCCESS) or len(number) > _OPAQUE_DIGITS_MAX or not number.isdigit():
        return None
    return int(number)


_OPAQUE_DIGITS_MAX: Final = 10
_SUCCESS: Final = b'{"code":0,'
_OPAQUE: Final = b'"opaque":'


# Any: these functions exist to look at what the peer put into a JSON field.
def _int32(field: str, value: Any) -> int:
    """Read a number that may be missing or written as text."""
    number = value
    if value is None:
        return 0
    if type(value) is str:
        try:
            number = int(value)
        except ValueError:
            number = None
    if type(number) is not int or not -0x8000_0000 <= number <= 0x7FFF_FFFF:
        raise HeaderError(field, value, "is no 32-bit integer")
    return number


def _language(value: Any) -> int:
    """Read a language by ordinal or by name in any case; whatever is unknown is OTHER."""
    if value is None:
        return _JAVA
    if type(value) is str:
        return _LANGUAGES.get(value.upper(), _OTHER)
    if type(value) is int and 0 <= value < len(_LANGUAGE_NAMES):
        return value
    return _OTHER


def _text(field: str, value: Any) -> str:
    """Read a value that is not text the way fastjson makes it text."""
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is int:
        return str(value)
    try:
        return dumps(value).decode()
    except ValueError as error:
        raise HeaderError(field, None, str(error)) from error
