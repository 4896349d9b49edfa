"""Whatever is written comes back, and whatever is read either decodes or raises our error."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rocketmq_py.errors import RecordError, RemotingCommandException, RocketMQError
from rocketmq_py.protocol import message_columns
from rocketmq_py.protocol.compression import compress, decompress
from rocketmq_py.protocol.delay import (
    Delay,
    DelayKind,
    conflicts,
    effective_delay,
    has_delay,
    parse_number,
    release_due_ms,
    timer_out_ms,
)
from rocketmq_py.protocol.handles import (
    RecallHandle,
    decode_offset_id,
    encode_offset_id,
    pack_host,
    unpack_host,
)
from rocketmq_py.protocol.message_codec import (
    decode_batch,
    decode_record,
    decode_records,
    encode_batch,
    iter_records,
)
from rocketmq_py.protocol.properties import decode_properties, encode_properties
from rocketmq_py.protocol.sysflag import HOST_MASK, CompressionType, with_compression
from tests.records import encode_record

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
HOSTS = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"))
PROPERTIES = st.dictionaries(TEXT.filter(bool), TEXT.filter(bool), max_size=8)
FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "topic": st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
        | st.text("topic", min_size=120, max_size=140),
        "queue_id": INT32,
        "flag": INT32,
        "queue_offset": INT64,
        "commit_log_offset": INT64,
        "sys_flag": INT32,
        "born_timestamp": INT64,
        "born_host": HOSTS,
        "store_timestamp": INT64,
        "store_host": HOSTS,
        "reconsume_times": INT32,
        "prepared_transaction_offset": INT64,
        "body": st.binary(max_size=300),
        "properties": PROPERTIES.map(encode_properties),
    }
)
RECORDS = FIELDS.map(lambda fields: encode_record(**fields))


@given(FIELDS)
def test_a_record_comes_back_field_by_field(fields: dict[str, Any]) -> None:
    data = encode_record(**fields)
    record = decode_record(data)
    properties = fields.pop("properties")
    sys_flag = fields.pop("sys_flag")
    assert fields == {name: getattr(record, name) for name in fields}
    assert properties == record.properties_bytes
    assert sys_flag & ~HOST_MASK == record.sys_flag & ~HOST_MASK
    assert len(data) == record.size
    topic = fields["topic"].encode()
    parts = (topic, fields["body"], properties, fields["born_host"], fields["store_host"])
    assert len(data) == 74 + (1 if len(topic) <= 127 else 2) + sum(map(len, parts))


@given(st.lists(RECORDS, max_size=5))
def test_records_back_to_back_come_back_one_by_one(records: list[bytes]) -> None:
    data = b"".join(records)
    assert [len(record) for record in records] == [r.size for r in decode_records(data)]


def mutated(data: st.DataObject, original: bytes) -> bytes:
    """Cut, overwrite or insert somewhere."""
    if not original:
        return data.draw(st.binary(max_size=40))
    at = data.draw(st.integers(0, len(original) - 1))
    match data.draw(st.integers(0, 3)):
        case 0:
            return original[:at]
        case 1:
            return original[:at] + data.draw(st.binary(min_size=1, max_size=8)) + original[at:]
        case 2:
            return original[:at] + original[at + data.draw(st.integers(1, 8)) :]
        case _:
            patch = data.draw(st.binary(min_size=1, max_size=8))
            return original[:at] + patch + original[at + len(patch) :]


@given(st.data(), RECORDS)
def test_a_mutated_record_decodes_or_raises_our_error(data: st.DataObject, record: bytes) -> None:
    try:
        read = decode_record(mutated(data, record), check_crc=data.draw(st.booleans()))
    except RecordError:
        return
    try:
        body = read.unpacked_body(10_000)
    except RemotingCommandException:
        pass
    else:
        assert len(body) <= 10_000
    assert isinstance(read.properties, dict)
    assert isinstance(read.msg_id, str)


@given(st.binary(max_size=300), st.integers(-5, 305))
def test_any_bytes_decode_or_raise_our_error(data: bytes, offset: int) -> None:
    failure = None
    try:
        decode_record(data, offset)
    except RecordError as error:
        failure = error
    assert failure is None or failure.offset == offset


@given(st.data(), st.lists(RECORDS, min_size=1, max_size=4))
def test_the_records_before_a_damaged_one_are_given(
    data: st.DataObject, records: list[bytes]
) -> None:
    whole = b"".join(records)
    cut = data.draw(st.integers(0, len(whole) - 1))
    given_sizes: list[int] = []
    with suppress(RecordError):
        given_sizes.extend(record.size for record in iter_records(whole[:cut]))
    whole_before_cut = [at for at in range(len(records)) if len(b"".join(records[: at + 1])) <= cut]
    assert len(given_sizes) == len(whole_before_cut)
    assert [len(record) for record in records[: len(given_sizes)]] == given_sizes


ITEMS = st.lists(st.tuples(INT32, st.binary(max_size=60), st.binary(max_size=60)), max_size=5)


@given(ITEMS)
def test_a_batch_comes_back_item_by_item(items: list[tuple[int, bytes, bytes]]) -> None:
    assert items == decode_batch(encode_batch(items))


def one_by_one(body: bytes, most: int = 1 << 31) -> list[tuple[int, bytes, bytes]] | RecordError:
    """What a batch holds when its items are looked at one after the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_columns, "_FEW", 1 << 40)
        return outcome(body, most)


def outcome(body: bytes, most: int = 1 << 31) -> list[tuple[int, bytes, bytes]] | RecordError:
    try:
        return decode_batch(body, most)
    except RecordError as error:
        return error


