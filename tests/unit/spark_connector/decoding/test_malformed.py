"""Records that cannot be decoded: what is shown of them, by which mode, and what is logged."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from rocketmq_py import RemotingCommandException
from spark_connector.decoding.decoder import Decoder
from spark_connector.decoding.malformed import SHOWN, Malformed
from spark_connector.decoding.read_columns import ddl_of, projection
from spark_connector.errors import SchemaError
from tests.unit.spark_connector.conftest import RecordMaker

SCHEMA = pa.schema(
    [
        *(("topic", pa.string()), ("broker_name", pa.string()), ("queue_id", pa.int32())),
        *(("offset", pa.int64()), ("keys", pa.string()), ("body", pa.binary())),
        *(("queue_size_left", pa.int64()), ("_corrupt_record", pa.binary())),
    ]
)


def decoder(mode: str, schema: pa.Schema = SCHEMA, **options: object) -> Decoder:
    columns = projection(schema, mode=mode)
    return Decoder(columns, topic="T", broker_name="b", mode=mode, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("fast", [True, False])
def test_what_can_be_read_of_a_broken_record_is_shown(make_record: RecordMaker, fast: bool) -> None:
    good = make_record(0, b"good", {"KEYS": "a"})
    poison = make_record(1, b"no zlib", {"KEYS": "b"}, sys_flag=1)
    odd = bytearray(make_record(2, b"body", {"KEYS": "c"}))
    odd[84:88] = (1_000).to_bytes(4)  # the length of its body leads out of it
    raw = good + poison + bytes(odd) + make_record(3, b"end")
    with pytest.raises(RemotingCommandException, match="queue 1, offset 1 cannot be decoded"):
        decoder("FAILFAST", fast=fast).decode(raw, 4)
    one = decoder("PERMISSIVE", fast=fast)
    batch, offsets = one.decode(raw, 4)
    rows = batch.to_pylist()
    assert offsets == [row["offset"] for row in rows] == [0, 1, 2, 3]
    assert {(row["topic"], row["broker_name"], row["queue_id"]) for row in rows} == {("T", "b", 1)}
    assert [row["body"] for row in rows] == [b"good", None, None, b"end"]
    assert [row["keys"] for row in rows] == ["a", "b", None, None]
    assert [row["_corrupt_record"] for row in rows] == [None, poison, bytes(odd), None]
    assert [row["queue_size_left"] for row in rows] == [3, None, None, 0]
    assert one.malformed.count == 2
    dropped, offsets = decoder("DROPMALFORMED", fast=fast).decode(raw, 4)
    assert dropped.column("offset").to_pylist() == [0, 3]
    assert offsets == [0, 1, 2, 3]  # nothing is missing


def test_a_checksum_and_text_that_is_none_are_broken_too(make_record: RecordMaker) -> None:
    raw = bytearray(make_record(0, b"good") + make_record(1, b"\xff"))
    raw[88] ^= 1
    schema = pa.schema([("body", pa.string()), ("_corrupt_record", pa.string())])
    strict = decoder("PERMISSIVE", schema, check_crc=True, strict_text=True)
    rows = strict.decode(bytes(raw), 2)[0].to_pylist()
    assert [row["body"] for row in rows] == [None, None]
    assert "offset 0 cannot be decoded" in rows[0]["_corrupt_record"]
    assert "CRC" in rows[0]["_corrupt_record"]
    assert "offset 1 is no UTF-8" in rows[1]["_corrupt_record"]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_without_a_size_nobody_knows_where_the_next_record_begins(
    make_record: RecordMaker, mode: str
) -> None:
    for size in (0, 50, 5_000):
        raw = bytearray(make_record(0, b"x") + make_record(1, b"y"))
        raw[:4] = size.to_bytes(4)
        with pytest.raises(RemotingCommandException, match="offset 0 cannot be decoded"):
            decoder(mode).decode(bytes(raw), 2)


def test_a_body_that_nobody_asked_for_breaks_nothing(make_record: RecordMaker) -> None:
    raw = make_record(0, b"no zlib", {"KEYS": "b"}, sys_flag=1)
    for fast in (True, False):
        asked = pa.schema([("offset", pa.int64()), ("keys", pa.string()), ("sys_flag", pa.int32())])
        batch, _ = decoder("FAILFAST", asked, fast=fast, check_crc=True).decode(raw, 1)
        assert batch.to_pylist() == [{"offset": 0, "keys": "b", "sys_flag": 1}]


def test_the_column_has_the_name_and_the_types_that_it_may_have() -> None:
    assert ddl_of(["body", "Broken"], corrupt="broken") == "`body` BINARY, `Broken` BINARY"
    with pytest.raises(SchemaError, match="unknown column _corrupt_record"):
        ddl_of(["_corrupt_record"], corrupt="broken")
    with pytest.raises(SchemaError, match="cannot be int64: it must be binary or string"):
        projection(pa.schema([("_corrupt_record", pa.int64())]))
    never_null = pa.schema([pa.field("body", pa.binary(), nullable=False)])
    assert projection(never_null)
    with pytest.raises(SchemaError, match="column body is NOT NULL"):
        projection(never_null, mode="PERMISSIVE")
    place = pa.schema([pa.field("offset", pa.int64(), nullable=False)])
    assert projection(place, mode="PERMISSIVE")


def test_the_log_has_one_line_with_the_first_places(caplog: pytest.LogCaptureFixture) -> None:
    found = Malformed()
    found.tell("a range", "PERMISSIVE")
    assert caplog.messages == []
    for number in range(SHOWN + 2):
        found.add(f"offset {number}")
    with caplog.at_level(logging.WARNING, "spark_connector"):
        found.tell("a range", "PERMISSIVE")
    places = "; ".join(f"offset {number}" for number in range(SHOWN))
    assert caplog.messages == [
        f"{SHOWN + 2} messages cannot be decoded (mode=PERMISSIVE) of a range: {places}; and more"
    ]
