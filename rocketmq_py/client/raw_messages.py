"""What bulk tools must know about messages without making a `Message` of each.

Decoding of pulled bytes, blocks of message ids, limits of topics and properties, the queue of a
sharding key: the rules themselves are those of ``rocketmq_py.protocol``; this module is their
public face for programs that encode and decode many messages at once. Read on:
``queue_access.py``, which moves the bytes.
"""

import threading
from collections.abc import Iterator

from rocketmq_py.client.pool import local_address
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.checksum import CRC_MASK, crc32
from rocketmq_py.protocol.compression import BODY_SIZE_MAX, compress
from rocketmq_py.protocol.delay_doubts import UNKEPT, misspelt
from rocketmq_py.protocol.handles import UniqIdGenerator
from rocketmq_py.protocol.inner_batch import unwrapped_records
from rocketmq_py.protocol.message_codec import MAGIC_V1, decode_record
from rocketmq_py.protocol.names import NOT_SENDABLE_TOPICS, is_system_topic, topic_problem
from rocketmq_py.protocol.properties import PROPERTIES_SIZE_MAX, RESERVED, user_text_problem
from rocketmq_py.protocol.sysflag import (
    COMPRESSED,
    WRAPPED,
    CompressionType,
    with_compression,
    without_compression,
)
from rocketmq_py.protocol.tag_hash import java_hash

_SUFFIX_DIGITS = 12
_SUFFIX_BITS = 48


class MessageIds:
    """Hands out message ids (UNIQ_KEY) that are unique among all processes, one or a block.

    An id is what `Message` takes as ``unique_key``. RocketMQ's tools read sender and time in it.

    >>> len(MessageIds().next())
    32
    >>> prefix, first = MessageIds().block(3)
    >>> ids = [f"{prefix}{first + number:012X}" for number in range(3)]
    >>> {len(one) for one in ids}
    {32}
    """

    def __init__(self) -> None:
        self._generator = UniqIdGenerator(local_address())
        self._lock = threading.Lock()
        self._prefix = ""
        self._next = 0

    def next(self) -> str:
        """Give one new id. Thread-safe."""
        prefix, number = self.block(1)
        return f"{prefix}{number:0{_SUFFIX_DIGITS}X}"

    def block(self, count: int) -> tuple[str, int]:
        """Reserve ``count`` ids: id number k is prefix + 12 upper-case hex digits of first + k.

        Thread-safe. As ``MessageClientIDSetter``, time and counter are one growing number; the
        generator behind it belongs to this object, so nobody else gives out its ids.
        """
        with self._lock:
            fresh = self._generator.next()
            prefix, number = fresh[:-_SUFFIX_DIGITS], int(fresh[-_SUFFIX_DIGITS:], 16)
            if prefix == self._prefix and number < self._next:
                number = self._next  # a large block has borrowed time from the future
            if number + count > 1 << _SUFFIX_BITS:
                number = 0  # the month's last moment: begin again, as the counter itself does
            self._prefix, self._next = prefix, number + count
            return prefix, number


class RawMessages:
    """Rules about messages for programs that handle their bytes in bulk."""

    RECORD_MAGIC = MAGIC_V1 & 0xFFFF_FFFF
    """First magic of a stored record: hosts may be IPv6, the topic has at most 127 bytes."""

    WRAPPED = WRAPPED
    """Bits of the `sys_flag` of a record that holds a batch."""

    PROPERTIES_SIZE_MAX = PROPERTIES_SIZE_MAX
    """Bytes that the encoded properties of a message may take."""

    RESERVED_PROPERTIES = RESERVED
    """Names that a user property may not have."""

    UNKEPT_DELAYS = UNKEPT
    """Which numbers of a delay will not be kept, each range with its reason, by the property."""

    CRC_MASK = CRC_MASK
    crc32 = staticmethod(crc32)
    """The CRC32 of a body. A record has what `CRC_MASK` leaves of it."""

    @staticmethod
    def decode(
        raw: bytes | memoryview,
        offset: int = 0,
        broker_name: str = "",
        *,
        check_crc: bool = False,
        with_body: bool = True,
        body_size_max: int = BODY_SIZE_MAX,
    ) -> MessageExt:
        """Read the record that begins at ``offset``; its body is decompressed.

        Without ``with_body`` the body is left empty, so a broken one does no harm. Raises
        `RecordError` or `BodyError` when the record cannot be read, `BodyTooLargeError` when its
        body would have more than ``body_size_max`` bytes.
        """
        record = decode_record(raw, offset, check_crc=check_crc)
        sys_flag = record.sys_flag
        if not with_body:
            record.body, record.sys_flag = b"", without_compression(sys_flag)
        message = MessageExt.from_record(record, broker_name, body_size_max=body_size_max)
        message.sys_flag = sys_flag  # as stored, the compressed bit included
        return message

    @staticmethod
    def unwrapped(raw: bytes | memoryview, start: int, end: int) -> Iterator[bytes]:
        """Give pulled records one after the other, those of a batch together.

        Each message of a batch is a record of its own then. A compressed batch is decompressed
        when it is its turn, so a caller that joins the records bounds their size.

        Brokers store a batch for a BatchCQ topic as one record, whose `sys_flag` has the bits of
        `WRAPPED`. Of its messages those from queue offset ``start`` to before ``end`` are given.
        What cannot be taken apart stays as it is.
        """
        return unwrapped_records(raw, start, end)

    @staticmethod
    def topic_problem(topic: str) -> str | None:
        """Say why nobody may send to this topic, or None."""
        problem = topic_problem(topic)
        if problem is None and topic in NOT_SENDABLE_TOPICS:
            problem = f"topic {topic} is RocketMQ's own"
        return problem

    @staticmethod
    def is_system_topic(topic: str) -> bool:
        """Whether a topic is one of RocketMQ's own, which a list of all topics contains, too."""
        return is_system_topic(topic)

    @staticmethod
    def property_problem(name: str, value: str) -> str | None:
        """Say why a user may not write this property, or None. Reserved names are not checked."""
        return user_text_problem(name, value)

    @staticmethod
    def misspelt_delay(name: str) -> str | None:
        """Say why a property of this name delays nothing although it looks so, or None."""
        return misspelt(name)

    @staticmethod
    def hash_of_key(key: str) -> int:
        """Give the number whose remainder by the queue count is the queue of a sharding key.

        Java's ``abs(hashCode())``, so Java and Python producers agree.
        """
        return abs(java_hash(key))

    @staticmethod
    def compressed(body: bytes, kind: str) -> tuple[bytes, int]:
        """Compress a body with ``zlib``, ``lz4`` or ``zstd``; give it and the sysFlag to send.

        Raises BodyError when the extra that a kind needs is not installed.
        """
        chosen = CompressionType[kind.upper()]
        sys_flag = COMPRESSED
        if chosen is not CompressionType.ZLIB:
            sys_flag = with_compression(0, chosen)
        return compress(body, chosen, 5), sys_flag
