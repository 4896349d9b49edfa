"""The answer to an accepted send, but for the few things that differ from one to the next.

Answers: how such a header looks, as a pattern to be filled. Must not know: what was stored. Read
on: `plain_sends.py` and `timed_sends.py`, which fill it.
"""

from typing import Final

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.handlers.send.send_message import SendMessageProcessor
from rocketmq_py.protocol.codes import FLAG_RESPONSE, LanguageCode, ResponseCode
from rocketmq_py.protocol.header_json import encode_header

__all__ = ["SAMPLE_KEY", "answer_pattern"]

# Values that occur nowhere else in an answer or in properties: what is around them is kept.
SAMPLE_KEY: Final = "0123456789ABCDEFFEDCBA9876543210"
_OFFSET: Final = "5A5A5A5A5A5A5A5A"
_QUEUE: Final = "1717171717"
_QUEUE_OFFSET: Final = "1818181818181818181"
_OPAQUE: Final = 1_919_191_919


def answer_pattern(core: BrokerCore, ordinary: SendMessageProcessor, handle: str = "") -> bytes:
    """Give the header of an answer, to be filled with what differs from one to the next.

    That is offset, queue, queue offset, UNIQ_KEY, with `handle` (which must occur in nothing else)
    the recall handle, and opaque.
    """
    ext_fields = ordinary.marks() | {
        "msgId": ordinary.host_digits + _OFFSET,
        "queueId": _QUEUE,
        "queueOffset": _QUEUE_OFFSET,
        "transactionId": SAMPLE_KEY,
    }
    if handle:
        ext_fields["recallHandle"] = handle
    header = encode_header(
        ResponseCode.SUCCESS,
        _OPAQUE,
        FLAG_RESPONSE,
        LanguageCode.JAVA,
        core.profile.version,
        None,
        ext_fields,
    ).replace(b"%", b"%%")
    for sample, directive in (
        (_OFFSET, b"%016X"),
        (_QUEUE, b"%d"),
        (_QUEUE_OFFSET, b"%d"),
        (SAMPLE_KEY, b"%b"),
        (str(_OPAQUE), b"%d"),
    ):
        header = header.replace(sample.encode(), directive)
    return header.replace(handle.encode(), b"%b") if handle else header
