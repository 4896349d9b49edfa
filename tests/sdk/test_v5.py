"""Programs of the 5.0 API on any broker: pops, receipts, transactions, groups, delays.

A group that is new begins where its topic began, as it does on a broker whose topic is new.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from compat.v5 import (
    BadRequestError,
    ClientConfiguration,
    ConsumeResult,
    FilterExpression,
    IllegalArgumentException,
    MessageBuilder,
    MessageListener,
    MessageView,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from embedded_broker import EmbeddedBroker
from rocketmq_py.admin import AdminClient, TopicMessageType
from tests.sdk.conftest import GUARD_S, Forward
from tests.sdk.request_mode import set_mode
from tests.waiting import until

SOON_S = 5


class Listener(MessageListener):
    def __init__(self, answer: Callable[[MessageView], bool] = lambda _: True) -> None:
        self._answer = answer
        self.messages: list[MessageView] = []

    def consume(self, message: MessageView) -> ConsumeResult:
        handled = self._answer(message)
        self.messages.append(message)
        return ConsumeResult.SUCCESS if handled else ConsumeResult.FAILURE


class Checker(TransactionChecker):
    def check(self, message: MessageView) -> TransactionResolution:
        del message
        return TransactionResolution.UNKNOWN


class Desk:
    """Clients of one test, on its topic and in its group."""

    def __init__(self, ends: ExitStack, namesrv_addr: str, topic: str, group: str) -> None:
        self._ends = ends
        self.configuration = ClientConfiguration(namesrv_addr)
        self.topic, self.group = topic, group
        self.namesrv_addr = namesrv_addr

    def producer(self, **more: Any) -> Producer:  # Any: of an argument
        return self._ends.enter_context(Producer(self.configuration, (self.topic,), **more))

    def simple(self, expression: str = "*") -> SimpleConsumer:
        subscription = {self.topic: FilterExpression(expression)}
        made = SimpleConsumer(self.configuration, self.group, subscription, await_duration=2)
        return self._ends.enter_context(made)

    def push(self, listener: Listener, **more: Any) -> PushConsumer:  # Any: of an argument
        subscription = {self.topic: FilterExpression.SUB_ALL}
        made = PushConsumer(self.configuration, self.group, listener, subscription, **more)
        return self._ends.enter_context(made)

    def message(self, body: bytes) -> MessageBuilder:
        return MessageBuilder().set_topic(self.topic).set_body(body)

    def received(self, consumer: SimpleConsumer, count: int) -> list[MessageView]:
        """Receive until so many messages are here."""
        found: list[MessageView] = []

        def enough() -> bool:
            found.extend(consumer.receive(32, 60))
            return len(found) >= count

        until(enough, GUARD_S)
        return found


@pytest.fixture
def desk(
    rocketmq_broker: EmbeddedBroker, rocketmq_topic: str, rocketmq_group: str
) -> Iterator[Desk]:
    addr = rocketmq_broker.namesrv_addr
    set_mode(addr, rocketmq_topic, rocketmq_group, "PULL")  # it pops all the same
    with ExitStack() as ends:
        yield Desk(ends, addr, rocketmq_topic, rocketmq_group)


def test_a_simple_consumer_receives_acks_and_gets_again_what_it_gives_back(
    desk: Desk, forward: Forward
) -> None:
    consumer, producer = desk.simple("a"), desk.producer()
    kept = producer.send(desk.message(b"kept").set_tag("a").set_keys("k").build())
    again = producer.send(desk.message(b"again").set_tag("a").build())
    producer.send(desk.message(b"other").set_tag("b").build())
    first = {one.message_id: one for one in desk.received(consumer, 2)}
    assert first.keys() == {kept.message_id, again.message_id}
    assert first[kept.message_id].keys == {"k"}
    consumer.ack(first[kept.message_id])
    consumer.change_invisible_duration(first[again.message_id], SOON_S)
    got: list[MessageView] = []

    def came_again() -> bool:
        got.extend(consumer.receive(32, 60))
        return bool(got)

    forward(came_again)
    assert [(one.message_id, one.delivery_attempt) for one in got] == [(again.message_id, 2)]
    consumer.ack(got[0])


def test_a_receipt_that_was_replaced_is_refused(desk: Desk) -> None:
    consumer = desk.simple()
    desk.producer().send(desk.message(b"x").build())
    (message,) = desk.received(consumer, 1)
    old = MessageView(message.core.__copy__())
    consumer.change_invisible_duration_async(message, 30).result(GUARD_S)
    with pytest.raises(BadRequestError):
        consumer.ack(old)
    consumer.ack_async(message).result(GUARD_S)


def test_a_push_consumer_gets_each_message_and_again_what_it_refused(
    desk: Desk, forward: Forward
) -> None:
    listener = Listener(lambda message: message.body != b"twice" or message.delivery_attempt > 1)
    desk.push(listener)
    producer = desk.producer()
    for number in range(50):
        producer.send(desk.message(b"%d" % number).build())
    producer.send(desk.message(b"twice").build())
    forward(lambda: len(listener.messages) == 52)
    bodies = [one.body for one in listener.messages]
    assert sorted(set(bodies)) == sorted([b"%d" % number for number in range(50)] + [b"twice"])
    attempts = [one.delivery_attempt for one in listener.messages if one.body == b"twice"]
    assert attempts == [1, 2]


def test_messages_of_a_group_are_handled_one_after_the_other(desk: Desk, forward: Forward) -> None:
    failed = threading.Event()

    def answer(message: MessageView) -> bool:
        if message.body == b"3" and not failed.is_set():
            failed.set()
            return False
        return True

    producer, listener = desk.producer(), Listener(answer)
    for number in range(8):
        producer.send(desk.message(b"%d" % number).set_message_group("g1").build())
    desk.push(listener, fifo=True)
    forward(lambda: len(listener.messages) == 9)
    assert b"".join(one.body for one in listener.messages) == b"012334567"


def test_a_transaction_is_seen_when_it_is_committed_and_never_when_it_is_not(
    desk: Desk, forward: Forward
) -> None:
    listener = Listener()
    desk.push(listener)
    producer = desk.producer(checker=Checker())
    kept, given_up = producer.begin_transaction(), producer.begin_transaction()
    receipt = producer.send(desk.message(b"kept").build(), kept)
    producer.send(desk.message(b"given up").build(), given_up)
    given_up.rollback()
    kept.commit()
    producer.send(desk.message(b"last").build())
    forward(lambda: len(listener.messages) == 2)
    assert {one.message_id for one in listener.messages} >= {receipt.message_id}
    assert sorted(one.body for one in listener.messages) == [b"kept", b"last"]


def test_a_typed_topic_takes_its_kind_and_a_delayed_message_tells_its_time(
    desk: Desk, rocketmq_broker: EmbeddedBroker, forward: Forward
) -> None:
    with AdminClient(namesrv_addr=desk.namesrv_addr) as admin:
        admin.ensure_topic(desk.topic, message_type=TopicMessageType.DELAY)
    listener = Listener()
    desk.push(listener)
    producer = desk.producer()
    with pytest.raises(IllegalArgumentException, match="type DELAY"):
        producer.send(desk.message(b"now").build())
    now = (
        rocketmq_broker.clock.now()
        if isinstance(rocketmq_broker, EmbeddedBroker)
        else datetime.now(UTC)
    )
    due = now + timedelta(seconds=SOON_S)
    producer.send(desk.message(b"later").set_delivery_timestamp(due).build())
    forward(lambda: listener.messages)
    (message,) = listener.messages
    assert message.delivery_timestamp == -(-due.timestamp() * 1000 // 1)
    assert message.core.store_timestamp >= due.timestamp() * 1000 - 1000
