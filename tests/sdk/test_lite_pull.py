"""What a consumer does that is asked for messages, on any broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ClientClosedError,
    ConsumeFromWhere,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    IllegalStateError,
    Message,
    MessageExt,
    MessageQueue,
    MessageSelector,
    MQClientException,
    NotStartedError,
    QueueAccess,
)
from tests.sdk.conftest import GUARD_S
from tests.waiting import until

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
POLL = timedelta(seconds=1)
NOTHING_MS = 50

Pulling = Callable[..., DefaultLitePullConsumer]


@pytest.fixture
def pulling(rocketmq_broker: EmbeddedBroker) -> Iterator[Pulling]:
    """Makes consumers of a group of this test; they end with it."""
    made: list[DefaultLitePullConsumer] = []

    def make(group: str = "lite", **settings: Any) -> DefaultLitePullConsumer:
        given = {"consume_from_where": FIRST, **settings}
        consumer = DefaultLitePullConsumer(
            group, namesrv_addr=rocketmq_broker.namesrv_addr, **given
        )
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        consumer.shutdown()


def send(producer: DefaultMQProducer, topic: str, count: int, **fields: Any) -> list[MessageQueue]:
    """Send numbered messages, one to each queue in turn; return the queues."""
    queues = sorted(producer.fetch_publish_message_queues(topic))
    for number in range(count):
        message = Message(topic, str(number).encode(), **fields)
        producer.send(message, queue=queues[number % len(queues)])
    return queues


def polled(consumer: DefaultLitePullConsumer, count: int) -> list[MessageExt]:
    """Poll until there are so many messages."""
    found: list[MessageExt] = []

    def enough() -> bool:
        found.extend(consumer.poll(POLL))
        return len(found) >= count

    until(enough, GUARD_S)
    return found


def committed(broker: EmbeddedBroker, queues: list[MessageQueue], group: str = "lite") -> int:
    """Sum up what the broker keeps for the group."""
    with QueueAccess(namesrv_addr=broker.namesrv_addr) as access:
        return sum(access.group_offset(group, queue) or 0 for queue in queues)


def test_polls_return_every_message_once_each_of_one_queue_in_its_order(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    queues = send(rocketmq_producer, rocketmq_topic, 40)
    consumer = pulling()
    consumer.subscribe(rocketmq_topic)
    with consumer:
        found: dict[int, list[int]] = {queue.queue_id: [] for queue in queues}
        while sum(map(len, found.values())) < 40:
            batch = consumer.poll(POLL)
            assert len({message.queue_id for message in batch}) <= 1
            for message in batch:
                found[message.queue_id].append(int(message.body))
        assert all(numbers == sorted(numbers) for numbers in found.values())
        assert sorted(chain.from_iterable(found.values())) == list(range(40))
        assert consumer.poll(NOTHING_MS) == []


@pytest.mark.case("T83")
def test_a_batch_that_no_further_poll_followed_comes_again(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    pulling: Pulling,
) -> None:
    queues = send(rocketmq_producer, rocketmq_topic, 8)
    first = pulling(pull_batch_size=1)
    first.assign(queues[:1])
    with first:
        polled(first, 2)
    assert committed(rocketmq_broker, queues[:1]) == 1
    second = pulling()
    second.assign(queues[:1])
    with second:
        assert second.poll(POLL)[0].queue_offset == 1


def test_without_auto_commit_nothing_is_committed_until_the_program_says_so(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    pulling: Pulling,
) -> None:
    queues = send(rocketmq_producer, rocketmq_topic, 20)
    consumer = pulling(auto_commit=False)
    consumer.subscribe(rocketmq_topic)
    with consumer:
        polled(consumer, 20)
        assert sum(consumer.committed(queue) or 0 for queue in queues) == 0
        consumer.commit()
        assert sum(consumer.committed(queue) or 0 for queue in queues) == 20
    assert committed(rocketmq_broker, queues) == 20


def test_a_program_commits_an_offset_of_its_own(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    pulling: Pulling,
) -> None:
    (queue, *_) = send(rocketmq_producer, rocketmq_topic, 20)
    consumer = pulling(auto_commit=False)
    consumer.assign([queue])
    with consumer:
        polled(consumer, 5)
        consumer.commit({queue: 3})
        assert consumer.committed(queue) == 3
        with pytest.raises(ValueError, match="-1"):
            consumer.commit({queue: -1})
        stranger = MessageQueue(rocketmq_topic, queue.broker_name, 99)
        with pytest.raises(MQClientException, match="is not assigned"):
            consumer.commit({stranger: 1})
    assert committed(rocketmq_broker, [queue]) == 3


@pytest.mark.case("T82")
def test_subscribe_and_assign_exclude_each_other(rocketmq_topic: str, pulling: Pulling) -> None:
    queue = MessageQueue(rocketmq_topic, "broker-a", 0)
    shares, assigns = pulling(), pulling()
    shares.subscribe(rocketmq_topic)
    with pytest.raises(IllegalStateError, match="exclude each other"):
        shares.assign([queue])
    assigns.assign([queue])
    with pytest.raises(IllegalStateError, match="exclude each other"):
        assigns.subscribe(rocketmq_topic)


@pytest.mark.case("T84")
def test_a_seek_goes_on_at_an_offset_and_refuses_what_cannot_be_read(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    (queue, other, *_) = send(rocketmq_producer, rocketmq_topic, 40)
    consumer = pulling()
    consumer.assign([queue])
    with consumer:
        polled(consumer, 10)
        consumer.seek(queue, 3)
        assert [message.queue_offset for message in polled(consumer, 7)] == list(range(3, 10))
        consumer.seek_to_begin(queue)
        assert polled(consumer, 10)[0].queue_offset == 0
        consumer.seek_to_end(queue)
        assert consumer.poll(NOTHING_MS) == []
        with pytest.raises(MQClientException, match="must be from 0 to 10"):
            consumer.seek(queue, 11)
        with pytest.raises(MQClientException, match="is not assigned"):
            consumer.seek(other, 0)


@pytest.mark.case("T84")
def test_nothing_comes_from_a_paused_queue_until_it_is_resumed(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    (queue, other, *_) = send(rocketmq_producer, rocketmq_topic, 40)
    consumer = pulling()
    consumer.assign([queue, other])
    with consumer:
        consumer.pause([queue])
        consumer.seek(queue, 0)  # what was fetched before the pause is thrown away
        consumer.seek(other, 0)
        assert {message.queue_id for message in polled(consumer, 10)} == {other.queue_id}
        assert consumer.poll(NOTHING_MS) == []
        consumer.resume([queue])
        assert {message.queue_id for message in polled(consumer, 10)} == {queue.queue_id}


def test_offsets_are_found_by_the_time_of_storing(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    (queue, *_) = send(rocketmq_producer, rocketmq_topic, 8)
    consumer = pulling()
    consumer.assign([queue])
    with consumer:
        assert consumer.offset_for_timestamp(queue, datetime(2001, 1, 1, tzinfo=UTC)) == 0
        with pytest.raises(ValueError, match="aware"):
            consumer.offset_for_timestamp(queue, datetime(2001, 1, 1))  # noqa: DTZ001 - the mistake


def test_two_members_share_the_queues_and_a_leaving_one_gives_its_back(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    queues = send(rocketmq_producer, rocketmq_topic, 4)
    first, second = pulling(), pulling()
    for member in (first, second):
        member.subscribe(rocketmq_topic)
    with first:
        until(lambda: first.assignment() == queues, GUARD_S)
        with second:
            until(lambda: [len(one.assignment()) for one in (first, second)] == [2, 2], GUARD_S)
        until(lambda: first.assignment() == queues, GUARD_S)


def test_another_assignment_replaces_the_first(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    queues = send(rocketmq_producer, rocketmq_topic, 40)
    consumer = pulling()
    consumer.assign(queues[:1])
    with consumer:
        polled(consumer, 10)
        consumer.assign(queues[1:3])
        until(lambda: consumer.assignment() == queues[1:3], GUARD_S)
        assert {one.queue_id for one in polled(consumer, 20)} == {1, 2}


def test_tags_select_messages_of_assigned_queues(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    queues = send(rocketmq_producer, rocketmq_topic, 8, tags="other")
    send(rocketmq_producer, rocketmq_topic, 4, tags="wanted")
    consumer = pulling()
    consumer.set_sub_expression_for_assign(rocketmq_topic, MessageSelector.by_tag("wanted"))
    consumer.assign(queues)
    with consumer:
        assert {message.tags for message in polled(consumer, 4)} == {"wanted"}


def test_batches_go_on_until_the_consumer_is_shut_down(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    send(rocketmq_producer, rocketmq_topic, 8)
    consumer = pulling()
    consumer.subscribe(rocketmq_topic)
    consumer.start()
    found = 0
    for batch in consumer.batches(timedelta(seconds=30)):
        found += len(batch)
        if found == 8:
            threading.Thread(target=consumer.shutdown).start()  # it ends the next wait
    assert found == 8
    with pytest.raises(ClientClosedError):
        consumer.poll()


def test_a_poll_before_the_start_says_what_is_missing(pulling: Pulling) -> None:
    with pytest.raises(NotStartedError, match="is not started"):
        pulling().poll()


def test_a_listener_hears_of_the_queues_of_a_topic(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pulling: Pulling
) -> None:
    queues = send(rocketmq_producer, rocketmq_topic, 4)
    heard: list[tuple[str, frozenset[MessageQueue]]] = []
    consumer = pulling()
    consumer.subscribe(rocketmq_topic)
    with consumer:
        consumer.register_topic_message_queue_change_listener(
            rocketmq_topic, lambda topic, found: heard.append((topic, found))
        )
        until(lambda: heard == [(rocketmq_topic, frozenset(queues))], GUARD_S)
