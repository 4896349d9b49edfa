"""How a stored message and a batch lie in bytes.

A *record* is what commit logs hold and what pull, query, view and transaction-check bodies carry,
back to back. A *batch item* is one message inside the body of a batch send. This module must not
know files, queues or users; what the properties mean is in `properties` and `delay`, how a body
is compressed in `compression`, how hosts and ids are written in `handles`.

Record, with two IPv4 hosts and a topic of at most 127 bytes (each IPv6 host adds 12, a longer
topic has the second magic and a two-byte length)::

    0 size 4    4 magic 4         8 body crc 4     12 queue id 4     16 flag 4
    20 queue offset 8             28 commit-log offset 8             36 sys flag 4
    40 born timestamp 8           48 born host 8                     56 store timestamp 8
    64 store host 8               72 reconsume times 4               76 prepared tx offset 8
    84 body length 4, body        topic length 1, topic              properties length 2, properties

Layout as in ``org.apache.rocketmq.store.MessageExtEncoder`` and ``MessageDecoder``. Java's decoder
ignores the CRC and gives up silently; ours checks it and says what is wrong and where.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import repeat
from struct import Struct
from struct import error as StructError  # noqa: N812 - reads as the exception it is
from typing import Final, NamedTuple, Protocol, TypeAlias

from attrs import define, field

from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.checksum import CRC_MASK, crc32
from rocketmq_py.protocol.compression import BODY_SIZE_MAX, BODY_SIZE_SETTING, decompress
from rocketmq_py.protocol.handles import encode_offset_id
from rocketmq_py.protocol.message_columns import (
    ITEM_HEAD,
    BatchColumns,
    Item,
    MessageColumns,
    read_even_items,
    write_even_records,
)
from rocketmq_py.protocol.properties import PROPERTIES_SIZE_MAX, Prop, decode_properties
from rocketmq_py.protocol.sysflag import BORN_HOST_V6, COMPRESSED, HOST_MASK, STORE_HOST_V6

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC_V1: Final = -626_843_481
"""``DAA320A7``: the topic has a one-byte length, at most 127."""
MAGIC_V2: Final = -626_843_477
"""``DAA320AB``: the topic has a two-byte length."""
MAGIC_BLANK: Final = -875_286_124
"""``CBD43194``: the rest of a commit-log file is empty. Never in a body."""

_MAGICS: Final = frozenset({MAGIC_V1, MAGIC_V2})

TOPIC_SIZE_MAX_V1: Final = 127
TOPIC_SIZE_MAX: Final = 32_767
IPV4_HOST_SIZE: Final = 8
IPV6_HOST_SIZE: Final = 20

_RECORD_SIZE_MIN: Final = 91
_TOPICS_REMEMBERED: Final = 1024
_NO_SIGN: Final = 0xFFFF_FFFF

_Head: TypeAlias = tuple[
    int, int, int, int, int, int, int, int, int, bytes, int, bytes, int, int, int
]


def _head(born_host_size: int, store_host_size: int) -> Struct:
    """Everything up to and including the body length."""
    return Struct(f">5i2qiq{born_host_size}sq{store_host_size}siqi")


_HEADS: Final = {
    0: _head(IPV4_HOST_SIZE, IPV4_HOST_SIZE),
    BORN_HOST_V6: _head(IPV6_HOST_SIZE, IPV4_HOST_SIZE),
    STORE_HOST_V6: _head(IPV4_HOST_SIZE, IPV6_HOST_SIZE),
    HOST_MASK: _head(IPV6_HOST_SIZE, IPV6_HOST_SIZE),
}
_HEAD_SIZE_BUT_HOSTS: Final = _HEADS[0].size - 2 * IPV4_HOST_SIZE
_IPV4_HEAD: Final = _HEADS[0]
_IPV4_HEAD_SIZE: Final = _IPV4_HEAD.size
_HOST_BITS: Final = {
    (born, store): (BORN_HOST_V6 if born == IPV6_HOST_SIZE else 0)
    | (STORE_HOST_V6 if store == IPV6_HOST_SIZE else 0)
    for born in (IPV4_HOST_SIZE, IPV6_HOST_SIZE)
    for store in (IPV4_HOST_SIZE, IPV6_HOST_SIZE)
}
_BATCH_HEAD: Final = Struct(">5i")


@define(slots=True, eq=False)
class MessageRecord:
    """One stored message, as it lies in the commit log.

    Hosts are packed (4 or 16 address bytes and an int32 port), timestamps epoch milliseconds,
    the body is as stored, and the properties are decoded when first asked for. `size` is the
    length of the whole record.
    """

    topic: str
    queue_id: int
    flag: int
    queue_offset: int
    commit_log_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_timestamp: int
    store_host: bytes
    body_crc: int
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes = field(repr=False)
    properties_bytes: bytes
    size: int
    _properties: dict[str, str] | None = field(default=None, init=False, repr=False)

    @property
    def properties(self) -> dict[str, str]:
        """The decoded properties: one dict per record, so a change is seen by later readers."""
        properties = self._properties
        if properties is None:
            properties = self._properties = decode_properties(self.properties_bytes)
        return properties

    def unpacked_body(
        self, size_max: int = BODY_SIZE_MAX, setting: str = BODY_SIZE_SETTING
    ) -> bytes:
        """Give the body as its sender wrote it, decompressed to at most `size_max` bytes.

        Raises BodyError for undecodable or larger bodies and for compression types that are
        unknown or whose extra is not installed.
        """
        if not self.sys_flag & COMPRESSED:
            return self.body
        return decompress(self.body, self.sys_flag, size_max, setting)

    @property
    def offset_msg_id(self) -> str:
        """The id that names where the record lies: its store host and commit-log offset."""
        return encode_offset_id(self.store_host, self.commit_log_offset)

    @property
    def msg_id(self) -> str:
        """The sender's id (UNIQ_KEY) if it gave one, else `offset_msg_id`."""
        return self.properties.get(Prop.UNIQ_KEY) or self.offset_msg_id


