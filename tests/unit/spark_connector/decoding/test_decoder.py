"""Pulled bytes become columns: the fast and the slow path, which must agree on every record."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketmq_py import MessageExt, RemotingCommandException
from rocketmq_py.protocol.compression import compress
from rocketmq_py.protocol.message_codec import decode_record
from rocketmq_py.protocol.sysflag import CompressionType, with_compression
from spark_connector.decoding.decoder import Decoder
from spark_connector.decoding.property_table import SameNames, property_table
from spark_connector.decoding.read_columns import MS_MAX, projection
from tests.unit.spark_connector.conftest import RecordMaker, record

ROOT = Path(__file__).resolve().parents[3]
TIME = pa.timestamp("us", tz="UTC")
TEXTS = "topic broker_name message_id keys tags dedupe_id offset_msg_id born_host store_host"
EVERYTHING = pa.schema(
    [
        *(
            (name, pa.string())
            for name in f"{TEXTS} transaction_id sharding_key property.a".split()
        ),
        *(
            (name, pa.int32())
            for name in ["queue_id", "flag", "sys_flag", "body_crc", "store_size"]
        ),
        *((name, pa.int32()) for name in ["reconsume_times", "delay_level"]),
        *((name, pa.int64()) for name in ["offset", "commit_log_offset", "queue_size_left"]),
        *((name, TIME) for name in ["born_timestamp", "store_timestamp", "deliver_at"]),
        ("timestamp", pa.int64()),
        ("body", pa.binary()),
        ("value", pa.string()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("property", pa.struct([("a", pa.string()), ("none", pa.string())])),
    ]
)
BODY = pa.schema([("offset", pa.int64()), ("body", pa.binary())])


class CountingDecoder(Decoder):
    """Counts the rows that it took one by one."""

    one_by_one = 0

    def _row(self, raw: bytes | memoryview, at: int, max_offset: int) -> Any:
        self.one_by_one += 1
        return super()._row(raw, at, max_offset)


def decoder(schema: pa.Schema = EVERYTHING, **options: object) -> CountingDecoder:
    return CountingDecoder(projection(schema), topic="T", broker_name="b", **options)  # type: ignore[arg-type]


def both(
    raw: bytes, schema: pa.Schema = EVERYTHING, *, all_regular: bool = False
) -> list[dict[str, object]]:
    together, alone = decoder(schema), decoder(schema, fast=False)
    fast, fast_offsets = together.decode(raw, 100)
    slow, slow_offsets = alone.decode(raw, 100)
    assert slow.to_pylist() == fast.to_pylist()
    assert alone.one_by_one == slow.num_rows  # each path is one of its own
    assert not (all_regular and together.one_by_one)
    joined, _ = decoder(schema).decode(memoryview(bytearray(raw)), 100)
    assert joined.equals(fast)
    assert slow_offsets == fast_offsets
    assert slow.schema == fast.schema
    rows: list[dict[str, object]] = fast.to_pylist()
    return rows


@pytest.mark.case("SP12")
def test_every_column_shows_what_a_client_sees(make_record: RecordMaker) -> None:
    properties = {
        "KEYS": "k1 k2",
        "TAGS": "t",
        "UNIQ_KEY": "ID7",
        "DEDUPE_ID": "d",
        "a": "x",
        "TIMER_OUT_MS": "1700000000999",
        "DELAY": "3",
        "__SHARDINGKEY": "s",
    }
    raw = make_record(7, b"hello", properties, flag=5)
    (row,) = both(raw)
    seen = MessageExt.from_record(decode_record(raw), "b")
    assert row["message_id"] == seen.msg_id == "ID7"
    assert row["offset_msg_id"] == seen.offset_msg_id
    assert (row["born_host"], row["store_host"]) == (seen.born_host, seen.store_host)
    assert row["store_timestamp"].timestamp() * 1000 == seen.store_timestamp  # type: ignore[attr-defined]
    assert row["timestamp"] == seen.store_timestamp
    assert (row["keys"], row["tags"], row["property.a"]) == ("k1 k2", "t", "x")
    assert (row["dedupe_id"], row["sharding_key"], row["delay_level"]) == ("d", "s", 3)
    assert row["deliver_at"].timestamp() == 1700000000.999  # type: ignore[attr-defined]
    assert (row["flag"], row["reconsume_times"], row["body_crc"]) == (5, 2, seen.body_crc)
    assert (row["queue_size_left"], row["offset"], row["commit_log_offset"]) == (92, 7, 7000)
    assert (row["body"], row["value"], row["store_size"]) == (b"hello", "hello", len(raw))
    assert dict(row["properties"]) == properties  # type: ignore[call-overload]
    assert row["property"] == {"a": "x", "none": None}


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(("time_ms", "shown_ms"), [(2**63 - 1, MS_MAX), (-(2**63), -MS_MAX)])
def test_a_time_that_no_timestamp_can_hold_is_shown_as_the_first_or_the_last_one(
    fast: bool, time_ms: int, shown_ms: int
) -> None:
    deliver_at = {"TIMER_OUT_MS": "-999999999999999999"}
    raw = record(0, b"", deliver_at, store_timestamp=time_ms)
    schema = pa.schema([("store_timestamp", TIME), ("timestamp", pa.int64()), ("deliver_at", TIME)])
    found, _ = decoder(schema, fast=fast).decode(raw, 100)
    numbers = [column.cast(pa.int64()).to_pylist() for column in found.columns]
    assert numbers == [[shown_ms * 1000], [time_ms], [-MS_MAX * 1000]]


@pytest.mark.parametrize("fast", [True, False])
def test_an_origin_topic_loses_the_namespace_of_the_read(fast: bool) -> None:
    raw = b"".join(
        record(at, b"", {} if topic is None else {"RETRY_TOPIC": topic})
        for at, topic in enumerate(("shop%T", "U", None, "shop%"))
    )
    schema = pa.schema([("origin_topic", pa.string())])
    bare, _ = decoder(schema, fast=fast, namespace="shop").decode(raw, 100)
    assert bare.column(0).to_pylist() == ["T", "U", None, ""]
    whole, _ = decoder(schema, fast=fast).decode(raw, 100)
    assert whole.column(0).to_pylist() == ["shop%T", "U", None, "shop%"]


def odd_records() -> list[bytes]:
    v6 = bytes([0] * 15 + [1]) + bytes([0, 0, 4, 210])
    return [
        record(0, b"one", {"KEYS": "a"}),
        record(1, compress(b"x" * 500, CompressionType.ZLIB, 5), {"KEYS": "b"}, sys_flag=0x301),
        record(2, "dreißig 三".encode()),
        record(3, b"six", {"TAGS": "v6"}, born_host=v6),
        record(4, b"long", topic="T" * 200),
        record(5, b"twice", b"KEYS\x01k\x02KEYS\x01again"),
        record(6, b"last", b"\x01no name\x02b\x01\x02c\x011\x012\x02"),
    ]


@pytest.mark.case("SP13")
def test_odd_records_among_regular_ones_keep_their_place_and_value() -> None:
    rows = both(b"".join(odd_records()))
    assert [row["body"] for row in rows][1:3] == [b"x" * 500, "dreißig 三".encode()]
    assert [row["keys"] for row in rows] == ["a", "b", None, None, None, "again", None]
    assert rows[5]["properties"] == [("KEYS", "again")]
    assert rows[6]["properties"] == [("c", "1\x012")]


@pytest.mark.parametrize("number", range(7))
def test_each_odd_record_is_found_among_regular_ones(make_record: RecordMaker, number: int) -> None:
    raw = make_record(0) + odd_records()[number] + make_record(9, properties={"TAGS": "t"})
    both(raw)
    both(raw, BODY)  # no text column whose bytes would send all rows to the codec


def test_bytes_that_are_no_text_are_replaced_and_magic_bytes_in_a_body_mean_nothing(
    make_record: RecordMaker,
) -> None:
    body = b"\xda\xa3\x20\xa7" * 3
    raw = make_record(0, body) + make_record(1, b"bad \xff", b"KEYS\x01\xff\xfe\x02")
    rows = both(raw)
    assert both(raw[: len(make_record(0, body))])[0]["body"] == body
    assert (rows[1]["keys"], rows[1]["value"]) == ("\ufffd\ufffd", "bad \ufffd")


def test_runs_of_one_size_end_where_another_size_begins(make_record: RecordMaker) -> None:
    sizes = [5] * 40 + [7, 5] * 10 + [6] * 30 + [9]
    raw = b"".join(make_record(n, b"x" * size) for n, size in enumerate(sizes))
    rows = both(raw, BODY)
    assert [(row["offset"], row["body"]) for row in rows] == [
        (n, b"x" * size) for n, size in enumerate(sizes)
    ]
    run = b"".join(make_record(n) for n in range(40))
    for cut in (1, len(run) // 40 - 2):
        with pytest.raises(RemotingCommandException, match=r"offset 39|byte"):
            decoder(BODY).decode(run[:-cut], 40)


def test_properties_without_the_last_separator_need_no_codec() -> None:
    table, odd = property_table(pa.array([b"a\x01x\x02b\x01y", b"a\x01z", b""], pa.binary()))
    assert odd.tolist() == [False, False, False]
    assert table.column("a").to_pylist() == ["x", "z", None]


@pytest.mark.parametrize("last", ["\x02", ""])
def test_rows_with_the_same_names_are_told_from_rows_that_only_look_like_them(last: str) -> None:
    rows = [f"a\x01{n}\x02a long name\x01{'é' * n}{last}".encode() for n in range(1, 4)]
    table, odd = property_table(pa.array(rows, pa.binary()))
    assert isinstance(table, SameNames)
    assert not odd.any()
    assert table.column("a").to_pylist() == ["1", "2", "3"]
    assert table.column("a long name").to_pylist() == ["é", "éé", "ééé"]
    assert table.column("b").to_pylist() == [None] * 3
    assert table.names.to_pylist() == ["a", "a long name"] * 3
    assert table.values.to_pylist() == ["1", "é", "2", "éé", "3", "ééé"]
    for wrong in ("b\x011\x02a long name\x01x", "a\x011\x02a long namf\x01x", "a\x02b\x01c\x01d"):
        mixed = [*rows, f"{wrong}{last}".encode(), *rows]
        assert not isinstance(property_table(pa.array(mixed, pa.binary()))[0], SameNames)


@pytest.mark.case("SP77")
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(["KEYS", "a", "a name of more than eight", "é", "DELAY"]), unique=True
    ),
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00\x01\x02"), min_size=1)),
    st.sampled_from([b"", b"\x02"]),
)
def test_both_paths_agree_on_messages_that_all_have_the_same_names(
    names: list[str], texts: list[str], last: bytes
) -> None:
    stored = [
        b"\x02".join(f"{name}\x01{value}".encode() for name in names) + (last if names else b"")
        for value in texts
    ]
    both(b"".join(record(n, b"x", one) for n, one in enumerate(stored)), all_regular=True)


def test_a_body_of_four_mebibytes_is_given_whole(make_record: RecordMaker) -> None:
    body = bytes(range(256)) * (1 << 14)
    assert both(make_record(0, body) + make_record(1, b"y"), BODY)[0]["body"] == body


@pytest.mark.case("SP11")
def test_two_columns_are_decoded_without_looking_at_properties(make_record: RecordMaker) -> None:
    schema = pa.schema([("offset", pa.int64()), ("body", pa.string())])
    raw = make_record(0, b"a", {"x": "y"}) + make_record(1, b"b\xff")
    chosen = decoder(schema)
    batch, _ = chosen.decode(raw, 2)
    assert batch.to_pylist() == [{"offset": 0, "body": "a"}, {"offset": 1, "body": "b\ufffd"}]
    assert chosen.property_decodes == 0


def test_strict_text_refuses_bad_bytes_and_names_the_place(make_record: RecordMaker) -> None:
    schema = pa.schema([("body", pa.string())])
    with pytest.raises(RemotingCommandException, match="offset 4 is no UTF-8"):
        decoder(schema, strict_text=True).decode(make_record(4, b"\xff"), 5)


def test_only_wanted_tags_stay_and_all_offsets_are_told(make_record: RecordMaker) -> None:
    raw = b"".join(make_record(n, b"x", {"TAGS": "AB"[n % 2]}) for n in range(4)) + make_record(4)
    batch, offsets = decoder(BODY, tags=("A",)).decode(raw, 9)
    assert batch.column("offset").to_pylist() == [0, 2]
    assert offsets == [0, 1, 2, 3, 4]


def test_a_wrong_checksum_is_an_error_only_when_asked_for(make_record: RecordMaker) -> None:
    raw = bytearray(make_record(0, b"good") + make_record(1, b"good"))
    raw[len(raw) // 2 + 88] ^= 1
    assert decoder(BODY).decode(bytes(raw), 2)[0].num_rows == 2
    with pytest.raises(RemotingCommandException, match=r"offset 1 cannot be decoded.*CRC"):
        decoder(BODY, check_crc=True).decode(bytes(raw), 2)


def test_bytes_that_are_no_records_are_refused(make_record: RecordMaker) -> None:
    with pytest.raises(RemotingCommandException, match="topic T, broker b"):
        decoder(BODY).decode(make_record(0)[:-1], 1)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))]
)
def test_properties_come_as_json_or_as_pairs(make_record: RecordMaker, kind: pa.DataType) -> None:
    schema = pa.schema([("properties", kind)])
    rows = both(make_record(0, b"x", {"a": 'say "é"', "b": "1"}) + make_record(1), schema)
    if kind == pa.string():
        assert [row["properties"] for row in rows] == ['{"a":"say \\"é\\"","b":"1"}', "{}"]
    else:
        assert rows[0]["properties"] == [
            {"key": "a", "value": 'say "é"'},
            {"key": "b", "value": "1"},
        ]


@pytest.mark.case("SP77")
@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.binary(max_size=30),
            st.one_of(
                st.dictionaries(
                    st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "a", "DELAY", "TIMER_OUT_MS"]),
                    st.text(st.characters(codec="utf-8", exclude_characters="\x00\x01\x02")),
                ),
                st.binary(max_size=20).map(lambda raw: raw.replace(b"\x00", b"\x01")),
            ),
        ),
        max_size=8,
    )
)
@example([(b"x", {"DELAY": "3000000000"}), (b"y", {"DELAY": "3"})])
def test_both_paths_give_equal_rows_for_any_stored_messages(
    stored: list[tuple[bytes, dict[str, str] | bytes]],
) -> None:
    raw = b"".join(record(n, body, given) for n, (body, given) in enumerate(stored))
    all_regular = all(
        body.isascii() and isinstance(one, dict) and all(one.values()) for body, one in stored
    )
    both(raw, all_regular=all_regular)


HOSTS = {0: bytes([127, 0, 0, 1, 0, 0, 4, 210]), 0x10: bytes(range(16)) + bytes([0, 0, 4, 210])}


@pytest.mark.case("SP77")
@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])
@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.binary(max_size=40),
            st.sampled_from(["plain", "packed", "poison"]),
            st.sampled_from([0, 0x10]),
            st.sampled_from(["A", "B", ""]),
            st.text("ab\udc80".replace("\udc80", "é"), max_size=3),
        ),
        max_size=8,
    ),
    st.sampled_from([(), ("A",)]),
)
def test_both_paths_do_the_same_with_whatever_is_stored(
    mode: str, stored: list[tuple[bytes, str, int, str, str]], tags: tuple[str, ...]
) -> None:
    raw = b""
    for number, (body, kind, host_bit, tag, key) in enumerate(stored):
        given = {name: text for name, text in (("TAGS", tag), ("KEYS", key)) if text}
        packed = zlib.compress(body) if kind == "packed" else body
        sys_flag = host_bit | (kind != "plain")
        raw += record(number, packed, given, sys_flag=sys_flag, born_host=HOSTS[host_bit])
    schema = EVERYTHING.append(pa.field("_corrupt_record", pa.binary()))
    results: list[tuple[str, int] | tuple[list[dict[str, object]], list[int], int]] = []
    for fast in (True, False):
        one = decoder(schema, fast=fast, mode=mode, tags=tags)
        try:
            batch, offsets = one.decode(raw, 100)
        except RemotingCommandException as error:
            results.append((str(error), 0))
        else:
            results.append((batch.to_pylist(), offsets, one.malformed.count))
    assert results[0] == results[1]
    if mode != "FAILFAST":
        assert len(results[0]) == 3
        rows, offsets, count = results[0]
        assert offsets == list(range(len(stored)))
        broken = [row["offset"] for row in rows if row["_corrupt_record"] is not None]
        assert len(broken) == (count if mode == "PERMISSIVE" else 0)


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
import pyarrow as pa
from spark_connector.decoding.decoder import Decoder
from spark_connector.decoding.read_columns import projection
schema = pa.schema([("offset", pa.int64()), ("body", pa.binary())])
decoder = Decoder(projection(schema), topic="T", broker_name="b")
print(decoder.decode(bytes.fromhex(sys.argv[1]), 9)[0].to_pylist())
import spark_connector.writing.sending
"""


