from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compat.ons import (
    Message,
    ONSClientException,
    ONSFactory,
    PullConsumer,
    TopicPartition,
    TopicPartitionChangeListener,
)
from embedded_broker import EmbeddedBroker
from rocketmq_py import MQClientException
from tests.unit.compat.ons.ons_bench import ONE_QUEUE as TOPIC
from tests.unit.compat.ons.ons_bench import PATIENCE


def consumer_of(broker: EmbeddedBroker, **more: object) -> PullConsumer:
    properties = {"NAMESRV_ADDR": broker.namesrv_addr, "GROUP_ID": "GID_pull", **more}
    return ONSFactory.createPullConsumer(properties)


@pytest.fixture
def consumer(broker: EmbeddedBroker) -> Iterator[PullConsumer]:
    with consumer_of(broker) as started:
        yield started


def partition_of(consumer: PullConsumer) -> TopicPartition:
    (partition,) = consumer.topicPartitions(TOPIC)
    return partition


def bodies_of(consumer: PullConsumer, count: int) -> list[bytes]:
    found: list[Message] = []
    while len(found) < count:
        got = consumer.poll(5000)
        assert got, f"{len(found)} of {count} have come"
        found += got
    return [message.body for message in found]


def send(broker: EmbeddedBroker, *bodies: bytes) -> None:
    for body in bodies:
        broker.send(TOPIC, body)


def test_partitions_are_assigned_after_the_start_and_polled(
    broker: EmbeddedBroker, consumer: PullConsumer
) -> None:
    partitions = consumer.topicPartitions("TopicTestMQ")
    assert len(partitions) == 4
    consumer.assign(partitions)
    for body in (b"1", b"2"):
        broker.send("TopicTestMQ", body)
    assert sorted(bodies_of(consumer, 2)) == [b"1", b"2"]
    assert consumer.poll(0) == []


def test_a_message_says_where_it_lies(broker: EmbeddedBroker, consumer: PullConsumer) -> None:
    partition = partition_of(consumer)
    consumer.assign([partition])
    send(broker, b"1")
    (message,) = consumer.poll(5000)
    assert (message.getTopicPartition(), message.getOffset()) == (partition, 0)


def test_a_seek_right_behind_an_assignment_is_heeded(
    broker: EmbeddedBroker, consumer: PullConsumer
) -> None:
    send(broker, b"1", b"2", b"3")
    partition = partition_of(consumer)
    consumer.assign([partition])
    consumer.seek(partition, 1)
    assert bodies_of(consumer, 2) == [b"2", b"3"]
    consumer.seekToBeginning(partition)
    assert bodies_of(consumer, 3) == [b"1", b"2", b"3"]
    consumer.seekToEnd(partition)
    send(broker, b"4")
    assert bodies_of(consumer, 1) == [b"4"]
    with pytest.raises(ONSClientException, match="must be from 0 to 4") as raised:
        consumer.seek(partition, 9)
    assert isinstance(raised.value.__cause__, MQClientException)


def test_a_paused_partition_gives_nothing_until_it_is_resumed(
    broker: EmbeddedBroker, consumer: PullConsumer
) -> None:
    partition = partition_of(consumer)
    consumer.assign([partition])
    consumer.pause([partition])
    send(broker, b"1")
    assert consumer.poll(50) == []
    consumer.resume([partition])
    assert bodies_of(consumer, 1) == [b"1"]


def test_without_auto_commit_only_a_commit_counts(broker: EmbeddedBroker) -> None:
    with consumer_of(broker, autoCommit="false") as consumer:
        partition = partition_of(consumer)
        consumer.assign([partition])
        consumer.seekToBeginning(partition)
        send(broker, b"1", b"2")
        bodies_of(consumer, 2)
        consumer.poll(0)
        assert consumer.committed(partition) in {None, 0}
        consumer.commitSync()
        assert consumer.committed(partition) == 2


def test_an_offset_is_found_by_time(broker: EmbeddedBroker, consumer: PullConsumer) -> None:
    send(broker, b"1")
    broker.clock.advance(60)
    later_ms = broker.clock.now_ms
    send(broker, b"2")
    partition = partition_of(consumer)
    assert consumer.offsetForTimestamp(partition, later_ms) == 1


class Changes(TopicPartitionChangeListener):
    """Keeps what it was told, under Java's name."""

    def __init__(self) -> None:
        self.told: list[set[TopicPartition]] = []

    def onChanged(self, topicPartitions: set[TopicPartition]) -> None:  # noqa: N802, N803
        self.told.append(topicPartitions)


def test_a_listener_learns_the_partitions_of_a_topic(
    broker: EmbeddedBroker, consumer: PullConsumer
) -> None:
    listener = Changes()
    plain: list[set[TopicPartition]] = []
    consumer.registerTopicPartitionChangedListener(TOPIC, listener)
    consumer.register_topic_partition_changed_listener("TopicTestMQ-Other", plain.append)
    broker.wait_for(lambda _: listener.told and plain, timeout=PATIENCE)
    assert listener.told[0] == consumer.topic_partitions(TOPIC)
    wrong: Any = "no listener"
    with pytest.raises(ONSClientException, match="on_changed"):
        consumer.register_topic_partition_changed_listener(TOPIC, wrong)


def test_calls_that_come_too_early_or_name_nothing_are_errors_of_ons(
    broker: EmbeddedBroker, consumer: PullConsumer
) -> None:
    with pytest.raises(ONSClientException, match="call assign before poll"):
        consumer.poll(0)
    with pytest.raises(ONSClientException, match="no route of topic nothing"):
        consumer.topic_partitions("nothing")
    with pytest.raises(ONSClientException, match="not assigned"):
        consumer.pause([TopicPartition(TOPIC, "broker-a@0")])
    with pytest.raises(ONSClientException, match="not started"):
        consumer_of(broker).topic_partitions(TOPIC)
