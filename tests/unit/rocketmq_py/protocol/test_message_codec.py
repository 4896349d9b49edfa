"""Stored records and batch bodies, byte for byte."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_broker.store.message_run import MessageRun
from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.handles import pack_host
from rocketmq_py.protocol.message_codec import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RecordHead,
    decode_batch,
    decode_record,
    decode_records,
    encode_batch,
    encode_neighbours,
    iter_records,
    record_head,
    record_properties,
)
from rocketmq_py.protocol.properties import decode_properties, encode_properties
from tests.records import encode_record

V4 = pack_host("127.0.0.1", 10911)
V6 = pack_host("fd00::1", 10911)


def record(**changes: Any) -> bytes:
    """Build the record of the specification's worked example, with changes."""
    fields: dict[str, Any] = {
        "topic": "T",
        "queue_id": 3,
        "flag": 7,
        "queue_offset": 5,
        "commit_log_offset": 237,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_000,
        "born_host": pack_host("10.0.0.9", 50000),
        "store_timestamp": 1_700_000_000_001,
        "store_host": V4,
        "reconsume_times": 2,
        "prepared_transaction_offset": 9,
        "body": b"hello",
        "properties": b"TAGS\x01a\x02",
    }
    return encode_record(**(fields | changes))


def int32(data: bytes, at: int) -> int:
    return int(struct.unpack_from(">i", data, at)[0])


def int64(data: bytes, at: int) -> int:
    return int(struct.unpack_from(">q", data, at)[0])


@pytest.mark.case("W38")
def test_every_field_of_a_record_lies_where_the_layout_says() -> None:
    data = record()
    assert 104 == len(data) == int32(data, 0)
    assert data[4:8].hex() == "daa320a7"
    assert [int32(data, 12), int32(data, 16)] == [3, 7]
    assert [int64(data, 20), int64(data, 28)] == [5, 237]
    assert int32(data, 36) == 0
    assert int64(data, 40) == 1_700_000_000_000
    assert pack_host("10.0.0.9", 50000) == data[48:56]
    assert int64(data, 56) == 1_700_000_000_001
    assert data[64:72] == V4
    assert int32(data, 72) == 2
    assert int64(data, 76) == 9
    assert data[84:93] == b"\x00\x00\x00\x05hello"
    assert data[93:95] == b"\x01T"
    assert data[95:] == b"\x00\x07TAGS\x01a\x02"


@pytest.mark.case("W38")
def test_a_record_with_tags_keys_and_a_user_property_comes_back() -> None:
    properties = {"TAGS": "TagA", "KEYS": "k1 k2", "colour": "blue", "UNIQ_KEY": "AB"}
    encoded = encode_properties(properties)
    data = record(properties=encoded)
    assert 91 + 5 + 1 + len(encoded) == len(data)
    read = decode_record(data)
    assert properties == read.properties
    assert read.properties is read.properties
    assert (
        read.topic,
        read.queue_id,
        read.flag,
        read.queue_offset,
        read.commit_log_offset,
    ) == ("T", 3, 7, 5, 237)
    assert (read.born_timestamp, read.store_timestamp) == (1_700_000_000_000, 1_700_000_000_001)
    assert (pack_host("10.0.0.9", 50000), V4) == (read.born_host, read.store_host)
    assert (2, 9, b"hello", len(data)) == (
        read.reconsume_times,
        read.prepared_transaction_offset,
        read.body,
        read.size,
    )
    assert read.msg_id == "AB"
    assert read.offset_msg_id == "7F00000100002A9F00000000000000ED"


def test_a_record_without_a_unique_key_is_named_by_its_offset() -> None:
    assert decode_record(record()).msg_id == "7F00000100002A9F00000000000000ED"


@pytest.mark.case("W39")
def test_the_crc_is_that_of_the_stored_body_and_a_flipped_byte_is_reported() -> None:
    data = bytearray(record())
    assert data[8:12].hex() == "3610a686"
    data[88] ^= 1
    with pytest.raises(RecordError, match="body CRC: 3610A686") as caught:
        decode_record(data)
    assert (caught.value.offset, caught.value.field) == (0, "body CRC")
    assert decode_record(data, check_crc=False).body == b"iello"


@pytest.mark.case("W40")
@pytest.mark.parametrize(
    ("born", "store", "bits", "extra"),
    [(V4, V4, 0, 0), (V6, V4, 0x10, 12), (V4, V6, 0x20, 12), (V6, V6, 0x30, 24)],
)
def test_an_ipv6_host_sets_its_bit_and_adds_twelve_bytes(
    born: bytes, store: bytes, bits: int, extra: int
) -> None:
    # Whatever the caller says about the two bits, the hosts decide.
    data = record(born_host=born, store_host=store, sys_flag=0x331)
    assert 104 + extra == len(data)
    read = decode_record(data, check_crc=False)
    assert 0x301 | bits == read.sys_flag
    assert (born, store) == (read.born_host, read.store_host)
    assert (read.body, read.topic, read.properties) == (b"hello", "T", {"TAGS": "a"})


