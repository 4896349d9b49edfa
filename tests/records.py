"""Stored records that tests make up, field by field."""

from __future__ import annotations

from embedded_broker.store.put_values import InnerMessage
from rocketmq_py.protocol.message_codec import encode_neighbours


def encode_record(
    *,
    topic: str,
    queue_id: int,
    flag: int,
    queue_offset: int,
    commit_log_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: bytes,
    properties: bytes,
) -> bytes:
    """Build one record."""
    envelope = InnerMessage(
        topic,
        queue_id,
        body,
        sys_flag=sys_flag,
        born_host=born_host,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
    )
    items = [(flag, born_timestamp, body, properties, 0)]
    data, _ = encode_neighbours(
        items, envelope, queue_offset, commit_log_offset, store_timestamp, store_host
    )
    return data
