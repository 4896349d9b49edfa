from __future__ import annotations

import pytest

from rocketmq_py.errors import BodyTooLargeError, RecordError, RemotingCommandException
from rocketmq_py.protocol.compression import compress
from rocketmq_py.protocol.inner_batch import (
    BATCH_MAX,
    inner_count,
    is_wrapped,
    unwrap,
    unwrapped_records,
)
from rocketmq_py.protocol.message_codec import MessageRecord, decode_records, encode_batch
from rocketmq_py.protocol.properties import encode_properties
from rocketmq_py.protocol.sysflag import BORN_HOST_V6, INNER_BATCH, NEED_UNWRAP, CompressionType
from tests.records import encode_record

HOST = bytes(8)
FLAGS = INNER_BATCH | NEED_UNWRAP
ITEMS = [(7, b"one", b"UNIQ_KEY\1A\2"), (0, b"two", b""), (0, b"", b"TAGS\1t")]


def record(
    offset: int, body: bytes, sys_flag: int = 0, *, born_host: bytes = HOST, **properties: str
) -> bytes:
    return encode_record(
        topic="B",
        queue_id=3,
        flag=1,
        queue_offset=offset,
        commit_log_offset=1000 + offset,
        sys_flag=sys_flag,
        born_timestamp=11,
        born_host=born_host,
        store_timestamp=12,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body=body,
        properties=encode_properties(properties),
    )


def wrapped(offset: int, sys_flag: int = FLAGS, body: bytes | None = None) -> bytes:
    data = encode_batch(ITEMS) if body is None else body
    return record(offset, data, sys_flag, INNER_NUM="3", INNER_BASE=str(offset))


def told(messages: list[MessageRecord]) -> list[tuple[int, bytes, int]]:
    return [(one.queue_offset, one.body, one.sys_flag) for one in messages]


def test_a_batch_becomes_its_messages() -> None:
    (batch,) = decode_records(wrapped(5))
    assert is_wrapped(batch)
    messages = unwrap(batch)
    assert told(messages) == [(5, b"one", 0), (6, b"two", 0), (7, b"", 0)]
    first = messages[0]
    assert (first.topic, first.queue_id, first.flag, first.born_timestamp) == ("B", 3, 7, 11)
    assert (first.commit_log_offset, first.store_timestamp, first.size) == (1005, 12, 36)
    assert [one.properties for one in messages] == [{"UNIQ_KEY": "A"}, {}, {"TAGS": "t"}]
    assert [is_wrapped(one) for one in messages] == [False] * 3


@pytest.mark.parametrize("sys_flag", [0, INNER_BATCH, NEED_UNWRAP])
def test_a_record_without_both_bits_is_itself(sys_flag: int) -> None:
    (one,) = decode_records(wrapped(5, sys_flag))
    assert unwrap(one) == [one]


def test_a_batch_that_is_compressed_is_decompressed_first() -> None:
    body = compress(encode_batch(ITEMS), CompressionType.ZLIB, 5)
    (batch,) = decode_records(wrapped(0, FLAGS | 0x301, body))
    kind = 0x300  # it stays, as Java leaves it
    assert told(unwrap(batch)) == [(0, b"one", kind), (1, b"two", kind), (2, b"", kind)]


def test_a_body_that_is_no_batch_is_named_by_its_offset() -> None:
    (batch,) = decode_records(wrapped(5, body=b"nothing"))
    with pytest.raises(RecordError, match="offset 5, field body of the inner batch"):
        unwrap(batch)
    with pytest.raises(RemotingCommandException):
        unwrap(decode_records(wrapped(5, FLAGS | 1))[0])


def test_a_compressed_batch_that_would_be_larger_than_a_frame_is_refused() -> None:
    body = compress(encode_batch([(0, bytes(17 << 20), b"")]), CompressionType.ZLIB, 5)
    (batch,) = decode_records(wrapped(0, FLAGS | 0x301, body))
    with pytest.raises(BodyTooLargeError, match="16777216 bytes of a frame"):
        unwrap(batch)


@pytest.mark.parametrize(
    ("start", "end", "offsets"),
    [(0, 99, [4, 5, 6, 7, 8]), (6, 99, [4, 6, 7, 8]), (0, 6, [4, 5, 8])],
)
def test_every_message_becomes_a_record_of_its_own(
    start: int, end: int, offsets: list[int]
) -> None:
    body = record(4, b"before") + wrapped(5) + record(8, b"behind")
    records = decode_records(b"".join(unwrapped_records(memoryview(body), start, end)))
    assert [one.queue_offset for one in records] == offsets
    by_offset = {one.queue_offset: one for record in decode_records(body) for one in unwrap(record)}
    for one in records:
        same = by_offset[one.queue_offset]
        assert told([one]) == told([same])
        assert (one.properties, one.flag, one.commit_log_offset) == (
            same.properties,
            same.flag,
            same.commit_log_offset,
        )


def test_hosts_of_16_bytes_stay() -> None:
    sys_flag = FLAGS | BORN_HOST_V6
    body = record(0, encode_batch(ITEMS), sys_flag, born_host=bytes(range(20)))
    records = decode_records(b"".join(unwrapped_records(body, 0, 9)))
    assert [(one.born_host, one.sys_flag) for one in records] == [
        (bytes(range(20)), BORN_HOST_V6)
    ] * 3


@pytest.mark.parametrize("rest", [b"", b"\0", bytes(60), b"\xff" * 100])
def test_what_cannot_be_taken_apart_stays_as_it_is(rest: bytes) -> None:
    odd = wrapped(5, body=b"nothing")
    assert b"".join(unwrapped_records(odd + rest, 0, 9)) == odd + rest


@pytest.mark.parametrize(
    ("properties", "count"),
    [
        ("INNER_NUM\x013\2INNER_BASE\x010\2", 3),
        ("INNER_BASE\x010\2INNER_NUM\x0112", 12),
        ("INNER_NUM\x013\2", 1),
        ("INNER_BASE\x010\2XINNER_NUM\x013\2", 1),
        ("INNER_BASE\x010\2INNER_NUM\x010\2", 1),
        ("INNER_BASE\x010\2INNER_NUM\x01x\2", 1),
        ("INNER_BASE\x010\2INNER_NUM\x0199999\2", BATCH_MAX),
        ("", 1),
    ],
)
def test_properties_say_how_many_messages_a_record_counts(properties: str, count: int) -> None:
    assert inner_count(properties.encode()) == count
