"""Who of a group gets which queues, where a group begins, and what it remembers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from embedded_broker.pytest_plugin import Consumers, Recorders
from rocketmq_py import ConsumeFromWhere, DefaultMQProducer, Message, QueueAccess
from tests.sdk.conftest import GUARD_S
from tests.unit.rocketmq_py.consumer.inbox import Inbox
from tests.waiting import until


def test_every_group_gets_every_message(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, rocketmq_recorder: Recorders
) -> None:
    groups = [rocketmq_recorder(rocketmq_topic) for _ in range(2)]
    for number in range(4):
        rocketmq_producer.send(Message(rocketmq_topic, b"%d" % number))
    for arrived in groups:
        for number in range(4):
            arrived.expect(str(number))
        assert arrived.duplicates == []


@pytest.mark.parametrize("where", list(ConsumeFromWhere)[3:], ids=lambda one: one.name.lower())
def test_a_new_group_gets_all_of_a_young_topic_whatever_it_says(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    where: ConsumeFromWhere,
) -> None:
    """Brokers say 0 to a group without an offset while a queue has its first message in memory.

    So what a group says counts for old queues only, which no test of a real broker has.
    """
    inbox = Inbox()
    for number in range(3):
        rocketmq_producer.send(Message(rocketmq_topic, b"%d" % number))
    rocketmq_consumer(
        None,
        rocketmq_topic,
        inbox,
        consume_from_where=where,
        consume_timestamp=datetime(2040, 1, 1, tzinfo=UTC),
    )
    until(lambda: sorted(inbox.bodies) == [b"0", b"1", b"2"], GUARD_S)


def test_a_group_goes_on_after_the_offset_that_it_has_at_the_broker(
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    access: QueueAccess,
) -> None:
    inbox = Inbox()
    queue = access.read_queues(rocketmq_topic)[1]
    for number in range(5):
        rocketmq_producer.send(Message(rocketmq_topic, b"%d" % number), queue=queue)
    access.pull(queue, 0, group=rocketmq_group).result(GUARD_S)  # the broker knows it now
    access.store_group_offset(rocketmq_group, queue, 3)
    rocketmq_consumer(
        None,
        rocketmq_topic,
        inbox,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    until(lambda: len(inbox) >= 2, GUARD_S)
    assert sorted(inbox.bodies) == [b"3", b"4"]


def test_a_consumer_that_restarts_gets_what_it_has_not_had(
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    access: QueueAccess,
) -> None:
    before, after = Inbox(), Inbox()
    first = rocketmq_consumer(None, rocketmq_topic, before)
    queue = access.read_queues(rocketmq_topic)[0]
    for number in range(4):
        rocketmq_producer.send(Message(rocketmq_topic, b"%d" % number), queue=queue)
    until(lambda: len(before) == 4, GUARD_S)
    first.shutdown()
    assert access.group_offset(rocketmq_group, queue) == 4
    rocketmq_producer.send(Message(rocketmq_topic, b"4"), queue=queue)
    rocketmq_consumer(None, rocketmq_topic, after)
    until(lambda: after.bodies, GUARD_S)
    assert after.bodies == [b"4"]
