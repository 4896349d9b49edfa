"""How a batch that is stored as one record becomes its messages again.

A broker stores a batch for a BatchCQ topic as one record: its body is that of the send, its
properties say how many messages it holds (INNER_NUM) and which queue offset the first one has
(INNER_BASE), its sys flag has both `INNER_BATCH` and `NEED_UNWRAP`. Whoever reads it takes it
apart. Must not know files or users; how an item lies in the body is in `message_codec`. Facts:
``CommitLog.setBatchSizeIfNeeded``, ``MessageDecoder.decodeMessage``.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rocketmq_py.errors import BodyError, RecordError
from rocketmq_py.protocol.checksum import CRC_MASK, crc32
from rocketmq_py.protocol.frame import FRAME_SIZE_MAX
from rocketmq_py.protocol.message_codec import (
    Buffer,
    MessageRecord,
    decode_batch,
    decode_record,
    encode_neighbours,
)
from rocketmq_py.protocol.properties import Prop
from rocketmq_py.protocol.sysflag import COMPRESSED, WRAPPED, without_compression

BATCH_MAX: Final = 32_767
"""Most messages of a batch that is one record: their number has two bytes in a queue."""
MESSAGE_COST: Final = 512
"""Memory that a message takes besides its body. The largest batch fits into that of a frame."""

_ITEM_SIZE: Final = 22
_SYS_FLAG_AT: Final = 36
_BASE: Final = f"{Prop.INNER_BASE}\x01".encode()
_count: Final = re.compile(
    f"(?:^|\x02){Prop.INNER_NUM}\x01([1-9][0-9]{{0,4}})(?=\x02|$)".encode()
).search


def inner_count(properties: bytes) -> int:
    """Say how many messages a record counts by its properties; one that says nothing counts 1."""
    found = _count(properties) if _BASE in properties else None
    return 1 if found is None else min(int(found[1]), BATCH_MAX)


def is_wrapped(record: MessageRecord) -> bool:
    """Whether a record is to be taken apart."""
    return record.sys_flag & WRAPPED == WRAPPED


def unwrap(record: MessageRecord, size_max: int = FRAME_SIZE_MAX) -> list[MessageRecord]:
    """Give the messages of a record: itself, unless it is a batch.

    Those of a batch have their own body, flag and properties, and the rest from their record; the
    two bits are gone from their sys flag. `size` is that of the item in the body. Raises
    RecordError or BodyError when the body is no batch, BodyTooLargeError when it has more than
    ``size_max`` bytes once it is decompressed. Clients compress no batches; without more said one
    may take as much memory as a plain one could.
    """
    if not is_wrapped(record):
        return [record]
    sys_flag = without_compression(record.sys_flag) & ~WRAPPED
    try:
        items = decode_batch(record.unpacked_body(size_max, "a frame"), BATCH_MAX)
    except RecordError as error:
        reason = f"no batch, at byte {error.offset} {error.field}: {error.reason}"
        raise RecordError(record.queue_offset, "body of the inner batch", reason) from error
    return [
        MessageRecord(
            record.topic,
            record.queue_id,
            flag,
            number,
            record.commit_log_offset,
            sys_flag,
            record.born_timestamp,
            record.born_host,
            record.store_timestamp,
            record.store_host,
            crc32(body) & CRC_MASK,
            record.reconsume_times,
            record.prepared_transaction_offset,
            body,
            properties,
            _ITEM_SIZE + len(body) + len(properties),
        )
        for number, (flag, body, properties) in enumerate(items, record.queue_offset)
    ]


def added_size(batch: MessageRecord, messages: Sequence[MessageRecord]) -> int:
    """Say how much memory the messages of a batch take besides its record.

    Of an empty message 22 bytes are stored, and less than one where the batch is compressed.
    """
    is_compressed = batch.sys_flag & COMPRESSED
    return len(messages) * MESSAGE_COST + (
        sum(one.size for one in messages) if is_compressed else 0
    )


def unwrapped_records(buffer: Buffer, start: int, end: int) -> Iterator[bytes]:
    """Give the records of a pulled body, those of a batch together, each message in one of its own.

    Messages of batches that lie before queue offset ``start``, or not before ``end``, are left out.
    What cannot be taken apart, or is no record, stays as it is.
    """
    at = 0
    while at < len(buffer):
        size = max(int.from_bytes(buffer[at : at + 4]), 1)
        sys_flag = int.from_bytes(buffer[at + _SYS_FLAG_AT : at + _SYS_FLAG_AT + 4])
        part = bytes(buffer[at : at + size])
        at += size
        if sys_flag & WRAPPED == WRAPPED:
            try:
                messages = unwrap(decode_record(part))
            except (RecordError, BodyError):
                pass
            else:
                yield b"".join(_encoded(one) for one in messages if start <= one.queue_offset < end)
                continue
        yield part


def _encoded(record: MessageRecord) -> bytes:
    item = record.flag, record.born_timestamp, record.body, record.properties_bytes, 0
    place = record.queue_offset, record.commit_log_offset
    data, _ = encode_neighbours([item], record, *place, record.store_timestamp, record.store_host)
    return data
