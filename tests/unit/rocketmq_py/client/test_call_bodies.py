"""What one call returns is bounded, however far its compressed bodies grow."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    BodyTooLargeError,
    ClientConfig,
    DefaultMQProducer,
    Message,
    MessageExt,
    QueueAccess,
)
from rocketmq_py.client.call_bodies import CallBodies
from rocketmq_py.protocol.inner_batch import MESSAGE_COST
from rocketmq_py.protocol.message_codec import MessageRecord, decode_record, encode_batch
from rocketmq_py.protocol.sysflag import COMPRESSED, INNER_BATCH, NEED_UNWRAP
from tests.unit.rocketmq_py.consumer.fake_engine import record

SIZE = 10_000


def packed(size: int) -> MessageRecord:
    return decode_record(record(0, body=zlib.compress(bytes(size)), sys_flag=1))


def bodies(body: int, total: int) -> CallBodies:
    return CallBodies(
        ClientConfig(decompressed_body_max_bytes=body, decompressed_total_max_bytes=total)
    )


def test_a_body_over_its_bound_names_that_setting() -> None:
    with pytest.raises(BodyTooLargeError, match="99 bytes of decompressed_body_max_bytes"):
        bodies(99, 1000).message(packed(100))


def test_bodies_that_are_too_large_together_name_the_setting_of_the_total() -> None:
    call = bodies(100, 250)
    for _ in range(2):
        assert call.message(packed(100)).body == bytes(100)
    with pytest.raises(BodyTooLargeError, match="250 bytes of decompressed_total_max_bytes"):
        call.message(packed(100))


def test_plain_bodies_are_not_counted() -> None:
    call = bodies(10, 10)
    plain = decode_record(record(0, body=bytes(100)))
    assert [len(call.message(plain).body) for _ in range(9)] == [100] * 9


def batch(count: int, size: int, sys_flag: int) -> MessageRecord:
    body = encode_batch([(0, bytes(size), b"")] * count)
    if sys_flag & COMPRESSED:
        body = zlib.compress(body)
    return decode_record(record(0, body=body, sys_flag=sys_flag | INNER_BATCH | NEED_UNWRAP))


def test_compressed_batches_count_with_their_bodies_and_with_what_each_message_takes() -> None:
    one = batch(2, 100, COMPRESSED)
    call = bodies(1000, 2 * (2 * MESSAGE_COST + 300))
    for _ in range(2):
        assert [len(each.body) for each in call.messages(one)] == [100, 100]
    with pytest.raises(BodyTooLargeError, match="of decompressed_total_max_bytes"):
        call.messages(one)
    with pytest.raises(BodyTooLargeError, match="of decompressed_total_max_bytes"):
        bodies(1000, 3 * MESSAGE_COST).messages(batch(4, 0, COMPRESSED))


def test_plain_batches_and_single_messages_are_not_counted() -> None:
    call = bodies(10, 10)
    for _ in range(3):
        assert [len(one.body) for one in call.messages(batch(3, 100, 0))] == [100] * 3
        assert len(call.messages(decode_record(record(0, body=bytes(100))))) == 1


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=["T"]) as made:
        with DefaultMQProducer("G", namesrv_addr=made.namesrv_addr) as producer:
            queue = producer.fetch_publish_message_queues("T")[0]
            for _ in range(3):
                producer.send(Message("T", bytes(SIZE), keys="same"), queue=queue)
        yield made


def test_a_query_and_the_messages_of_many_places_keep_the_bound(broker: EmbeddedBroker) -> None:
    bounds = {"decompressed_body_max_bytes": SIZE, "decompressed_total_max_bytes": 2 * SIZE}
    with QueueAccess(namesrv_addr=broker.namesrv_addr, **bounds) as access:  # type: ignore[arg-type]
        queue = access.read_queues("T")[0]
        places = [(queue, offset) for offset in range(3)]
        found = list(access.messages_at(places).values())
        assert [type(one) for one in found] == [MessageExt, MessageExt, BodyTooLargeError]
    with DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr, **bounds) as asking:  # type: ignore[arg-type]
        with pytest.raises(BodyTooLargeError, match="ask for fewer, or raise it"):
            asking.query_message("T", "same", 32, 0, 1 << 62)
        (first, *_) = broker.messages.in_topic("T")
        assert asking.view_message("T", first.msg_id).body == bytes(SIZE)
