"""Requests in the form in which clients write them, and answers that differ in a few values only.

What comes a hundred thousand times is read and answered without a `RemotingCommand`, which takes
longer than what is asked for. A request in any other form is none of these, whatever is wrong with
it: it is decoded and answered as a whole. Must not know: what fields mean. Read on:
``handlers/send/send_message.py`` and ``handlers/consume/pull_message.py``.
"""

from collections.abc import Mapping
from typing import Any, Final

from embedded_broker.remoting.journal import HEADER_KEPT_MAX
from rocketmq_py.protocol.codes import FLAG_RESPONSE, LanguageCode
from rocketmq_py.protocol.header_json import encode_header
from rocketmq_py.protocol.json_text import loads

OPAQUE_SAMPLE: Final = "1919191919"
_INT32_MAX: Final = 0x7FFF_FFFF
_TEXT_ONLY: Final = frozenset({str})
_NO_REMARK: Final = (None, "")  # as Go writes it


def usual_document(header: bytes, code: int) -> dict[str, Any] | None:
    """Read a JSON header; None unless it is a request ``code`` that wants an answer.

    Its extra fields are texts, and `RemotingCommand.decode` can read it, too.
    """
    if len(header) > HEADER_KEPT_MAX:
        return None
    try:
        document: dict[str, Any] = loads(header)
        opaque, version, flag = document["opaque"], document["version"], document["flag"]
        if (
            document["code"] == code
            and type(opaque) is type(version) is type(flag) is int
            and flag == 0
            and -_INT32_MAX <= opaque <= _INT32_MAX
            and 0 <= version <= _INT32_MAX
            and document.get("remark") in _NO_REMARK
            and _TEXT_ONLY.issuperset(map(type, document["extFields"].values()))
        ):
            return document
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    return None


def answer_pattern(
    code: int,
    remark: str | None,
    version: int,
    fields: dict[str, str],
    directives: Mapping[str, bytes],
) -> bytes:
    """Give the header of an answer as a pattern for ``%``; its last value is the opaque.

    ``directives`` says by which directive each sample among the ``fields`` is replaced, in their
    order. A sample must be a text that occurs nowhere else.
    """
    opaque = int(OPAQUE_SAMPLE)
    header = encode_header(
        code, opaque, FLAG_RESPONSE, LanguageCode.JAVA, version, remark, fields
    ).replace(b"%", b"%%")
    for sample, directive in {**directives, OPAQUE_SAMPLE: b"%d"}.items():
        header = header.replace(sample.encode(), directive)
    return header