@given(st.data(), st.integers(4, 12), st.integers(0, 9), st.integers(0, 9), st.integers(3, 12))
def test_items_of_one_size_are_read_as_items_of_any_size_are(
    data: st.DataObject, count: int, body_len: int, properties_len: int, most: int
) -> None:
    body, text = (
        st.binary(min_size=body_len, max_size=body_len),
        st.binary(min_size=properties_len, max_size=properties_len),
    )
    items = data.draw(st.lists(st.tuples(INT32, body, text), min_size=count, max_size=count))
    whole = encode_batch(items)
    assert items == decode_batch(whole)
    assert one_by_one(whole, most) == outcome(whole, most)
    changed = bytearray(whole)
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=3)):
        changed[at] = data.draw(st.integers(0, 40))
    assert str(one_by_one(bytes(changed))) == str(outcome(bytes(changed)))


@given(st.data(), ITEMS)
def test_a_mutated_batch_decodes_or_raises_our_error(
    data: st.DataObject, items: list[tuple[int, bytes, bytes]]
) -> None:
    body = mutated(data, encode_batch(items))
    try:
        found = decode_batch(body)
    except RecordError:
        return
    assert sum(22 + len(one) + len(text) for _, one, text in found) == len(body)


@given(PROPERTIES)
def test_properties_come_back(properties: dict[str, str]) -> None:
    encoded = encode_properties(properties)
    assert properties == decode_properties(encoded)
    assert properties == decode_properties(encoded[:-1])
    assert properties == decode_properties(encoded.replace(b"\x02", b"\x02\x02"))


@given(st.dictionaries(st.text(st.characters()), st.text(st.characters()), max_size=5))
def test_any_mapping_comes_back_without_its_empty_values_or_is_refused(
    properties: dict[str, str],
) -> None:
    try:
        encoded = encode_properties(properties)
    except RemotingCommandException:
        return
    kept = {name: value for name, value in properties.items() if value}
    assert kept == decode_properties(encoded)


@given(st.binary(max_size=300))
def test_any_bytes_are_properties_that_can_be_stored_again(data: bytes) -> None:
    properties = decode_properties(data)
    assert properties == decode_properties(encode_properties(properties))


@given(HOSTS, INT64)
def test_an_offset_id_comes_back(host: bytes, offset: int) -> None:
    ip, port, read = decode_offset_id(encode_offset_id(host, offset))
    assert (unpack_host(host), offset) == ((ip, port), read)
    assert host == pack_host(ip, port)


NO_BLANK = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" "))


@given(st.text(), NO_BLANK, NO_BLANK, INT64, NO_BLANK.filter(bool))
def test_a_recall_handle_comes_back_and_any_text_decodes_or_raises_our_error(
    text: str, topic: str, broker: str, timestamp_ms: int, uniq_key: str
) -> None:
    handle = RecallHandle(topic, broker, timestamp_ms, uniq_key)
    assert handle == RecallHandle.decode(handle.encode())
    for decode in (RecallHandle.decode, decode_offset_id):
        try:
            decode(text)
        except RemotingCommandException:
            continue


@given(
    st.data(), st.sampled_from([CompressionType.ZLIB, CompressionType.LZ4, CompressionType.ZSTD])
)
def test_a_mutated_compressed_body_decodes_or_raises_our_error(
    data: st.DataObject, compression: CompressionType
) -> None:
    body = data.draw(st.binary(max_size=200))
    packed = compress(body, compression)
    flag = with_compression(0, compression)
    assert body == decompress(packed, flag)
    try:
        assert len(decompress(mutated(data, packed), flag, 10_000)) <= 10_000
    except RemotingCommandException:
        return


NAMES = st.sampled_from([*(kind.value for kind in DelayKind), "TIMER_OUT_MS", "TIMER_DUE_MS"])
VALUES = st.integers(-10, 2**64).map(str) | st.text(max_size=5)


@given(st.dictionaries(NAMES, VALUES), st.booleans())
def test_any_delay_properties_are_read_or_refused_by_our_error(
    properties: dict[str, str], start_deliver: bool
) -> None:
    try:
        delay = effective_delay(properties, start_deliver=start_deliver)
    except RocketMQError:
        assert has_delay(properties)
        return
    names = conflicts(properties)
    if delay is not None:
        assert has_delay(properties)
        assert names == [] or names[0] == delay.kind.value or not start_deliver
        assert str(parse_number(properties[delay.kind.value])) == delay.text


@given(
    due=st.integers(1, 2**50),
    precision=st.sampled_from([100, 200, 500, 1000]),
    divisor=st.sampled_from([1, 2, 5, 10, 100]),
    kind=st.sampled_from([DelayKind.SEC, DelayKind.MS, DelayKind.DELIVER_AT]),
    ago_s=st.integers(1, 10**6),
)
def test_a_timer_is_released_inside_its_slot_never_early_and_within_the_release_precision(
    due: int, precision: int, divisor: int, kind: DelayKind, ago_s: int
) -> None:
    release_precision = precision // divisor
    asked = {DelayKind.SEC: ago_s, DelayKind.MS: ago_s * 1000, DelayKind.DELIVER_AT: due}[kind]
    stored = due - ago_s * 1000
    assume(stored > 0)
    out = timer_out_ms(Delay(kind, asked).due_ms(stored), precision)
    assert out < due <= out + precision
    assert out % precision == 0
    released = release_due_ms({kind.value: str(asked)}, stored, out, precision, release_precision)
    assert due <= released < due + release_precision
    assert released <= out + precision
