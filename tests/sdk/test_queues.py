"""Single queues by offset, through `QueueAccess` and the questions that a producer may ask."""

from __future__ import annotations

from contextlib import suppress

import pytest

from rocketmq_py import DefaultMQProducer, Message, MQClientException
from rocketmq_py.raw import QueueAccess, QueueBounds, RawMessages
from tests.sdk.conftest import GUARD_S
from tests.waiting import until

FAR_AWAY_MS = 4_102_444_800_000
"""The year 2100: later than the time of any broker."""


def test_a_topic_s_queues_and_their_bounds(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, access: QueueAccess
) -> None:
    queues = access.read_queues(rocketmq_topic)
    assert queues == access.write_queues(rocketmq_topic)
    assert [queue.queue_id for queue in queues] == [0, 1, 2, 3]
    for _ in range(3):
        rocketmq_producer.send(Message(rocketmq_topic, b"x"), queue=queues[1])
    until(lambda: access.max_offset(queues[1]) == 3, GUARD_S)
    bounds = access.bounds(rocketmq_topic)
    assert set(bounds) == set(queues)
    assert bounds[queues[0]] == QueueBounds(0, 0, 0)
    assert (bounds[queues[1]].min_offset, bounds[queues[1]].max_offset) == (0, 3)
    assert access.min_offset(queues[1]) == access.search_offset(queues[1], 0) == 0
    assert rocketmq_topic in access.topic_names()
    assert access.broker_names(rocketmq_topic) == [queues[0].broker_name]


def test_pulls_give_the_stored_bytes(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, access: QueueAccess
) -> None:
    queue = access.read_queues(rocketmq_topic)[0]
    for number in range(3):
        message = Message(rocketmq_topic, b"m%d" % number, tags="AB"[number % 2])
        rocketmq_producer.send(message, queue=queue)
    until(lambda: access.max_offset(queue) == 3, GUARD_S)
    pulled = access.pull(queue, 0, expression="A").result(GUARD_S)
    assert pulled.found
    first = RawMessages.decode(pulled.records, 0, queue.broker_name)
    second = RawMessages.decode(pulled.records, first.store_size, queue.broker_name)
    assert [first.body, second.body] == [b"m0", b"m2"]
    assert first.store_size + second.store_size == len(pulled.records)
    assert (pulled.next_offset, pulled.max_offset) == (3, 3)
    nothing = access.pull(queue, 3).result(GUARD_S)
    assert (nothing.found, nothing.moved, nothing.records) == (False, False, b"")
    assert access.pull(queue, 9).result(GUARD_S).moved
    one = access.message_at(queue, 1)
    assert one is not None
    assert (one.body, access.message_at(queue, 7)) == (b"m1", None)


def test_offsets_of_groups_are_kept(
    rocketmq_topic: str, rocketmq_group: str, access: QueueAccess
) -> None:
    queue = access.read_queues(rocketmq_topic)[0]
    access.pull(queue, 0, group=rocketmq_group).result(GUARD_S)
    access.store_group_offset(rocketmq_group, queue, 7)
    assert access.group_offset(rocketmq_group, queue) == 7


def test_administration_sees_what_was_sent(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer
) -> None:
    made = f"{rocketmq_topic}-made"
    rocketmq_producer.create_topic("TBW102", made, 2)
    until(lambda: len(rocketmq_producer.fetch_publish_message_queues(made)) == 2, GUARD_S)
    queues = rocketmq_producer.fetch_publish_message_queues(made)
    sent = rocketmq_producer.send(Message(made, b"x", keys="k"), queue=queues[1])
    until(lambda: rocketmq_producer.max_offset(queues[1]) == 1, GUARD_S)
    assert rocketmq_producer.min_offset(queues[1]) == 0
    by_place = rocketmq_producer.view_message(made, sent.offset_msg_id)
    assert (by_place.body, by_place.msg_id) == (b"x", sent.msg_id)
    stored_ms = by_place.store_timestamp
    assert rocketmq_producer.earliest_msg_store_time(queues[1]) == stored_ms
    assert rocketmq_producer.search_offset(queues[1], stored_ms) == 0

    ids: list[str | None] = []

    def has_a_key() -> bool:
        with suppress(MQClientException):  # the index is written a moment later
            found = rocketmq_producer.query_message(made, "k", 10, 0, FAR_AWAY_MS)
            ids.extend(message.msg_id for message in found.message_list)
        return bool(ids)

    until(has_a_key, GUARD_S)
    assert ids == [sent.msg_id]
    for missing in ("nothing", "A" * 32):
        with pytest.raises(MQClientException) as caught:
            rocketmq_producer.view_message(made, missing)
        assert caught.value.response_code == 208
