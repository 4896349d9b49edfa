"""Records on their way to a popping client: how they are read and written anew.

Must not know: who pops. Read on: `service.py`.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from attrs import evolve

from embedded_broker.tables.offsets.orders import OrderBlock
from rocketmq_py.protocol.message_codec import decode_record, encode_neighbours
from rocketmq_py.protocol.pop_handles import OrderCount, PopHandle
from rocketmq_py.protocol.properties import Prop, encode_properties

_RECORD_HEAD: Final = Struct(">i16xq")
"""Size and queue offset of a record."""


def split(buffer: memoryview) -> Iterator[memoryview]:
    """Give the records that lie back to back in a buffer."""
    begin = 0
    while begin < len(buffer):
        size, _ = _RECORD_HEAD.unpack_from(buffer, begin)
        yield buffer[begin : begin + size]
        begin += size


def queue_offsets(buffer: memoryview) -> Iterator[int]:
    """Give the queue offsets of the records in a buffer."""
    for record in split(buffer):
        yield _RECORD_HEAD.unpack_from(record)[1]


def renamed(data: memoryview, topic: str, handle: PopHandle) -> bytes:
    """Write a record anew under another topic, with its handle as a property."""
    record = decode_record(data, check_crc=False)
    own = handle._replace(offset=record.queue_offset)
    properties = {Prop.POP_CK: own.text()} | record.properties
    item = (record.flag, record.born_timestamp, record.body, encode_properties(properties), 0)
    anew, _ = encode_neighbours(
        [item],
        evolve(record, topic=topic),
        record.queue_offset,
        record.commit_log_offset,
        record.store_timestamp,
        record.store_host,
    )
    return anew


def order_counts(topic: str, queue_id: int, block: OrderBlock) -> list[OrderCount]:
    """Give how often messages of a block were handed out before; of the least often for all."""
    handed = block.handed or {}
    counts = [OrderCount(topic, queue_id, offset, number) for offset, number in handed.items()]
    least = min(handed.values(), default=0) if len(handed) == len(block.spans) else 0
    return [*counts, OrderCount(topic, queue_id, None, least)]
