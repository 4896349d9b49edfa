"""How the header of a send request becomes a message that is to be stored.

Request 10 has long field names; 310 and 320 have the same fields under one letter each. What many
requests say alike, which is all but topic, time and properties, is parsed once. Must not know: what
becomes of the message. Read on: ``send_message.py``.
"""

from functools import lru_cache
from typing import Final

from embedded_broker.core.incoming import Incoming, Terms
from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import MQVersion, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers import read_int64
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from rocketmq_py.protocol.names import ESCAPE_PRODUCER_PREFIX

TERMS_KEPT: Final = 1024
"""Parsed terms are kept for so many combinations of texts."""

_OWN: Final = {"topic": "", "bornTimestamp": "0"}
"""What each message has of its own; a header cannot be read without it."""
_TERMS: Final = tuple(
    field
    for field in SendMessageRequestHeader.FIELDS
    if field.wire not in {*_OWN, "properties", "bname"}
)
"""The fields that say how a message is to be sent."""


class SendHeader:
    """Reads headers of sends under the long field names, or under the short ones."""

    def __init__(self, *, short: bool) -> None:
        header = SendMessageRequestHeader
        self._read_all = header.from_ext_v2 if short else header.from_ext
        names = {field.wire: (short and field.short) or field.wire for field in header.FIELDS}
        self._topic, self._born = (names[one] for one in _OWN)
        self._properties = names["properties"]
        self._terms = tuple(names[field.wire] for field in _TERMS)

    def message(self, command: RemotingCommand) -> Incoming:
        """Read what is to be stored; raises `HeaderError` naming the first field that is wrong."""
        ext = command.ext_fields
        try:
            terms = _terms(
                command.code == RequestCode.SEND_BATCH_MESSAGE,
                command.version < MQVersion.V3_4_9,
                *map(ext.get, self._terms),
            )
            topic, born, text = ext[self._topic], ext[self._born], ext.get(self._properties, "")
            return Incoming(topic, command.body, text, read_int64(born), terms)
        except (HeaderError, KeyError, ValueError):
            self._read_all(ext)
            raise


@lru_cache(TERMS_KEPT)
def _terms(is_batch: bool, is_old: bool, *texts: str | None) -> Terms:
    named = zip((field.wire for field in _TERMS), texts, strict=True)
    fields = {name: text for name, text in named if text is not None}
    header = SendMessageRequestHeader.from_ext(_OWN | fields)
    if is_old:
        header.max_reconsume_times = None  # these clients do not mean what they write there
    if is_batch:
        header.batch = True
    return terms_of(header)


def terms_of(header: SendMessageRequestHeader) -> Terms:
    """Read how a message is to be sent."""
    return Terms(
        header.queue_id,
        header.flag,
        header.sys_flag,
        header.reconsume_times or 0,
        header.max_reconsume_times,
        header.default_topic,
        header.default_topic_queue_nums,
        bool(header.unit_mode),
        bool(header.batch),
        header.producer_group.startswith(ESCAPE_PRODUCER_PREFIX),
    )
