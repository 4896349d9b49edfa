"""A broker that is away for good: what clients say, and that they end in their time.

For these clients alone: the way to the broker is cut or blocked (`Way`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import (
    ClientClosedError,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    SendFailedError,
    SendTimeoutError,
)
from tests.sdk.conftest import GUARD_S
from tests.sdk.way import Harm, Way
from tests.unit.rocketmq_py.consumer.inbox import Inbox
from tests.waiting import GRACE_S, PATIENT, within

BUDGET_MS = 700
END_S = 0.3
OVER_S = 0.5
"""What a shutdown, a start or a send may take beyond its time."""
START_S = 3.0

HARMS: dict[str, tuple[Harm, bool]] = {"cut": (Way.cut, False), "blocked": (Way.block, True)}
"""What happens to the way, and whether a broker might have what was sent then."""


@pytest.fixture
def producer(rocketmq_broker: EmbeddedBroker, way: Way) -> Iterator[DefaultMQProducer]:
    with DefaultMQProducer(
        "far", namesrv_addr=rocketmq_broker.namesrv_addr, address_mapper=way
    ) as made:
        yield made


@pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "future"])
@pytest.mark.parametrize("harm", HARMS)
def test_a_send_ends_in_its_budget_and_says_what_became_of_it(
    rocketmq_topic: str, producer: DefaultMQProducer, way: Way, harm: str, asynchronous: bool
) -> None:
    stored = producer.send(Message(rocketmq_topic, b"there"))
    do, possibly_stored = HARMS[harm]
    do(way)
    # What is sent now may still have left, on a connection whose end is not known yet.
    producer.send_async(Message(rocketmq_topic, b"x"), timeout=BUDGET_MS).exception(GUARD_S)
    errors: list[BaseException | None] = []

    def send() -> None:
        message = Message(rocketmq_topic, b"away")
        if asynchronous:
            errors.append(producer.send_async(message, timeout=BUDGET_MS).exception(GUARD_S))
            return
        with pytest.raises(SendFailedError) as caught:
            producer.send(message, timeout=BUDGET_MS)
        errors.append(caught.value)

    within(BUDGET_MS / 1000 + OVER_S, send)
    (error,) = errors
    assert isinstance(error, SendTimeoutError)
    assert error.possibly_stored is possibly_stored
    assert {one.broker_name for one in error.attempts} == {stored.message_queue.broker_name}
    assert {one.possibly_stored for one in error.attempts} == {possibly_stored}
    assert all(one.seconds <= BUDGET_MS / 1000 + OVER_S + GRACE_S for one in error.attempts)


@pytest.mark.parametrize("harm", HARMS)
def test_a_producer_that_is_shut_down_ends_its_sends(
    rocketmq_topic: str, producer: DefaultMQProducer, way: Way, harm: str
) -> None:
    producer.send(Message(rocketmq_topic, b"there"))
    HARMS[harm][0](way)
    message = Message(rocketmq_topic, b"away")
    futures = [producer.send_async(message, timeout=60_000) for _ in range(20)]
    within(END_S + OVER_S, lambda: producer.shutdown(END_S))
    assert {type(one.exception(0)) for one in futures} == {ClientClosedError}


@pytest.mark.parametrize("harm", HARMS)
def test_clients_start_and_end_in_their_time(
    rocketmq_topic: str,
    rocketmq_group: str,
    rocketmq_broker: EmbeddedBroker,
    producer: DefaultMQProducer,
    way: Way,
    harm: str,
) -> None:
    producer.send(Message(rocketmq_topic, b"there"))  # now the way is known
    HARMS[harm][0](way)
    names = rocketmq_broker.namesrv_addr
    other = DefaultMQProducer(
        "other", namesrv_addr=names, address_mapper=way, topics=[rocketmq_topic], **PATIENT
    )
    consumer = DefaultMQPushConsumer(
        rocketmq_group, namesrv_addr=names, address_mapper=way, **PATIENT
    )
    consumer.subscribe(rocketmq_topic)
    consumer.register_message_listener(Inbox())
    for client in (other, consumer):
        try:
            within(START_S, client.start)
        finally:
            within(END_S + OVER_S, partial(client.shutdown, END_S))