@pytest.mark.parametrize(
    ("length", "magic", "size"),
    [(127, MAGIC_V1, 230), (128, MAGIC_V2, 232), (300, MAGIC_V2, 404)],
)
def test_a_topic_over_127_bytes_takes_the_second_form(length: int, magic: int, size: int) -> None:
    data = record(topic="t" * length)
    assert magic == int32(data, 4)
    assert size == len(data)
    assert "t" * length == decode_record(data).topic


def test_a_compressed_body_is_unpacked_on_request_and_kept_as_stored() -> None:
    import zlib

    packed = zlib.compress(b"hello" * 100)
    read = decode_record(record(body=packed, sys_flag=0x301))
    assert packed == read.body
    assert read.unpacked_body() == b"hello" * 100
    assert decode_record(record()).unpacked_body() == b"hello"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_is_read_at_any_offset(kind: Any) -> None:
    buffer = kind(b"xx" + record() + b"rest")
    assert decode_record(buffer, 2).topic == "T"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"topic": "t" * 32_768}, "topic length"),
        ({"topic": "\ud800"}, "topic"),
        ({"properties": b"p" * 32_768}, "properties length"),
        ({"born_host": b"1234567"}, "host"),
        ({"store_host": b""}, "host"),
        ({"queue_id": 2**31}, "head"),
        ({"commit_log_offset": 2**63}, "head"),
    ],
)
def test_what_does_not_fit_a_record_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(RecordError) as caught:
        record(**changes)
    assert field == caught.value.field


def patched(at: int, value: int, data: bytes | None = None) -> bytes:
    """Give a record with another number in one of its length fields."""
    changed = bytearray(record() if data is None else data)
    struct.pack_into(">i", changed, at, value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (record()[:90], "size"),
        (record()[:103], "size"),
        (b"", "size"),
        (record(born_host=V6, store_host=V6, topic="", body=b"", properties=b"")[:100], "size"),
        (patched(0, 90), "size"),
        (patched(0, -1), "size"),
        (patched(4, MAGIC_BLANK), "magic"),
        (patched(4, 0), "magic"),
        (patched(84, -1), "body length"),
        (patched(84, 100), "body length"),
        (record()[:93] + b"\xff" + record()[94:], "topic length"),
        (record()[:96] + b"\x06" + record()[97:], "properties length"),
        (record()[:96] + b"\x08" + record()[97:], "properties length"),
    ],
)
def test_a_damaged_record_is_reported_with_the_field(data: bytes, field: str) -> None:
    with pytest.raises(RecordError) as caught:
        decode_record(data)
    assert field == caught.value.field


@pytest.mark.parametrize("topic", ["T", "t" * 200])
@pytest.mark.parametrize("born_host", [V4, V6])
@pytest.mark.parametrize("properties", [b"", b"a\x011\x02b\x01x", b"a\x01" + b"y" * 30_000])
def test_properties_are_read_alone_as_with_the_rest(
    topic: str, born_host: bytes, properties: bytes
) -> None:
    data = record(topic=topic, born_host=born_host, properties=properties, body=b"z" * 70_000)
    found = decode_properties(record_properties(memoryview(data)))
    assert found == decode_record(data).properties
    assert bool(found) is bool(properties)
    head, whole = record_head(memoryview(data)), decode_record(data)
    assert head == RecordHead.of(whole)
    assert head.offset_msg_id == whole.offset_msg_id
    assert (head.topic, head.body_size) == (topic.encode(), 70_000)
    for size in (0, 50, 83, 84, 90, len(data) - 1):
        with pytest.raises(RecordError):
            record_properties(data[:size])
    with pytest.raises(RecordError):
        record_properties(data + b"more")


def outcome(read: Callable[[], dict[str, str]]) -> dict[str, str] | str:
    """What is read, or the field that is wrong."""
    try:
        return read()
    except RecordError as error:
        return error.field


@given(st.binary(max_size=200), st.integers(0, 150))
def test_properties_of_what_is_no_record_are_refused_by_name_or_read(data: bytes, at: int) -> None:
    whole = bytearray(record())
    whole[at : at + len(data)] = data
    found = outcome(lambda: decode_properties(record_properties(whole)))
    with_the_rest = outcome(lambda: decode_records(whole)[0].properties)
    if isinstance(found, str):
        assert found in {"size", "properties length"}
        assert isinstance(with_the_rest, str)
    elif not isinstance(with_the_rest, str):  # the rest may be wrong alone
        assert found == with_the_rest