class Envelope(Protocol):
    """What messages that follow each other in one queue have in common."""

    topic: str
    queue_id: int
    sys_flag: int
    born_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int


def encode_neighbours(
    items: Iterable[Item],
    envelope: Envelope,
    queue_offset: int,
    commit_log_offset: int,
    store_timestamp: int,
    store_host: bytes,
) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Build the records of messages that follow each other in the log and in one queue.

    ``items`` are flag, born timestamp, body, encoded properties and tags code. Gives the bytes of
    all records and their consume queue entries: commit-log offset, size, tags code. The two IPv6
    bits of the sys flag are set from the lengths of the hosts.

    Raises RecordError naming the field that does not fit: a topic over 32,767 bytes, properties
    over 32,767, a host that is neither 8 nor 20 bytes, a number beyond its width.
    """
    if isinstance(items, MessageColumns) and items.is_even:
        return _encode_even(
            items, envelope, queue_offset, commit_log_offset, store_timestamp, store_host
        )
    queue_id, born_host = envelope.queue_id, envelope.born_host
    reconsume_times, prepared_offset = (
        envelope.reconsume_times,
        envelope.prepared_transaction_offset,
    )
    magic, topic_field, bits, pack, fixed_size = _frame(
        envelope.topic, len(born_host), len(store_host)
    )
    sys_flag = envelope.sys_flag & ~HOST_MASK | bits
    parts: list[bytes] = []
    entries: list[tuple[int, int, int]] = []
    props_len = -1
    try:
        for number, item in enumerate(items, queue_offset):
            flag, born_timestamp, body, properties, tags_code = item
            if len(properties) != props_len:  # those of a batch mostly have one length
                props_len = len(properties)
                if props_len > PROPERTIES_SIZE_MAX:
                    limit = f"{props_len} bytes, at most {PROPERTIES_SIZE_MAX} can be stored"
                    raise RecordError(0, "properties length", limit)
                middle, size_but_body = topic_field + props_len.to_bytes(2), fixed_size + props_len
            body_len = len(body)
            size = size_but_body + body_len
            head = pack(
                size,
                magic,
                crc32(body) & CRC_MASK,
                queue_id,
                flag,
                number,
                commit_log_offset,
                sys_flag,
                born_timestamp,
                born_host,
                store_timestamp,
                store_host,
                reconsume_times,
                prepared_offset,
                body_len,
            )
            parts += (head, body, middle, properties)
            entries.append((commit_log_offset, size, tags_code))
            commit_log_offset += size
    except StructError as error:
        raise _does_not_fit(error) from error
    return b"".join(parts), entries


def _encode_even(
    columns: MessageColumns,
    envelope: Envelope,
    queue_offset: int,
    commit_log_offset: int,
    store_timestamp: int,
    store_host: bytes,
) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Do it for messages of one size: the record of the first one holds what all have in common."""
    first = columns[0]
    hosts = len(envelope.born_host) + len(store_host)
    record, _ = encode_neighbours(
        [first], envelope, queue_offset, commit_log_offset, store_timestamp, store_host
    )
    size, body_at = len(record), _HEAD_SIZE_BUT_HOSTS + hosts
    topic_at, properties_at = body_at + len(first[2]), size - len(first[3])
    around = (record[:8], record[12:20], record[36:body_at], record[topic_at:properties_at])
    places = range(commit_log_offset, commit_log_offset + size * len(columns), size)
    try:
        data = write_even_records(around, columns, queue_offset, places)
    except StructError as error:
        raise _does_not_fit(error) from error
    return data, list(zip(places, repeat(size), columns.codes, strict=False))


