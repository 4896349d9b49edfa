"""Batches of BatchCQ topics, which are one record each, become rows of the ranges they lie in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import MessageQueue, QueueAccess, RemotingCommandException
from rocketmq_py.protocol.message_codec import encode_batch
from rocketmq_py.protocol.properties import encode_properties
from spark_connector.planning.queue_ranges import QueueRange
from spark_connector.reading.range_reader import read_range
from tests.unit.spark_connector.conftest import record
from tests.unit.spark_connector.reading.test_range_reader import (
    SCHEMA,
    answered,
    offsets_of,
    options,
)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock()) as started:
        yield started


BATCHES = MessageQueue("B", "broker-a", 0)


def fill_batches(broker: EmbeddedBroker, access: QueueAccess) -> None:
    """Send batches of 1 to 10 messages, 55 together; the second of each two has tag B."""
    broker.topics.create("B", queues=1, queue_type="BatchCQ")
    first = 0
    for size in range(1, 11):
        body = encode_batch(
            (0, b"%d" % number, encode_properties({"TAGS": "AB"[number % 2]}))
            for number in range(first, first + size)
        )
        access.send(BATCHES, body, properties="UNIQ_KEY\1batch", batch=True).result()
        first += size


def batch_rows(
    access: QueueAccess, start: int, until: int, schema: pa.Schema = SCHEMA, **given: object
) -> list[dict[str, Any]]:
    wanted = QueueRange("B", "broker-a", 0, start, until)
    read = read_range(access, options(**given), wanted, schema)
    return [row for batch in read for row in batch.to_pylist()]


@pytest.mark.parametrize("pull_batch_size", [1, 4, 32])
@pytest.mark.parametrize(("start", "until"), [(0, 55), (1, 55), (4, 50), (47, 48), (46, 54)])
def test_each_message_of_a_batch_is_a_row_of_the_range_it_lies_in(
    broker: EmbeddedBroker, access: QueueAccess, start: int, until: int, pull_batch_size: int
) -> None:
    fill_batches(broker, access)
    rows = batch_rows(access, start, until, pullBatchSize=pull_batch_size)
    assert rows == [{"offset": one, "body": b"%d" % one} for one in range(start, until)]


def test_single_messages_and_batches_are_read_alike_without_numpy_too(
    broker: EmbeddedBroker, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_batches(broker, access)
    broker.send("B", b"alone", queue=0)
    schema = pa.schema([("offset", pa.int64()), ("tags", pa.string()), ("sys_flag", pa.int32())])
    fast = batch_rows(access, 0, 56, schema)
    monkeypatch.setattr("spark_connector.decoding.decoder.np", None)
    assert batch_rows(access, 0, 56, schema) == fast
    assert fast[53:] == [
        {"offset": 53, "tags": "B", "sys_flag": 0},
        {"offset": 54, "tags": "A", "sys_flag": 0},
        {"offset": 55, "tags": None, "sys_flag": 0},
    ]


def test_a_batch_that_cannot_be_taken_apart_is_malformed() -> None:
    odd = record(2, b"none", queue_id=0, sys_flag=192)
    good = record(0, encode_batch([(0, b"0", b""), (0, b"1", b"")]), queue_id=0, sys_flag=192)
    answer = evolve(answered(0, 3), records=good + odd)
    with pytest.raises(RemotingCommandException, match="offset 2 cannot be decoded"):
        offsets_of([answer], 3)
    assert offsets_of([answer], 3, mode="DROPMALFORMED") == [0, 1]
    assert offsets_of([answer], 3, mode="PERMISSIVE") == [0, 1, 2]