def test_reading_needs_no_numpy(make_record: RecordMaker) -> None:
    raw = make_record(3, b"x") + make_record(4, b"y")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMPY, raw.hex()], cwd=ROOT, capture_output=True, text=True
    )
    expected = [{"offset": 3, "body": b"x"}, {"offset": 4, "body": b"y"}]
    assert done.stdout.strip() == str(expected), done.stderr


@pytest.mark.parametrize("fast", [True, False])
def test_compressed_bodies_that_are_too_many_for_one_batch_make_several(fast: bool) -> None:
    kinds = [CompressionType.ZLIB, CompressionType.LZ4, CompressionType.ZSTD] * 3
    raw = b""
    for number, kind in enumerate(kinds):
        body = compress(bytes(1000), kind, 5)
        raw += record(2 * number, body, sys_flag=with_compression(0, kind))
        raw += record(2 * number + 1, b"plain" * 1000)
    one = decoder(BODY, fast=fast, bodies_size_max=2_500)
    parts = list(one.decode_parts(raw, 100))
    assert [offset for _, offsets in parts for offset in offsets] == list(range(18))
    assert [n for batch, _ in parts for n in batch.column("offset").to_pylist()] == list(range(18))
    sizes = [sum(map(len, packed_bodies(batch))) for batch, _ in parts]
    assert sizes == [2000, 2000, 2000, 2000, 1000]


