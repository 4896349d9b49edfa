"""A push consumer whose broker assigns its queues, in a topic that its group pops."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, cast

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.pytest_plugin import Consumers, Store
from rocketmq_py import (
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Delivery,
    Message,
    MessageListenerOrderly,
    MessageQueue,
)
from tests.sdk.conftest import GUARD_S, Forward
from tests.sdk.listeners import SOON_MS, Held, queues_of
from tests.sdk.request_mode import set_mode
from tests.sdk.test_crashes import killed
from tests.sdk.test_listening import dead_letters
from tests.unit.rocketmq_py.consumer.inbox import DONE, LATER, Inbox
from tests.waiting import until

Pop = Callable[..., DefaultMQPushConsumer]
ALL = -1
INVISIBLE_MS, LONG_MS = 5_000, 300_000
"""The shortest time that a pop may hide messages, and the longest."""
SUCCESS = ConsumeOrderlyStatus.SUCCESS
SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT


@pytest.fixture
def pop(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_consumer: Consumers,
) -> Pop:
    """Starts a member of the group of this test, which pops the topic of this test."""
    set_mode(rocketmq_broker.namesrv_addr, rocketmq_topic, rocketmq_group, "POP")

    def start(listener: object, **settings: Any) -> DefaultMQPushConsumer:  # Any: of a setting
        return rocketmq_consumer(
            None,
            rocketmq_topic,
            listener,
            client_rebalance=False,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            poll_name_server_interval=SOON_MS,
            **settings,
        )

    return start


def numbers_of(consumer: DefaultMQPushConsumer, topic: str) -> list[int]:
    return sorted(queue.queue_id for queue in queues_of(consumer, topic))


def send(producer: DefaultMQProducer, topic: str, count: int) -> list[bytes]:
    bodies = [b"m%d" % number for number in range(count)]
    for body in bodies:
        producer.send(Message(topic, body))
    return bodies


def test_every_message_of_every_queue_comes_once(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pop: Pop, forward: Forward
) -> None:
    inbox = Inbox()
    consumer = pop(inbox, pop_invisible_time=INVISIBLE_MS)
    until(lambda: numbers_of(consumer, rocketmq_topic) == [ALL], GUARD_S)
    bodies = send(rocketmq_producer, rocketmq_topic, 200)
    forward(lambda: len(inbox) >= 200)
    last = Inbox()
    consumer.shutdown()
    pop(last)
    rocketmq_producer.send(Message(rocketmq_topic, b"last", delay=timedelta(seconds=8)))
    forward(lambda: b"last" in last.bodies)
    assert sorted(inbox.bodies + last.bodies) == sorted([*bodies, b"last"])


def test_what_a_listener_refuses_comes_again_after_ten_seconds_as_the_second_attempt(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pop: Pop, forward: Forward
) -> None:
    inbox = Inbox(lambda message: DONE if message.reconsume_times else LATER)
    pop(inbox)
    sent = rocketmq_producer.send(Message(rocketmq_topic, b"again", tags="a", keys=["k"]))
    forward(lambda: len(inbox) >= 2)
    first, second = inbox.messages
    assert [first.reconsume_times, second.reconsume_times] == [0, 1]
    assert second.store_timestamp - first.store_timestamp >= 10_000
    assert {first.msg_id, second.msg_id} == {sent.msg_id}
    assert (second.topic, second.tags, second.keys) == (rocketmq_topic, "a", ["k"])


def test_a_program_that_settles_itself_names_any_millisecond(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pop: Pop, forward: Forward
) -> None:
    given: list[Delivery] = []
    endings: list[Future[None]] = []

    def listen(delivery: Delivery) -> None:
        first = delivery.attempt == 1
        wait = timedelta(milliseconds=1_234)
        endings.append(delivery.nack(wait) if first else delivery.ack())
        given.append(delivery)

    pop(listen)
    rocketmq_producer.send(Message(rocketmq_topic, b"once more"))
    forward(lambda: len(given) == 2)
    first, second = (one.message.store_timestamp for one in given)
    assert second - first >= 1_234
    assert [ending.result(GUARD_S) for ending in endings] == [None, None]


def test_what_is_dead_lies_in_the_dead_letters_and_comes_no_more(
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_producer: DefaultMQProducer,
    pop: Pop,
    forward: Forward,
) -> None:
    bodies: list[bytes] = []

    def listen(delivery: Delivery) -> None:
        bodies.append(delivery.message.body)
        if delivery.message.body == b"poison":
            delivery.dead()
        else:
            delivery.ack()

    pop(listen, pop_invisible_time=INVISIBLE_MS)
    rocketmq_producer.send(Message(rocketmq_topic, b"poison", keys=["K"]))
    until(lambda: dead_letters(rocketmq_producer, rocketmq_group), GUARD_S)
    rocketmq_producer.send(Message(rocketmq_topic, b"last", delay=timedelta(seconds=8)))
    forward(lambda: b"last" in bodies)
    assert bodies == [b"poison", b"last"]


def test_a_member_that_is_full_leaves_the_rest_to_the_other(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pop: Pop
) -> None:
    held, inbox = Held(), Inbox()
    few = {"pop_batch_nums": 1, "pop_threshold_for_queue": 1, "consume_thread_min": 1}
    pop(held, **few)
    rocketmq_producer.send(Message(rocketmq_topic, b"first"))
    assert held.entered.wait(GUARD_S)
    pop(inbox)
    bodies = send(rocketmq_producer, rocketmq_topic, 20)
    until(lambda: len(inbox) >= 18, GUARD_S)
    held.leave.set()
    until(lambda: len(inbox) + len(held) == 21, GUARD_S)
    assert sorted(inbox.bodies + held.bodies) == sorted([b"first", *bodies])
    assert b"first" in held.bodies


def test_what_a_member_had_in_hand_when_it_ended_comes_to_another(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pop: Pop, forward: Forward
) -> None:
    held, inbox = Held(), Inbox()
    first = pop(held, pop_invisible_time=INVISIBLE_MS)
    rocketmq_producer.send(Message(rocketmq_topic, b"in hand"))
    assert held.entered.wait(GUARD_S)
    first.shutdown(0)
    pop(inbox, pop_invisible_time=INVISIBLE_MS)
    forward(lambda: len(inbox))
    held.leave.set()
    (message,) = inbox.messages
    assert (message.body, message.reconsume_times) == (b"in hand", 1)


def test_consumption_goes_on_when_the_broker_was_killed(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_store: Store,
    pop: Pop,
    forward: Forward,
) -> None:
    inbox = Inbox()
    pop(inbox, pop_invisible_time=INVISIBLE_MS)
    send(rocketmq_producer, rocketmq_topic, 5)
    forward(lambda: len(inbox) >= 5)
    with killed(rocketmq_store):
        pass
    rocketmq_producer.send(Message(rocketmq_topic, b"after"), timeout=int(GUARD_S * 1000))
    forward(lambda: b"after" in inbox.bodies)
    assert set(inbox.bodies) == {b"m%d" % number for number in range(5)} | {b"after"}


def test_what_is_not_set_to_popping_is_pulled(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_producer: DefaultMQProducer,
    pop: Pop,
) -> None:
    seen: Counter[bytes] = Counter()
    lock = threading.Lock()

    def count(messages: Any, _context: Any) -> Any:  # Any: the types are of no interest
        with lock:
            seen.update(message.body for message in messages)
        return DONE

    set_mode(rocketmq_broker.namesrv_addr, rocketmq_topic, rocketmq_group, "PULL")
    consumer = pop(count)
    until(lambda: numbers_of(consumer, rocketmq_topic) == [0, 1, 2, 3], GUARD_S)
    bodies = send(rocketmq_producer, rocketmq_topic, 8)
    until(lambda: seen.total() == 8, GUARD_S)
    assert set(seen) == set(bodies)


def test_an_administrator_changes_the_mode_while_consumers_run(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_producer: DefaultMQProducer,
    pop: Pop,
) -> None:
    inbox = Inbox()
    consumer = pop(inbox)
    until(lambda: numbers_of(consumer, rocketmq_topic) == [ALL], GUARD_S)
    for mode, numbers in (("PULL", [0, 1, 2, 3]), ("POP", [ALL])):
        set_mode(rocketmq_broker.namesrv_addr, rocketmq_topic, rocketmq_group, mode)
        consumer.resume()  # works the assignment out again, now
        until(lambda numbers=numbers: numbers_of(consumer, rocketmq_topic) == numbers, GUARD_S)  # type: ignore[misc]
        send(rocketmq_producer, rocketmq_topic, 8)
        until(lambda: len(inbox) >= 8, GUARD_S)
        assert sorted(inbox.bodies) == sorted(b"m%d" % number for number in range(8))
        inbox.messages.clear()


def test_the_queue_of_what_was_popped_is_the_one_that_it_was_sent_to(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pop: Pop
) -> None:
    inbox = Inbox()
    pop(inbox)
    queue = sorted(rocketmq_producer.fetch_publish_message_queues(rocketmq_topic))[2]
    sent = rocketmq_producer.send(Message(rocketmq_topic, b"here"), queue=queue)
    until(lambda: len(inbox) == 1, GUARD_S)
    (message,) = inbox.messages
    where = MessageQueue(message.topic, message.broker_name, message.queue_id)
    assert (where, message.queue_offset) == (queue, sent.queue_offset)


def test_what_a_member_in_order_leaves_comes_to_another_soon_and_in_its_order(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, pop: Pop, forward: Forward
) -> None:
    """Not when it would be visible by itself: that is longer than anything is waited for here."""
    suspended, rest = Inbox(lambda _: SUSPEND), Inbox(lambda _: SUCCESS)
    first = pop(
        MessageListenerOrderly(cast("Any", suspended)),
        pop_invisible_time=LONG_MS,
        suspend_current_queue_time_millis=10,
    )
    queue = sorted(rocketmq_producer.fetch_publish_message_queues(rocketmq_topic))[1]
    bodies = [b"m%d" % number for number in range(9)]
    for body in bodies:
        rocketmq_producer.send(Message(rocketmq_topic, body), queue=queue)
    until(lambda: len(suspended) >= 3, GUARD_S)
    first.shutdown()
    pop(MessageListenerOrderly(cast("Any", rest)), pop_invisible_time=LONG_MS)
    forward(lambda: len(rest) >= 9)
    assert rest.bodies == bodies
    assert {one.queue_offset for one in suspended.messages} == {0}