def test_a_negative_offset_is_refused() -> None:
    with pytest.raises(RecordError):
        decode_record(record(), -1)


def test_records_are_given_up_to_the_first_damaged_one() -> None:
    good = [record(queue_offset=at) for at in range(3)]
    assert [read.queue_offset for read in decode_records(b"".join(good))] == [0, 1, 2]
    assert decode_records(b"") == []
    damaged = b"".join((*good, b"junk" * 40))
    seen: list[int] = []
    with pytest.raises(RecordError) as caught:
        seen.extend(read.queue_offset for read in iter_records(damaged))
    assert sum(map(len, good)) == caught.value.offset
    given = iter_records(damaged)
    assert [next(given).queue_offset for _ in range(3)] == [0, 1, 2]


@pytest.mark.case("W47")
def test_a_batch_of_three_messages_comes_back_with_their_own_unique_keys() -> None:
    items = [
        (flag, f"body {flag}".encode(), encode_properties({"UNIQ_KEY": f"{flag:032X}"}))
        for flag in range(3)
    ]
    body = encode_batch(items)
    assert sum(22 + len(item[1]) + len(item[2]) for item in items) == len(body)
    assert items == decode_batch(body)
    assert items == decode_batch(memoryview(body))


@pytest.mark.case("W47")
def test_a_batch_item_lies_as_the_layout_says_and_its_check_fields_are_not_read() -> None:
    body = encode_batch([(5, b"hi", b"a\x01b\x02")])
    assert struct.pack(">iiiii", 28, 0, 0, 5, 2) + b"hi\x00\x04a\x01b\x02" == body
    changed = struct.pack(">iii", 1, 2, 3) + body[12:]
    assert decode_batch(changed) == [(5, b"hi", b"a\x01b\x02")]


@pytest.mark.parametrize("length", [1, 19, 20, 21, 23, 25])
def test_a_truncated_batch_is_refused(length: int) -> None:
    body = encode_batch([(5, b"hi", b"a\x01b\x02")])
    with pytest.raises(RecordError):
        decode_batch(body[:length])


@pytest.mark.parametrize("length", [-1, 2**31 - 1])
def test_a_batch_with_an_impossible_body_length_is_refused(length: int) -> None:
    with pytest.raises(RecordError, match="body length"):
        decode_batch(patched(16, length, encode_batch([(0, b"hello", b"")])))


def test_a_batch_item_that_does_not_fit_is_refused() -> None:
    with pytest.raises(RecordError, match="properties length"):
        encode_batch([(0, b"", b"p" * 32_768)])
    with pytest.raises(RecordError, match="32 bits") as caught:
        encode_batch([(0, b"", b""), (2**31, b"", b"")])
    assert caught.value.offset == 22
    too_long = struct.pack(">iiiii", 0, 0, 0, 0, 0) + b"\x80\x00" + bytes(32_768)
    with pytest.raises(RecordError, match="32767 allowed"):
        decode_batch(too_long)


@pytest.mark.parametrize("born_host", [V4, V6])
@pytest.mark.parametrize("topic", ["T", "t" * 200])
def test_neighbours_have_the_same_bytes_as_records_made_one_by_one(
    born_host: bytes, topic: str
) -> None:
    same: dict[str, Any] = {
        "topic": topic,
        "queue_id": 3,
        "sys_flag": 1,
        "born_host": born_host,
        "store_timestamp": 1_700_000_000_005,
        "store_host": V4,
        "reconsume_times": 2,
    }
    items = [(7, 17, b"one", b"A\0011\2", 5), (-1, 18, b"", b"", -6), (0, 19, b"three", b"", 0)]
    data, entries = encode_neighbours(
        items, MessageRun(topic, 3, items, 1, born_host, 2), 5, 237, 1_700_000_000_005, V4
    )
    expected, at = b"", 237
    for number, (flag, born_timestamp, body, properties, code) in enumerate(items, 5):
        one = encode_record(
            queue_offset=number,
            commit_log_offset=at,
            flag=flag,
            born_timestamp=born_timestamp,
            body=body,
            properties=properties,
            prepared_transaction_offset=0,
            **same,
        )
        assert entries[number - 5] == (at, len(one), code)
        at += len(one)
        expected += one
    assert data == expected


def test_neighbours_with_properties_that_cannot_be_stored_are_refused() -> None:
    with pytest.raises(RecordError, match="properties length"):
        encode_neighbours(
            [(0, 0, b"", b"a" * 32_768, 0)], MessageRun("T", 0, [], 0, V4), 0, 0, 0, V4
        )


def test_neighbours_with_a_number_beyond_its_field_are_refused() -> None:
    with pytest.raises(RecordError, match="head"):
        encode_neighbours([(2**40, 0, b"", b"", 0)], MessageRun("T", 0, [], 0, V4), 0, 0, 0, V4)