def _does_not_fit(error: StructError) -> RecordError:
    return RecordError(0, "head", f"a number does not fit its field: {error}")


def decode_record(buffer: Buffer, offset: int = 0, *, check_crc: bool = True) -> MessageRecord:
    """Read the record that begins at `offset`; what follows it is not looked at.

    Raises RecordError naming offset, field and limit when bytes are missing, the magic is
    another, lengths do not add up to the size, or the body does not have its CRC.
    """
    available = len(buffer) - offset
    if available < _RECORD_SIZE_MIN or offset < 0:
        raise RecordError(offset, "size", f"{available} bytes left, a record has at least 91")
    head: _Head = _IPV4_HEAD.unpack_from(buffer, offset)
    head_size = _IPV4_HEAD_SIZE
    if head[7] & HOST_MASK:
        # Both hosts lie behind the sys flag, so the flag is right in any of the four layouts.
        layout = _HEADS[head[7] & HOST_MASK]
        head_size = layout.size
        if available < head_size:
            raise RecordError(offset, "size", f"{available} bytes left, the head has {head_size}")
        head = layout.unpack_from(buffer, offset)
    size, magic, body_crc = head[:3]
    body_len = head[14]
    if magic not in _MAGICS:
        raise RecordError(offset, "magic", f"{magic & _NO_SIGN:08X} is no record")
    if not _RECORD_SIZE_MIN <= size <= available:
        raise RecordError(offset, "size", f"{size}, but 91 to {available} are possible")

    end = offset + size
    body_at = offset + head_size
    topic_at = body_at + body_len + (1 if magic == MAGIC_V1 else 2)
    if body_len < 0 or topic_at + 2 > end:
        raise RecordError(offset, "body length", f"{body_len} in a record of {size} bytes")
    topic_len = buffer[topic_at - 1]
    if magic == MAGIC_V2:
        topic_len |= buffer[topic_at - 2] << 8
    properties_at = topic_at + topic_len + 2
    if properties_at > end:
        raise RecordError(offset, "topic length", f"{topic_len} in a record of {size} bytes")
    properties_len = buffer[properties_at - 2] << 8 | buffer[properties_at - 1]
    if properties_at + properties_len != end:
        reason = f"{properties_len}, but {end - properties_at} bytes are left in the record"
        raise RecordError(offset, "properties length", reason)

    body = bytes(buffer[body_at : body_at + body_len])
    if check_crc and crc32(body) & CRC_MASK != body_crc:
        found = f"{crc32(body) & CRC_MASK:08X}"
        raise RecordError(offset, "body CRC", f"{body_crc & _NO_SIGN:08X}, the body has {found}")
    return MessageRecord(
        str(buffer[topic_at : topic_at + topic_len], "utf-8", "replace"),
        *head[3:12],  # queue id to store host, in the order of the fields
        body_crc,
        head[12],
        head[13],
        body,
        bytes(buffer[properties_at:end]),
        size,
    )


