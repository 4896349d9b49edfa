"""What hooks of consumers learn of each message, what a call sees of them, and what is held."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    CachedMessages,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeMessageContext,
    ConsumeOrderlyStatus,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Delivery,
    DeliveryListener,
    FilterMessageContext,
    Message,
    MessageExt,
    MessageListenerOrderly,
    MessageModel,
    aio,
)
from tests.waiting import until

DONE, LATER = list(ConsumeConcurrentlyStatus)
STEP: ContextVar[str] = ContextVar("STEP", default="outside")


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"T": 1}, clock=VirtualClock()) as started:
        yield started


class Noting:
    """A hook that notes outcomes, and sets a context variable."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.outcomes: list[tuple[str, ...]] = []
        self.fetched: list[bytes] = []

    def before(self, context: ConsumeMessageContext) -> None:
        self.begun.append(STEP.get())
        STEP.set("in the call")

    def after(self, context: ConsumeMessageContext) -> None:
        self.outcomes.append(context.outcomes)

    def filter_message(self, context: FilterMessageContext) -> None:
        self.fetched += [one.body for one in context.messages]


def acked_first(
    _messages: object, context: ConsumeConcurrentlyContext
) -> ConsumeConcurrentlyStatus:
    context.ack_index = 0
    return DONE


def buried(_messages: object, context: ConsumeConcurrentlyContext) -> ConsumeConcurrentlyStatus:
    context.delay_level_when_next_consume = -1
    return LATER


SUCCESS = ConsumeOrderlyStatus.SUCCESS
SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
ONCE: dict[str, Any] = {"max_reconsume_times": 0}
BROADCAST: dict[str, Any] = {"message_model": MessageModel.BROADCASTING}
ENDS: list[tuple[str, Any, dict[str, Any], str]] = [
    ("done", lambda _m, _c: DONE, {}, "HANDLED"),
    ("later", lambda _m, _c: LATER, {}, "AGAIN"),
    ("the last attempt", lambda _m, _c: LATER, ONCE, "DEAD"),
    ("buried", buried, {}, "DEAD"),
    ("broadcast", lambda _m, _c: LATER, BROADCAST, "DROPPED"),
    (
        "in order",
        MessageListenerOrderly(lambda _m, _c: ConsumeOrderlyStatus.SUCCESS),
        {},
        "HANDLED",
    ),
    ("waits in order", MessageListenerOrderly(lambda _m, _c: SUSPEND), {}, "AGAIN"),
    ("the last in order", MessageListenerOrderly(lambda _m, _c: SUSPEND), ONCE, "DEAD"),
    ("ack", DeliveryListener(lambda one: one.ack()), {}, "HANDLED"),
    ("nack", DeliveryListener(lambda one: one.nack()), {}, "AGAIN"),
    ("dead", DeliveryListener(lambda one: one.dead()), {}, "DEAD"),
]


@pytest.mark.parametrize(
    ("listener", "settings", "outcome"), [one[1:] for one in ENDS], ids=[one[0] for one in ENDS]
)
def test_a_hook_learns_what_becomes_of_a_message(
    broker: EmbeddedBroker, listener: Any, settings: dict[str, Any], outcome: str, tmp_path: Any
) -> None:
    hook = Noting()
    if "message_model" in settings:
        settings = {**settings, "local_offset_store_dir": str(tmp_path)}
    consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr, **settings)
    consumer.subscribe("T")
    consumer.register_message_listener(listener)
    consumer.register_consume_message_hook(hook)
    with consumer:
        broker.send("T", b"one")
        until(lambda: hook.outcomes)
    assert hook.outcomes[0] == (outcome,)


def test_of_several_messages_each_has_its_outcome(broker: EmbeddedBroker) -> None:
    hook = Noting()
    consumer = DefaultMQPushConsumer(
        "G", namesrv_addr=broker.namesrv_addr, consume_message_batch_max_size=2
    )
    consumer.subscribe("T")
    consumer.register_message_listener(acked_first)
    consumer.register_consume_message_hook(hook)
    with consumer, DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
        producer.send_batch([Message("T", b"one"), Message("T", b"two")])
        until(lambda: hook.outcomes)
    assert hook.outcomes[0] == ("HANDLED", "AGAIN")


def test_a_listener_sees_what_a_hook_has_set_for_its_call_alone(broker: EmbeddedBroker) -> None:
    hook, seen = Noting(), list[str]()

    def listen(_messages: list[MessageExt], _context: object) -> ConsumeConcurrentlyStatus:
        seen.append(STEP.get())
        return DONE

    consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr, consume_thread_min=1)
    consumer.subscribe("T")
    consumer.register_message_listener(listen)
    consumer.register_consume_message_hook(hook)
    with consumer:
        broker.send("T", b"one")
        broker.send("T", b"two")
        until(lambda: len(seen) == 2)
    assert seen == ["in the call"] * 2
    assert hook.begun == ["outside"] * 2  # nothing is left of the earlier call


def test_the_task_of_an_asyncio_listener_sees_what_a_hook_has_set(broker: EmbeddedBroker) -> None:
    hook, seen = Noting(), list[str]()

    async def main() -> None:
        over = asyncio.Event()

        async def listen(_: aio.Delivery) -> None:
            seen.append(STEP.get())
            over.set()

        consumer = aio.Consumer("G", namesrv_addr=broker.namesrv_addr)
        consumer.subscribe("T")
        consumer.register_message_listener(listen)
        consumer.register_consume_message_hook(hook)
        consumer.register_filter_message_hook(hook)
        async with consumer:
            await asyncio.to_thread(broker.send, "T", b"one")
            await asyncio.wait_for(over.wait(), 10)

    asyncio.run(main())
    assert seen == ["in the call"]
    assert hook.outcomes == [("HANDLED",)]
    assert hook.fetched == [b"one"]


def test_hooks_of_a_polled_consumer_see_what_polls_return(broker: EmbeddedBroker) -> None:
    hook = Noting()
    consumer = DefaultLitePullConsumer("G", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("T")
    consumer.register_consume_message_hook(hook)
    consumer.register_filter_message_hook(hook)
    with consumer:
        broker.send("T", b"one")
        assert [one.body for one in consumer.poll(10_000)] == [b"one"]
    assert hook.outcomes == [("HANDLED",)]
    assert hook.fetched == [b"one"]


def test_what_a_consumer_holds_is_told_by_topic(broker: EmbeddedBroker) -> None:
    held: list[Delivery] = []
    listener: Any = DeliveryListener(held.append)
    consumer = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
    consumer.subscribe("T")
    consumer.register_message_listener(listener)
    assert consumer.cached() == {}
    with consumer:
        broker.send("T", b"one")
        until(lambda: held)
        assert consumer.cached() == {"T": CachedMessages(1, 3), "%RETRY%G": CachedMessages(0, 0)}
        held[0].ack().result(10)
        until(lambda: consumer.cached()["T"] == CachedMessages(0, 0))
    assert consumer.cached() == {}
