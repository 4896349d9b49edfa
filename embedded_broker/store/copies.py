"""Copies of stored messages under other topics, made from their bytes.

Answers: how a message that lies in the commit log becomes one of another topic without being taken
apart: its head is packed anew, body and properties are taken as they lie, and a few properties are
added behind. Must not know: why (the timer releases what is due), what the properties mean. What
cannot be copied this way is refused by ``CopyBatch.add``, and goes through ``MessageStore.put``:
IPv6 hosts, transactions, long topic names, whatever a hook wants to see.

The bytes are those that ``encode_neighbours`` would give. Read on: ``MessageStore.put_copies``,
``embedded_broker/timer/wheel/release.py`` for who copies.
"""

from typing import Final

from embedded_broker.store.commit_log import HEAD_IPV4, CommitLog
from embedded_broker.store.consume_queue import ConsumeQueue, Entry
from rocketmq_py.protocol.checksum import CRC_MASK, crc32
from rocketmq_py.protocol.message_codec import MAGIC_V1
from rocketmq_py.protocol.properties import PROPERTIES_SIZE_MAX
from rocketmq_py.protocol.sysflag import HOST_MASK, INNER_BATCH, TRANSACTION_MASK

_NOT_HERE: Final = HOST_MASK | TRANSACTION_MASK | INNER_BATCH
_HOST_SIZE: Final = 8
_TOPIC_SIZE_MAX: Final = 31
"""Names up to this length need no look at the limits of the store."""


def topic_field(topic: str) -> bytes | None:
    """Give a topic's name with its one-byte length; None for a long one, which is not copied."""
    name = topic.encode("utf-8", "surrogatepass")
    return None if len(name) > _TOPIC_SIZE_MAX else len(name).to_bytes(1) + name


def stored_parts(
    log: CommitLog, offset: int, size: int, topic: bytes
) -> tuple[memoryview, bytes, int] | None:
    """Take a stored record of a topic apart, as little as possible.

    ``topic`` is what ``topic_field`` gives. Gives the whole record, its properties and its store
    time. None when something else lies there, or a record that only
    ``CommitLog.record`` can judge.
    """
    view = log.files.read(offset, size)
    if view is None or size < HEAD_IPV4.size:
        return None
    found, magic, body_crc, _, _, _, own_offset, sys_flag, _, _, stored, _, _, _, body_size = (
        HEAD_IPV4.unpack_from(view)
    )
    if found != size or magic != MAGIC_V1 or own_offset != offset or sys_flag & _NOT_HERE:
        return None
    topic_at = HEAD_IPV4.size + body_size
    properties_at = topic_at + len(topic) + 2
    if body_size < 0 or properties_at > size or view[topic_at : properties_at - 2] != topic:
        return None
    if view[properties_at - 2] << 8 | view[properties_at - 1] != size - properties_at:
        return None
    if crc32(view[HEAD_IPV4.size : topic_at]) & CRC_MASK != body_crc:
        return None
    return view, bytes(view[properties_at:]), stored


class CopyBatch:
    """Copies that are stored together, in this order: one write to the log, one to each queue.

    ``begin`` is where the first one goes in the commit log. Nothing is changed before
    ``MessageStore.put_copies``. ``parts`` are the bytes, and ``entries`` what each queue
    gets. ``store_timestamp`` is that of the next copy and may grow between two of them.
    """

    def __init__(self, begin: int, *, store_host: bytes, store_timestamp: int) -> None:
        self.parts: list[bytes | memoryview] = []
        self.entries: dict[ConsumeQueue, list[Entry]] = {}
        self.end = begin
        self.store_timestamp = store_timestamp
        self._store_host = store_host

    def add(
        self,
        source: memoryview,
        properties: bytes,
        queue: ConsumeQueue,
        topic_field: bytes,
        tags_code: int,
    ) -> bool:
        """Copy a record with these properties instead of its own; False when it cannot be done.

        ``source`` comes from ``stored_parts``, ``topic_field`` is ``topic_field(queue.topic)``.
        """
        (_, magic, crc, _, flag, _, _, sys_flag, born, born_host, _, _, times, prepared, length) = (
            HEAD_IPV4.unpack_from(source)
        )
        properties_size = len(properties)
        if properties_size > PROPERTIES_SIZE_MAX or len(self._store_host) != _HOST_SIZE:
            return False
        entries = self.entries.get(queue)
        if entries is None:
            entries = self.entries[queue] = []
        queue_offset = queue.max_offset + len(entries)
        size = HEAD_IPV4.size + length + len(topic_field) + 2 + properties_size
        offset = self.end
        head = HEAD_IPV4.pack(
            size,
            magic,
            crc,
            queue.queue_id,
            flag,
            queue_offset,
            offset,
            sys_flag,
            born,
            born_host,
            self.store_timestamp,
            self._store_host,
            times,
            prepared,
            length,
        )
        body = source[HEAD_IPV4.size : HEAD_IPV4.size + length]
        self.parts += (head, body, topic_field, properties_size.to_bytes(2), properties)
        entries.append((offset, size, tags_code))
        self.end = offset + size
        return True
