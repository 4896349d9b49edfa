from __future__ import annotations

import pytest

from compat.ons import (
    Action,
    BatchConsumer,
    BatchMessageListener,
    ConsumeContext,
    Message,
    ONSClientException,
    ONSFactory,
    PropertyKeyConst,
)
from embedded_broker import EmbeddedBroker
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.compat.ons.ons_bench import ONE_QUEUE as TOPIC
from tests.unit.compat.ons.ons_bench import PATIENCE

OTHER = "TopicTestMQ-Other"


def consumer_of(broker: EmbeddedBroker, size: int = 4, wait_s: int = 0) -> BatchConsumer:
    return ONSFactory.createBatchConsumer(
        {
            PropertyKeyConst.NAMESRV_ADDR: broker.namesrv_addr,
            PropertyKeyConst.GROUP_ID: "GID_batch",
            PropertyKeyConst.ConsumeMessageBatchMaxSize: size,
            PropertyKeyConst.BatchConsumeMaxAwaitDurationInSeconds: wait_s,
            PropertyKeyConst.ConsumeThreadNums: 1,
        }
    )


def consumer_of_what_waits(
    broker: EmbeddedBroker, expression: str, listener: BatchMessageListener, *bodies: bytes
) -> BatchConsumer:
    """Make a consumer whose group has these messages before it, so that one pull brings them."""
    before = consumer_of(broker)
    before.subscribe(TOPIC, expression, listener)
    with before:
        pass  # its group begins here
    send(broker, TOPIC, *bodies)
    after = consumer_of(broker)
    after.subscribe(TOPIC, expression, listener)
    return after


class Batches(BatchMessageListener):
    """Keeps what came; fails while ``failures`` are left."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.batches: list[list[Message]] = []

    def consume(self, messages: list[Message], context: ConsumeContext) -> Action:
        self.batches.append(messages)
        if self.failures:
            self.failures -= 1
            return Action.ReconsumeLater
        return Action.CommitMessage

    @property
    def bodies(self) -> list[list[bytes]]:
        return [[message.body for message in batch] for batch in self.batches]


def send(broker: EmbeddedBroker, topic: str, *bodies: bytes) -> None:
    for body in bodies:
        broker.send(topic, body, tags="TagA")


def test_messages_come_in_batches_up_to_the_size_that_is_set(broker: EmbeddedBroker) -> None:
    listener = Batches()
    running = consumer_of_what_waits(broker, "TagA||TagB", listener, b"0", b"1", b"2", b"3", b"4")
    with running:
        broker.wait_for(lambda _: sum(map(len, listener.batches)) == 5, timeout=PATIENCE)
    assert listener.bodies == [[b"0", b"1", b"2", b"3"], [b"4"]]
    assert {message.getTopic() for batch in listener.batches for message in batch} == {TOPIC}


def test_messages_wait_until_a_batch_is_full_if_it_is_so_set(broker: EmbeddedBroker) -> None:
    listener = Batches()
    running = consumer_of(broker, wait_s=450)
    running.subscribe(TOPIC, "*", listener)
    with running:
        for number in range(9):
            broker.send(TOPIC, str(number).encode())
        broker.wait_for(lambda _: len(listener.batches) == 2, timeout=PATIENCE)
    assert [[int(body) for body in batch] for batch in listener.bodies] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]


def test_a_wait_of_more_than_half_of_what_a_call_may_take_is_refused() -> None:
    properties = {"GROUP_ID": "G", "consumeTimeout": 2, "batchConsumeMaxAwaitDurationInSeconds": 61}
    with pytest.raises(ONSClientException, match="= 61 must not exceed half of consumeTimeout"):
        ONSFactory.createBatchConsumer(properties)


def test_a_batch_fails_as_a_whole(broker: EmbeddedBroker) -> None:
    listener = Batches(failures=1)
    with consumer_of_what_waits(broker, "*", listener, b"1", b"2", b"3"):
        broker.wait_for(
            lambda b: len(b.journal.requests(code=RequestCode.CONSUMER_SEND_MSG_BACK)) == 3,
            timeout=PATIENCE,
        )
        broker.clock.advance(10)
        broker.wait_for(lambda _: sum(map(len, listener.batches)) == 6, timeout=PATIENCE)
    assert listener.bodies[0] == [b"1", b"2", b"3"]
    assert sorted(body for batch in listener.bodies[1:] for body in batch) == [b"1", b"2", b"3"]
    assert {message.getReconsumeTimes() for message in listener.batches[1]} == {1}


def test_retries_of_several_topics_reach_each_the_listener_of_its_topic(
    broker: EmbeddedBroker,
) -> None:
    first, second = Batches(failures=1), Batches(failures=1)
    running = consumer_of(broker)
    running.subscribe(TOPIC, "*", first)
    running.subscribe(OTHER, "*", second)
    with running:
        send(broker, TOPIC, b"a")
        send(broker, OTHER, b"b")
        broker.wait_for(
            lambda b: len(b.journal.requests(code=RequestCode.CONSUMER_SEND_MSG_BACK)) == 2,
            timeout=PATIENCE,
        )
        broker.clock.advance(10)
        broker.wait_for(
            lambda _: len(first.batches) == 2 and len(second.batches) == 2, timeout=PATIENCE
        )
    assert first.bodies == [[b"a"], [b"a"]]
    assert second.bodies == [[b"b"], [b"b"]]


def test_a_listener_base_without_a_function_says_so() -> None:
    with pytest.raises(ONSClientException, match="override it"):
        BatchMessageListener().consume([], ConsumeContext())
