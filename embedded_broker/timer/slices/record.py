"""A stored message, read just far enough to place it in time.

Answers: which second, which source and which topic the bytes of a timer's record name, without
decoding the rest: a slice is loaded by reading every record of it. Must not know: slices, files.
A record of a slice's log is a copy, byte for byte, of the one in the commit log; so the commit-log
offset that it says it lies at is that of its source.

Read on: `dcommit_log.py` for where records lie, `../request.py` for the properties.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple

from embedded_broker.timer.request import TimerRequest, parse_request
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.message_codec import MAGIC_V1, MAGIC_V2, decode_record
from rocketmq_py.protocol.properties import decode_properties
from rocketmq_py.protocol.sysflag import HOST_MASK

SECOND_MS: Final = 1000
_PLACE: Final = Struct(">ii20xq")
_HEAD: Final = Struct(">ii20xqi44xi")  # up to the body's length, with two IPv4 hosts
_OUT: Final = b"TIMER_OUT_MS\x01"
_TOPIC: Final = b"REAL_TOPIC\x01"
_MARK: Final = b"TIMER_DEL_UNIQKEY\x01"
_END: Final = b"\x02"
_SEPARATOR: Final = 2


class Glance(NamedTuple):
    """What a record says at first sight; `properties` are as stored, or decoded already."""

    source: int
    size: int
    second: int
    topic: str
    is_mark: bool
    properties: bytes | Mapping[str, str]

    def request(self) -> TimerRequest | None:
        """Read everything that the timer engine needs."""
        return parse_request(self.decoded())

    def decoded(self) -> Mapping[str, str]:
        """Give the properties."""
        properties = self.properties
        return decode_properties(properties) if isinstance(properties, bytes) else properties


def second_of(out_ms: int) -> int:
    """Give the second in which a timer with this TIMER_OUT_MS leaves: never before its time."""
    return out_ms // SECOND_MS + 1


def source_of(record: memoryview) -> int:
    """Give the commit-log offset that a record names as its own."""
    return int(_PLACE.unpack_from(record)[2])


def glance(record: memoryview) -> Glance | None:
    """Look at a whole record; None when it is no record, or no timer."""
    found = _properties(record)
    if found is None:
        return None
    source, properties = found
    out, topic = _value(properties, _OUT), _value(properties, _TOPIC)
    if not out.isdigit() or not topic:
        return None
    return Glance(
        source,
        len(record),
        second_of(int(out)),
        topic.decode("utf-8", "replace"),
        _find(properties, _MARK) >= 0,
        properties,
    )


def _properties(record: memoryview) -> tuple[int, bytes] | None:
    if len(record) < _HEAD.size:
        return None
    _, magic, source, sys_flag, body_size = _HEAD.unpack_from(record)
    if magic not in {MAGIC_V1, MAGIC_V2}:
        return None
    if sys_flag & HOST_MASK or magic == MAGIC_V2:
        try:
            whole = decode_record(record, check_crc=False)
        except RecordError:
            return None
        return whole.commit_log_offset, whole.properties_bytes
    topic_at = _HEAD.size + body_size
    if body_size < 0 or topic_at >= len(record):
        return None
    return source, bytes(record[topic_at + 1 + record[topic_at] + 2 :])


def _find(properties: bytes, name: bytes) -> int:
    """Give where the value of a property begins, -1 without it; `name` ends in the separator."""
    at = properties.find(name)
    while at > 0 and properties[at - 1] != _SEPARATOR:
        at = properties.find(name, at + 1)
    return -1 if at < 0 else at + len(name)


def _value(properties: bytes, name: bytes) -> bytes:
    at = _find(properties, name)
    if at < 0:
        return b""
    end = properties.find(_END, at)
    return properties[at:] if end < 0 else properties[at:end]
