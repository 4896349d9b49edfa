"""What hooks of sends see of who sends, and what they let travel with a message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextvars import ContextVar

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    DefaultMQProducer,
    EndTransactionContext,
    LocalTransactionState,
    Message,
    SendMessageContext,
    TransactionMQProducer,
    aio,
)
from rocketmq_py.aio.engine import LARGE_BODY
from rocketmq_py.protocol.properties import PROPERTIES_SIZE_MAX

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"T": 1}) as started:
        yield started


class Adding:
    """A hook that adds properties, and notes for whom it was called."""

    def __init__(self, **extra: str) -> None:
        self.extra = extra
        self.callers: list[str] = []
        self.ends: list[LocalTransactionState] = []

    def before(self, context: SendMessageContext) -> None:
        self.callers.append(WHO.get())
        context.extra_properties.update(self.extra)

    def after(self, context: SendMessageContext) -> None:
        pass

    def end(self, context: EndTransactionContext) -> None:
        self.ends.append(context.state)


def stored(broker: EmbeddedBroker) -> list[dict[str, str]]:
    """The properties of what the broker has stored."""
    return [dict(one.properties) for one in broker.messages.in_topic("T")]


Send = Callable[[DefaultMQProducer, Message], object]
SENDS: dict[str, Send] = {
    "blocking": lambda producer, message: producer.send(message),
    "async": lambda producer, message: producer.send_async(message).result(10),
    "one-way": lambda producer, message: producer.send_oneway(message),
}


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
def test_extra_properties_are_stored_and_the_message_of_the_program_stays_as_it_is(
    broker: EmbeddedBroker, send: Send
) -> None:
    message = Message("T", b"x", properties={"mine": "1", "both": "mine"})
    with DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer:
        producer.register_send_message_hook(Adding(extra="2", both="theirs"))
        send(producer, message)
        broker.wait_idle()
    (properties,) = stored(broker)
    assert (properties["mine"], properties["extra"], properties["both"]) == ("1", "2", "mine")
    assert "extra" not in message.properties


def test_each_message_of_a_batch_gets_the_extra_properties(broker: EmbeddedBroker) -> None:
    with DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer:
        producer.register_send_message_hook(Adding(extra="2"))
        producer.send_batch([Message("T", b"x"), Message("T", b"y", properties={"extra": "own"})])
    assert [one["extra"] for one in stored(broker)] == ["2", "own"]


@pytest.mark.parametrize(
    "extra",
    [{"long": "x" * PROPERTIES_SIZE_MAX}, {"odd": "a\x01b"}, {"DELAY": "3"}],
    ids=["too long", "not to be stored", "reserved"],
)
def test_extra_properties_that_cannot_travel_are_told_and_break_no_send(
    broker: EmbeddedBroker, extra: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer:
        producer.register_send_message_hook(Adding(**extra))
        producer.send(Message("T", b"x"))
        producer.send_batch([Message("T", b"y")])
    assert [extra.keys() & one.keys() for one in stored(broker)] == [set(), set()]
    assert "send hook failed" in caplog.text
    assert "extra_properties" in caplog.text


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
def test_a_hook_sees_the_context_variables_of_who_sends(broker: EmbeddedBroker, send: Send) -> None:
    hook = Adding()
    with DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer:
        producer.register_send_message_hook(hook)
        token = WHO.set("caller")
        send(producer, Message("T", b"x"))  # the route is unknown: a thread asks for it
        WHO.reset(token)
        broker.wait_idle()
    assert hook.callers == ["caller"]


def test_hooks_of_an_asyncio_producer_see_the_task_that_sends(broker: EmbeddedBroker) -> None:
    hook = Adding(extra="2")

    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=broker.namesrv_addr) as producer:
            producer.register_send_message_hook(hook)
            producer.register_end_transaction_hook(hook)
            WHO.set("task")
            await producer.send(Message("T", b"x"))
            await producer.send(Message("T", b"x" * LARGE_BODY))  # made ready on a thread
            await producer.send_oneway(Message("T", b"x"))
            async with producer.transaction(Message("T", b"x")):
                pass

    asyncio.run(main())
    assert hook.callers == ["task"] * 4
    assert hook.ends == [LocalTransactionState.COMMIT_MESSAGE]
    assert [one["extra"] for one in stored(broker)] == ["2"] * 4


def test_a_half_message_has_the_extra_properties_when_it_becomes_visible(
    broker: EmbeddedBroker,
) -> None:
    class Commits:
        def execute_local_transaction(self, *_: object) -> LocalTransactionState:
            return LocalTransactionState.COMMIT_MESSAGE

        def check_local_transaction(self, *_: object) -> LocalTransactionState:
            return LocalTransactionState.COMMIT_MESSAGE

    producer = TransactionMQProducer(
        "G", namesrv_addr=broker.namesrv_addr, transaction_listener=Commits()
    )
    producer.register_send_message_hook(Adding(extra="2"))
    with producer:
        producer.send_message_in_transaction(Message("T", b"x"))
        broker.wait_idle()
    assert [one["extra"] for one in stored(broker)] == ["2"]
