"""How the header of a send request becomes a message that is to be stored.

Request 10 has long field names; 310 and 320 have the same fields under one letter each. What many
requests say alike, which is all but topic, time and properties, is parsed once. Must not know: what
becomes of the message. Read on: ``send_message.py``.
"""

from typing import Final

from embedded_broker.core.send_values import Incoming, Terms
from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import MQVersion, RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers import read_int64
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from rocketmq_py.protocol.names import ESCAPE_PRODUCER_PREFIX

TERMS_KEPT: Final = 1024
"""Parsed terms are kept for so many combinations of texts."""
TEXTS_MAX: Final = 512
"""Terms whose texts have more characters are parsed each time."""

_OWN: Final = {"topic": "", "bornTimestamp": "0"}
"""What each message has of its own; a header cannot be read without it."""
_TERMS: Final = tuple(
    field
    for field in SendMessageRequestHeader.FIELDS
    if field.wire not in {*_OWN, "properties", "bname"}
)
"""The fields that say how a message is to be sent."""

Key = tuple[bool, bool, tuple[str | None, ...]]
"""Whether it is a batch, whether the client is old, and the texts of the fields of the terms."""


class SendHeader:
    """Reads headers of sends under the long field names, or under the short ones."""

    def __init__(self, *, short: bool) -> None:
        header = SendMessageRequestHeader
        self._read_all = header.from_ext_v2 if short else header.from_ext
        names = {field.wire: (short and field.short) or field.wire for field in header.FIELDS}
        self._topic, self._born = (names[one] for one in _OWN)
        self._properties = names["properties"]
        self._names = tuple(names[field.wire] for field in _TERMS)
        self._known: dict[Key, Terms] = {}

    def message(self, command: RemotingCommand) -> Incoming:
        """Read what is to be stored; raises `HeaderError` naming the first field that is wrong."""
        ext = command.ext_fields
        is_batch = command.code == RequestCode.SEND_BATCH_MESSAGE
        is_old = command.version < MQVersion.V3_4_9
        key = is_batch, is_old, tuple(map(ext.get, self._names))
        try:
            terms = self._known.get(key) or self._learn(key)
            topic, born, text = ext[self._topic], ext[self._born], ext.get(self._properties, "")
            return Incoming(topic, command.body, text, read_int64(born), terms)
        except (HeaderError, KeyError, ValueError):
            self._read_all(ext)
            raise

    def _learn(self, key: Key) -> Terms:
        """Parse terms, and keep them unless they are long."""
        is_batch, is_old, texts = key
        named = zip((field.wire for field in _TERMS), texts, strict=True)
        fields = {name: text for name, text in named if text is not None}
        header = SendMessageRequestHeader.from_ext(_OWN | fields)
        if is_old:
            header.max_reconsume_times = None  # these clients do not mean what they write there
        if is_batch:
            header.batch = True
        terms = terms_of(header)
        if sum(map(len, fields.values())) <= TEXTS_MAX:
            if len(self._known) >= TERMS_KEPT:
                self._known.clear()
            self._known[key] = terms
        return terms


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
