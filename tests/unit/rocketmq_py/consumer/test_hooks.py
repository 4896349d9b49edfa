"""Hooks of a consumer: what they see, and that they break nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    ConsumeMessageContext,
    ConsumeOrderlyStatus,
    DefaultMQPushConsumer,
    Delivery,
    DeliveryListener,
    FilterMessageContext,
    MessageExt,
    MessageListenerOrderly,
)
from rocketmq_py.consumer.dispatch.listener_calls import MINUTE_MS
from rocketmq_py.consumer.hooks import Hooks
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import FakeClock, message
from tests.waiting import until

DONE, LATER = list(ConsumeConcurrentlyStatus)
QUEUE = MessageQueue("T", "b", 0)


class Seen:
    """A hook that notes what it sees."""

    def __init__(self) -> None:
        self.before_calls: list[list[bytes]] = []
        self.after_calls: list[tuple[bool, str | None, str]] = []

    def before(self, context: ConsumeMessageContext) -> None:
        assert (context.consumer_group, context.queue.topic) == ("G", "T")
        assert context.status is None
        self.before_calls.append([one.body for one in context.messages])
        context.props["mine"] = "carried"

    def after(self, context: ConsumeMessageContext) -> None:
        assert context.props["mine"] == "carried"
        kind = context.props["ConsumeContextType"]
        self.after_calls.append((context.success, context.status, kind))


class Broken:
    def before(self, context: ConsumeMessageContext) -> None:
        raise LookupError("hook")

    def after(self, context: ConsumeMessageContext) -> None:
        raise LookupError("hook")

    def filter_message(self, context: FilterMessageContext) -> None:
        context.messages.clear()
        raise LookupError("hook")


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"T": 1}) as started:
        yield started


def raising(*_: object) -> Any:
    raise LookupError("theirs")


ENDS: list[tuple[str, object, tuple[bool, str, str]]] = [
    ("done", lambda _m, _c: DONE, (True, "CONSUME_SUCCESS", "SUCCESS")),
    ("later", lambda _m, _c: LATER, (False, "RECONSUME_LATER", "FAILED")),
    ("none", lambda _m, _c: None, (False, "RECONSUME_LATER", "RETURNNULL")),
    ("raises", raising, (False, "RECONSUME_LATER", "EXCEPTION")),
    (
        "orderly",
        MessageListenerOrderly(lambda _m, _c: ConsumeOrderlyStatus.SUCCESS),
        (True, "SUCCESS", "SUCCESS"),
    ),
    (
        "suspends",
        MessageListenerOrderly(lambda _m, _c: ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT),
        (False, "SUSPEND_CURRENT_QUEUE_A_MOMENT", "FAILED"),
    ),
    ("ack", DeliveryListener(lambda one: one.ack()), (True, "CONSUME_SUCCESS", "SUCCESS")),
    ("nack", DeliveryListener(lambda one: one.nack()), (False, "RECONSUME_LATER", "FAILED")),
]


@pytest.mark.parametrize(("name", "listener", "end"), ENDS, ids=[one[0] for one in ENDS])
def test_a_hook_sees_both_ends_of_every_listener_call_and_a_broken_one_breaks_nothing(
    broker: EmbeddedBroker,
    name: str,
    listener: Any,
    end: tuple[bool, str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    del name
    seen = Seen()
    consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("T")
    consumer.register_message_listener(listener)
    consumer.register_consume_message_hook(Broken())
    consumer.register_consume_message_hook(seen)
    with consumer:
        broker.send("T", b"one")
        until(lambda: seen.after_calls)
    assert seen.before_calls[0] == [b"one"]
    assert seen.after_calls[0] == end
    assert "consume hook failed" in caplog.text


def test_a_call_that_took_longer_than_consume_timeout_is_told_as_such(
    broker: EmbeddedBroker,
) -> None:
    seen, clock = Seen(), FakeClock()

    def slow(_messages: list[MessageExt], _context: object) -> ConsumeConcurrentlyStatus:
        clock.now_ms += MINUTE_MS
        return DONE

    consumer = DefaultMQPushConsumer(
        "G", namesrv_addr=broker.namesrv_addr, clock=clock, consume_timeout=1
    )
    consumer.subscribe("T")
    consumer.register_message_listener(slow)
    consumer.register_consume_message_hook(seen)
    with consumer:
        broker.send("T", b"one")
        until(lambda: seen.after_calls)
    assert seen.after_calls == [(True, "CONSUME_SUCCESS", "TIME_OUT")]


def test_the_end_of_a_delivery_that_is_settled_later_is_seen_then(broker: EmbeddedBroker) -> None:
    seen, held = Seen(), list[Delivery]()

    def listen(delivery: Delivery) -> None:
        held.append(delivery)

    consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("T")
    consumer.register_message_listener(listen)
    consumer.register_consume_message_hook(seen)
    with consumer:
        broker.send("T", b"one")
        until(lambda: held)
        assert seen.after_calls == []
        held[0].ack().result(10)
        assert seen.after_calls == [(True, "CONSUME_SUCCESS", "SUCCESS")]


def test_a_filter_hook_keeps_messages_from_the_listener_for_good(broker: EmbeddedBroker) -> None:
    class Odd:
        def filter_message(self, context: FilterMessageContext) -> None:
            assert (context.consumer_group, context.queue.topic) == ("G", "T")
            context.messages = [one for one in context.messages if int(one.body) % 2]

    bodies: list[bytes] = []

    def listen(messages: list[MessageExt], _context: object) -> ConsumeConcurrentlyStatus:
        bodies.extend(one.body for one in messages)
        return DONE

    for turn in range(2):  # what was filtered does not come again after a restart
        consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
        consumer.subscribe("T")
        consumer.register_message_listener(listen)
        consumer.register_filter_message_hook(Broken())
        consumer.register_filter_message_hook(Odd())
        with consumer:
            for number in range(6):
                broker.send("T", b"%d" % number)
            until(lambda: len(bodies) >= 3 * (turn + 1))  # noqa: B023 - it is over in this turn
    assert sorted(bodies) == [b"1", b"1", b"3", b"3", b"5", b"5"]


@pytest.mark.parametrize(
    ("replace", "left"),
    [
        (lambda messages: messages[::-1], [0, 1, 2]),
        (lambda messages: [messages[1], messages[1]], [1]),
        (lambda _: [], []),
        (lambda messages: [*messages, message(9)], [0, 1, 2]),
        (lambda _: None, [0, 1, 2]),
        (lambda _: ["text"], [0, 1, 2]),
    ],
    ids=["reversed", "twice", "nothing", "foreign", "no list", "no messages"],
)
def test_what_a_filter_hook_leaves_is_in_order_and_was_there_before(
    replace: Callable[[Any], Any], left: list[int]
) -> None:
    class Replacing:
        def filter_message(self, context: FilterMessageContext) -> None:
            context.messages = replace(context.messages)

    hooks = Hooks(filter=[Replacing()])
    messages = [message(offset) for offset in range(3)]
    assert [one.queue_offset for one in hooks.filtered("G", messages, QUEUE)] == left
