"""Every way of sending: the message is stored once, where the result says, and arrives."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from queue import SimpleQueue

import pytest

from embedded_broker.pytest_plugin import Recorders
from rocketmq_py import (
    DefaultMQProducer,
    Message,
    MessageQueue,
    QueueAccess,
    SendCallback,
    SendStatus,
    select_message_queue_by_hash,
)
from tests.sdk.conftest import GUARD_S, body_at, stored
from tests.waiting import until

BIG = b"a" * 1_000_000


def test_a_blocking_send_tells_where_the_message_lies(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    access: QueueAccess,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    result = rocketmq_producer.send(Message(rocketmq_topic, b"x"))
    assert result.send_status is SendStatus.SEND_OK
    assert body_at(access, result) == b"x"
    assert arrived.expect("x").msg_id == result.msg_id


def test_future_and_callback_have_the_same_outcome_once(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, access: QueueAccess
) -> None:
    told: SimpleQueue[object] = SimpleQueue()
    callback = SendCallback(told.put, told.put)
    future = rocketmq_producer.send_async(Message(rocketmq_topic, b"x"), callback)
    result = future.result(GUARD_S)
    assert body_at(access, result) == b"x"
    assert told.get(timeout=GUARD_S) == result
    rocketmq_producer.shutdown()
    assert told.empty()


def test_many_futures_are_stored_each_once(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, access: QueueAccess
) -> None:
    bodies = [b"%d" % number for number in range(200)]
    futures = [rocketmq_producer.send_async(Message(rocketmq_topic, one)) for one in bodies]
    results = [future.result(GUARD_S) for future in futures]
    assert [body_at(access, one) for one in results[::50]] == bodies[::50]
    places = {(one.message_queue, one.queue_offset) for one in results}
    assert len(places) == len(bodies)
    until(lambda: stored(access, rocketmq_topic) == len(bodies), GUARD_S)


def test_a_oneway_message_arrives(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, rocketmq_recorder: Recorders
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    until_stored(rocketmq_producer, rocketmq_topic)
    arrived.expect("x")


def until_stored(producer: DefaultMQProducer, topic: str) -> None:
    """Send one way, and wait until a queue has it: nobody tells, and virtual time may not wait."""
    queues = producer.fetch_publish_message_queues(topic)
    producer.send_oneway(Message(topic, b"x"))
    until(lambda: sum(map(producer.max_offset, queues)) == 1, GUARD_S)


@pytest.mark.case("T6")
@pytest.mark.parametrize("way", ["send", "send_async", "send_oneway"])
def test_a_message_creates_its_topic_of_four_queues(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, access: QueueAccess, way: str
) -> None:
    unknown = f"{rocketmq_topic}-unknown"
    getattr(rocketmq_producer, way)(Message(unknown, b"x"))
    until(lambda: stored(access, unknown) == 1, GUARD_S)
    assert len(access.read_queues(unknown)) == 4


def test_a_message_goes_to_the_queue_that_is_named(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, access: QueueAccess
) -> None:
    queue = rocketmq_producer.fetch_publish_message_queues(rocketmq_topic)[2]
    results = [
        rocketmq_producer.send(Message(rocketmq_topic, b"%d" % number), queue=queue)
        for number in range(3)
    ]
    assert [(one.message_queue, one.queue_offset) for one in results] == [
        (queue, 0),
        (queue, 1),
        (queue, 2),
    ]
    assert [body_at(access, one) for one in results] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "future"])
def test_a_selector_sees_all_queues_and_its_argument(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, asynchronous: bool
) -> None:
    seen: list[tuple[int, bytes, object]] = []

    def select(queues: Sequence[MessageQueue], message: Message, arg: object) -> MessageQueue:
        seen.append((len(queues), message.body, arg))
        return queues[3]

    message = Message(rocketmq_topic, b"x")
    if asynchronous:
        result = rocketmq_producer.send_async(message, selector=select, arg=7).result(GUARD_S)
    else:
        result = rocketmq_producer.send(message, selector=select, arg=7)
    assert seen == [(4, b"x", 7)]
    assert result.message_queue.queue_id == 3


@pytest.mark.case("T30")
def test_a_batch_is_stored_together_as_single_messages_with_their_own_ids(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, access: QueueAccess
) -> None:
    result = rocketmq_producer.send_batch(Message(rocketmq_topic, b"%d" % n) for n in range(10))
    until(lambda: stored(access, rocketmq_topic) == 10, GUARD_S)
    found = [access.message_at(result.message_queue, offset) for offset in range(10)]
    assert [one.body for one in found if one is not None] == [b"%d" % n for n in range(10)]
    assert ",".join(one.msg_id or "" for one in found if one is not None) == result.msg_id


@pytest.mark.case("T12")
def test_a_large_body_is_stored_compressed_and_arrives_plain(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    access: QueueAccess,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    result = rocketmq_producer.send(Message(rocketmq_topic, BIG))
    assert arrived.expect(BIG).msg_id == result.msg_id
    pulled = access.pull(result.message_queue, result.queue_offset).result(GUARD_S)
    assert 0 < len(pulled.records) < len(BIG) // 100


def test_a_message_arrives_as_it_was_sent(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, rocketmq_recorder: Recorders
) -> None:
    body = bytes(range(256))
    message = Message(rocketmq_topic, body, tags="bezahlt-✓", keys=["k1", "schlüssel"])
    message.put_user_property("Größe", "é 漢字 🙂")
    arrived = rocketmq_recorder(rocketmq_topic)
    sent = rocketmq_producer.send(message)
    got = arrived.expect(body)
    assert (got.topic, got.tags, got.keys) == (
        rocketmq_topic,
        "bezahlt-✓",
        ["k1", "schlüssel"],
    )
    assert got.get_user_property("Größe") == "é 漢字 🙂"
    assert (got.msg_id, got.reconsume_times) == (sent.msg_id, 0)
    assert got.queue_id == sent.message_queue.queue_id
    assert got.queue_offset == sent.queue_offset


def test_threads_share_a_producer(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, access: QueueAccess
) -> None:
    def send() -> None:
        for _ in range(20):
            rocketmq_producer.send(Message(rocketmq_topic, b"x"))

    threads = [threading.Thread(target=send) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD_S)
    until(lambda: stored(access, rocketmq_topic) == 100, GUARD_S)


@pytest.mark.case("T23")
@pytest.mark.parametrize(("key", "queue"), [("abc", 2), ("order-1", 2), (3, 3)])
def test_all_messages_of_one_key_go_to_the_queue_that_java_would_take(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, key: object, queue: int
) -> None:
    sent = [
        rocketmq_producer.send(
            Message(rocketmq_topic, b"%d" % number), selector=select_message_queue_by_hash, arg=key
        )
        for number in range(10)
    ]
    assert {one.message_queue.queue_id for one in sent} == {queue}
    assert [one.queue_offset for one in sent] == list(range(10))