class RecordHead(NamedTuple):
    """What a stored record says besides its body, read without it: a body may be large."""

    topic: bytes
    commit_log_offset: int
    store_timestamp: int
    store_host: bytes
    body_size: int
    properties_bytes: bytes

    @classmethod
    def of(cls, record: MessageRecord) -> "RecordHead":
        """Give that of a record which was read as a whole."""
        return cls(
            record.topic.encode(),
            record.commit_log_offset,
            record.store_timestamp,
            record.store_host,
            len(record.body),
            record.properties_bytes,
        )

    @property
    def offset_msg_id(self) -> str:
        """The id that names where the record lies."""
        return encode_offset_id(self.store_host, self.commit_log_offset)


def record_head(record: Buffer) -> RecordHead:
    """Read one whole record without its body; what is read of it is not checked.

    Raises RecordError when its lengths do not add up to its size.
    """
    head, topic_at, properties_at = _places(record)
    topic = bytes(record[topic_at : properties_at - 2])
    properties = bytes(record[properties_at:])
    return RecordHead(topic, head[6], head[10], head[11], max(head[14], 0), properties)


def record_properties(record: Buffer) -> bytes:
    """Give the properties text of one whole record, and nothing else.

    To read that text (``decode_properties``) takes as long as it has properties.
    Raises RecordError when its lengths do not add up to its size.
    """
    return bytes(record[_places(record)[2] :])


def _places(record: Buffer) -> tuple[_Head, int, int]:
    """Give the fixed fields of a whole record, and where topic and properties begin."""
    try:
        head: _Head = _IPV4_HEAD.unpack_from(record)
        if head[7] & HOST_MASK:
            layout = _HEADS[head[7] & HOST_MASK]
            head, at = layout.unpack_from(record), layout.size
        else:
            at = _IPV4_HEAD_SIZE
        at += max(head[14], 0)
        topic_len, at = record[at], at + 1
        if head[1] == MAGIC_V2:
            topic_len, at = topic_len << 8 | record[at], at + 1
        topic_at, at = at, at + topic_len + 2
        if at + (record[at - 2] << 8 | record[at - 1]) != len(record):
            raise RecordError(0, "properties length", "it does not end with the record")
    except (StructError, IndexError) as error:
        raise RecordError(0, "size", f"{len(record)} bytes are too few") from error
    return head, topic_at, at


def iter_records(buffer: Buffer, *, check_crc: bool = True) -> Iterator[MessageRecord]:
    """Give the records of a body one after the other, up to its end.

    At the first undecodable one RecordError is raised; those before it have been given.
    """
    offset = 0
    end = len(buffer)
    while offset < end:
        record = decode_record(buffer, offset, check_crc=check_crc)
        yield record
        offset += record.size


def decode_records(buffer: Buffer, *, check_crc: bool = True) -> list[MessageRecord]:
    """Give all records of a body or raise RecordError; `iter_records` gives the good ones first."""
    return list(iter_records(buffer, check_crc=check_crc))


