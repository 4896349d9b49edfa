"""Compressed bodies make as many record batches as their size needs, and no larger ones."""

from __future__ import annotations

import zlib
from typing import cast

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra spark)")

from rocketmq_py import RemotingCommandException
from rocketmq_py.protocol.message_codec import encode_batch
from rocketmq_py.raw import QueueAccess, RawPull
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.reading.range_reader import read_range
from tests.unit.spark_connector.conftest import record
from tests.unit.spark_connector.reading.test_range_reader import SCHEMA, ScriptedBroker, options


def packed(offset: int, size: int) -> bytes:
    return record(offset, zlib.compress(bytes(size)), sys_flag=0x301)


def bounded(**sizes: int) -> dict[str, object]:
    names = {"body": "rocketmq.decompressedBodyMaxBytes"}
    names["total"] = "rocketmq.decompressedTotalMaxBytes"
    return {names[name]: size for name, size in sizes.items()}


def test_the_settings_of_the_client_bound_what_decompression_makes_of_a_batch() -> None:
    raw = b"".join(packed(offset, 10_000) for offset in range(5))
    access = cast("QueueAccess", ScriptedBroker(RawPull(0, 5, 0, 9, 0, raw)))
    chosen = options(prefetch=1, **bounded(body=10_000, total=25_000))
    batches = list(read_range(access, chosen, QueueRange("T", "b", 0, 0, 5), SCHEMA))
    assert [batch.column("offset").to_pylist() for batch in batches] == [[0, 1], [2, 3], [4]]
    access = cast("QueueAccess", ScriptedBroker(RawPull(0, 5, 0, 9, 0, raw)))
    chosen = options(prefetch=1, **bounded(body=9_999))
    with pytest.raises(RemotingCommandException, match="9999 bytes of decompressed_body_max_bytes"):
        list(read_range(access, chosen, QueueRange("T", "b", 0, 0, 5), SCHEMA))


def test_compressed_batches_are_taken_apart_as_far_as_one_record_batch_may_grow() -> None:
    raw = b""
    for offset in range(0, 6, 2):
        body = zlib.compress(encode_batch([(0, bytes(10_000), b"")] * 2))
        raw += record(offset, body, sys_flag=0x301 | 192)
    access = cast("QueueAccess", ScriptedBroker(RawPull(0, 6, 0, 9, 0, raw)))
    chosen = options(prefetch=1, **bounded(body=10_000, total=45_000))
    batches = list(read_range(access, chosen, QueueRange("T", "b", 0, 0, 6), SCHEMA))
    assert [batch.column("offset").to_pylist() for batch in batches] == [[0, 1, 2, 3], [4, 5]]


def test_gaps_are_noted_when_records_make_several_batches(caplog: pytest.LogCaptureFixture) -> None:
    raw = b"".join(packed(offset, 10_000) for offset in (0, 1, 3, 4))
    access = cast("QueueAccess", ScriptedBroker(RawPull(0, 5, 0, 9, 0, raw)))
    chosen = options(prefetch=1, failOnDataLoss="false", **bounded(body=10_000, total=20_000))
    batches = list(read_range(access, chosen, QueueRange("T", "b", 0, 0, 5), SCHEMA))
    assert [batch.column("offset").to_pylist() for batch in batches] == [[0, 1], [3, 4]]
    assert "1 offsets skipped" in caplog.text