def packed_bodies(batch: pa.RecordBatch) -> list[bytes]:
    return [body for body in batch.column("body").to_pylist() if not body.startswith(b"plain")]


def test_without_a_body_column_nothing_is_decompressed_and_one_batch_is_enough() -> None:
    raw = b"".join(record(n, b"no zlib", sys_flag=1) for n in range(9))
    one = decoder(pa.schema([("offset", pa.int64())]), bodies_size_max=1)
    assert [batch.num_rows for batch, _ in one.decode_parts(raw, 100)] == [9]


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE"])
def test_a_body_over_its_bound_is_malformed_and_names_the_option(mode: str) -> None:
    raw = record(0, compress(bytes(1001), CompressionType.ZLIB, 5), sys_flag=0x301) + record(1)
    one = decoder(BODY, body_size_max=1000, mode=mode)
    if mode == "PERMISSIVE":
        batch, _ = one.decode(raw, 100)
        assert batch.column("body").to_pylist() == [None, b"body"]
        return
    with pytest.raises(RemotingCommandException, match="decompressedBodyMaxBytes"):
        one.decode(raw, 100)


def test_what_cannot_be_decoded_counts_once_in_a_part_that_is_decoded_twice() -> None:
    packed = compress(bytes(1000), CompressionType.ZLIB, 5)
    raw = record(0, b"no zlib", sys_flag=1) + b"".join(
        record(n, packed, sys_flag=0x301) for n in range(1, 4)
    )
    one = decoder(BODY, mode="PERMISSIVE", bodies_size_max=1000)
    assert [batch.num_rows for batch, _ in one.decode_parts(raw, 100)] == [2, 1, 1]
    assert one.malformed.count == 1