def encode_batch(items: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """Build the body of a batch send from (flag, body, encoded properties) of each message.

    Raises RecordError for properties over 32,767 bytes or a flag beyond 32 bits; its offset is
    where the item would have begun.
    """
    parts: list[bytes] = []
    offset = 0
    for flag, body, properties in items:
        size = 22 + len(body) + len(properties)
        try:
            parts += (
                _BATCH_HEAD.pack(size, 0, 0, flag, len(body)),
                body,
                _batch_properties_length(len(properties), offset),
                properties,
            )
        except StructError as error:
            raise RecordError(offset, "flag", f"{flag} does not fit 32 bits") from error
        offset += size
    return b"".join(parts)


def decode_batch(body: Buffer, most: int = 1 << 31) -> list[tuple[int, bytes, bytes]]:
    """Give (flag, body, encoded properties) of each message in the body of a batch send.

    As `decode_batch_columns`, one message after the other.
    """
    return [*zip(*decode_batch_columns(body, most), strict=True)]


def decode_batch_columns(body: Buffer, most: int = 1 << 31) -> BatchColumns:
    """Give flags, bodies and encoded properties of the messages in the body of a batch send.

    Of a batch with more than ``most`` messages, one more than that are given: nobody wants all.
    Size, magic and CRC of an item are not looked at, as the original does not
    (``MessageExtEncoder.encode`` of a batch). Raises RecordError when a length leads out of the
    body.
    """
    body = bytes(body)
    even = read_even_items(body, most)
    if even is not None:
        return even
    flags: list[int] = []
    bodies: list[bytes] = []
    properties: list[bytes] = []
    unpack_head = ITEM_HEAD.unpack_from
    head_size = _BATCH_HEAD.size
    offset = 0
    end = len(body)
    for _ in range(most + 1):
        if offset >= end:
            break
        try:
            flag, body_len = unpack_head(body, offset)
        except StructError as error:
            left = f"{end - offset} bytes left, an item has at least 22"
            raise RecordError(offset, "size", left) from error
        body_at = offset + head_size
        properties_at = body_at + body_len + 2
        if body_len < 0 or properties_at > end:
            raise RecordError(offset, "body length", f"{body_len}, {end - body_at} bytes are left")
        properties_len = body[properties_at - 2] << 8 | body[properties_at - 1]
        item_end = properties_at + properties_len
        if properties_len > PROPERTIES_SIZE_MAX or item_end > end:
            reason = f"{properties_len}, {end - properties_at} bytes are left, 32767 allowed"
            raise RecordError(offset, "properties length", reason)
        flags.append(flag)
        bodies.append(body[body_at : properties_at - 2])
        properties.append(body[properties_at:item_end])
        offset = item_end
    return flags, bodies, properties


def _batch_properties_length(length: int, offset: int) -> bytes:
    if length > PROPERTIES_SIZE_MAX:
        limit = f"{length} bytes, at most {PROPERTIES_SIZE_MAX} can be stored"
        raise RecordError(offset, "properties length", limit)
    return length.to_bytes(2)


@lru_cache(maxsize=_TOPICS_REMEMBERED)
def _frame(
    topic: str, born_len: int, store_len: int
) -> tuple[int, bytes, int, Callable[..., bytes], int]:
    """Give what the records of a topic share; remembered, since few topics recur.

    That is the magic, the topic with its length, the bits of the hosts, what packs a head, and the
    size of a record without body and properties.
    """
    bits = _HOST_BITS.get((born_len, store_len))
    if bits is None:
        raise RecordError(0, "host", f"{born_len} and {store_len} bytes, each must be 8 or 20")
    magic, topic_field = _topic_field(topic)
    fixed_size = 74 + born_len + store_len + len(topic_field)
    return magic, topic_field, bits, _HEADS[bits].pack, fixed_size


def _topic_field(topic: str) -> tuple[int, bytes]:
    """Give magic and bytes of a topic with its length."""
    try:
        topic_bytes = topic.encode()
    except UnicodeEncodeError as error:
        raise RecordError(0, "topic", f"{topic[:80]!r} is no text") from error
    topic_len = len(topic_bytes)
    if topic_len > TOPIC_SIZE_MAX:
        limit = f"{topic_len} bytes, at most {TOPIC_SIZE_MAX}"
        raise RecordError(0, "topic length", limit)
    if topic_len <= TOPIC_SIZE_MAX_V1:
        return MAGIC_V1, topic_len.to_bytes(1) + topic_bytes
    return MAGIC_V2, topic_len.to_bytes(2) + topic_bytes
