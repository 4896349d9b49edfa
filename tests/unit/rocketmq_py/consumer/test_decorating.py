"""A listener that is named where it is written: ``@consumer.listener``."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import (
    ClientClosedError,
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    DefaultMQPushConsumer,
    Delivery,
    MessageExt,
    MQClientException,
)

PATIENCE_S = 20.0
DONE = ConsumeConcurrentlyStatus.CONSUME_SUCCESS


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), tcp=False, topics={"T": 1}) as started:
        yield started


@pytest.fixture
def consumer(broker: EmbeddedBroker) -> Iterator[DefaultMQPushConsumer]:
    made = DefaultMQPushConsumer(
        "G",
        namesrv_addr=broker.namesrv_addr,
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    made.subscribe("T")
    yield made
    made.shutdown()


Got = queue.SimpleQueue[tuple[str, bytes]]


def plain(consumer: DefaultMQPushConsumer, got: Got) -> None:
    @consumer.listener
    def listen(
        messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        got.put((type(context).__name__, messages[0].body))
        return DONE


def orderly(consumer: DefaultMQPushConsumer, got: Got) -> None:
    @consumer.listener(orderly=True)
    def listen(messages: list[MessageExt], context: ConsumeOrderlyContext) -> ConsumeOrderlyStatus:
        got.put((type(context).__name__, messages[0].body))
        return ConsumeOrderlyStatus.SUCCESS


def settling(consumer: DefaultMQPushConsumer, got: Got) -> None:
    @consumer.listener
    def listen(delivery: Delivery) -> None:
        got.put((type(delivery).__name__, delivery.message.body))
        delivery.ack()


def settling_in_order(consumer: DefaultMQPushConsumer, got: Got) -> None:
    @consumer.listener(orderly=True)
    def listen(delivery: Delivery) -> None:
        got.put((type(delivery).__name__, delivery.message.body))
        delivery.ack()


@pytest.mark.parametrize(
    ("decorate", "given"),
    [
        (plain, "ConsumeConcurrentlyContext"),
        (orderly, "ConsumeOrderlyContext"),
        (settling, "Delivery"),
        (settling_in_order, "Delivery"),
    ],
)
def test_a_decorated_function_gets_the_messages_in_its_own_shape(
    broker: EmbeddedBroker,
    consumer: DefaultMQPushConsumer,
    decorate: Callable[[DefaultMQPushConsumer, Got], None],
    given: str,
) -> None:
    got: Got = queue.SimpleQueue()
    decorate(consumer, got)
    assert consumer._listening is not None
    assert consumer._listening.is_orderly == ("order" in decorate.__name__)
    broker.send("T", b"first")
    consumer.start()
    assert got.get(timeout=PATIENCE_S) == (given, b"first")


def test_a_decorated_function_stays_itself(consumer: DefaultMQPushConsumer) -> None:
    def listen(_messages: list[MessageExt], _: object) -> ConsumeConcurrentlyStatus:
        return DONE

    assert consumer.listener(listen) is listen
    assert listen([], None) is DONE


def test_a_second_listener_is_refused_and_the_first_one_stays(
    consumer: DefaultMQPushConsumer,
) -> None:
    @consumer.listener
    def first(delivery: Delivery) -> None:
        delivery.ack()

    with pytest.raises(MQClientException, match=r"'G'.*has a listener, which gets all its"):

        @consumer.listener(orderly=True)
        def second(delivery: Delivery) -> None:
            delivery.ack()

    assert consumer._listening is not None
    assert (consumer._listening.function, consumer._listening.is_orderly) == (first, False)


async def a_coroutine(delivery: Delivery) -> None:
    """Be a listener of the asyncio consumer."""


@pytest.mark.parametrize("wrong", [5, dict, a_coroutine, lambda _one, _two, _three: DONE])
def test_what_cannot_be_called_is_refused_where_it_is_decorated(
    consumer: DefaultMQPushConsumer, wrong: Any
) -> None:
    for decorate in (consumer.listener, consumer.listener(orderly=True)):
        with pytest.raises(TypeError):
            decorate(wrong)
    assert consumer._listening is None


def test_after_the_end_no_listener_is_decorated(consumer: DefaultMQPushConsumer) -> None:
    consumer.shutdown()
    with pytest.raises(ClientClosedError, match="make a new one"):
        consumer.listener(lambda _messages, _context: DONE)
