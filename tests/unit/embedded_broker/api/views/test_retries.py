"""What a group gets once more, and what it gave up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from tests.unit.embedded_broker.api.views.manual_consumer import ManualConsumer


def failed(broker: EmbeddedBroker, body: bytes, level: int = 0) -> ManualConsumer:
    """A group that could not handle a message."""
    consumer = ManualConsumer(broker)
    consumer.join()
    offset = broker.topics["T"].max_offset(0)
    broker.send("T", body, queue=0, tags="a", keys="k1 k2")
    (record,) = consumer.take(offset)
    consumer.send_back(record, level)
    consumer.commit(offset + 1)
    return consumer


def test_a_retry_waits_for_its_time_and_is_over_when_it_is_committed(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    start = clock.now()
    consumer = failed(broker, b"x")
    broker.send("T", b"another level", delay_level=3)

    (retry,) = broker.groups["G"].retries()
    assert (retry.topic, retry.attempts, retry.waiting) == ("T", 1, True)
    assert retry.due_at == start + timedelta(seconds=10)
    assert (retry.body, retry.tags, retry.keys) == (b"x", "a", ("k1", "k2"))
    assert retry.msg_id == broker.messages.in_topic("T")[0].msg_id

    clock.advance(10)
    (retry,) = broker.groups["G"].retries()
    assert (retry.waiting, retry.due_at) == (False, clock.now())
    consumer.take(topic="%RETRY%G")
    consumer.commit(1, topic="%RETRY%G")
    assert broker.groups["G"].retries() == []


def test_retries_come_in_the_order_of_their_times(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    failed(broker, b"late", 5)
    failed(broker, b"soon", 1)
    clock.advance(2)
    failed(broker, b"middle", 3)

    assert [one.body for one in broker.groups["G"].retries()] == [b"soon", b"middle", b"late"]
    assert [one.waiting for one in broker.groups["G"].retries()] == [False, True, True]


def test_retries_of_other_groups_are_not_among_them(broker: EmbeddedBroker) -> None:
    failed(broker, b"x")
    ManualConsumer(broker, "H").join()

    assert broker.groups["H"].retries() == []


@pytest.mark.parametrize("option", ["routeDelayLevelToWheel"])
def test_retries_that_wait_in_the_wheel_are_found_too(clock: VirtualClock, option: str) -> None:
    with EmbeddedBroker(
        clock=clock, tcp=False, topics=["T"], seed=1, config={option: True}
    ) as broker:
        failed(broker, b"x")

        (retry,) = broker.groups["G"].retries()

        assert (retry.waiting, retry.body) == (True, b"x")
        assert retry.due_at == clock.now() + timedelta(seconds=10)
        clock.advance(10)
        assert [one.waiting for one in broker.groups["G"].retries()] == [False]


def test_dead_letters_are_what_the_group_gave_up(broker: EmbeddedBroker) -> None:
    failed(broker, b"x")
    assert broker.groups["G"].dead_letters() == []
    failed(broker, b"y", -1)

    (letter,) = broker.groups["G"].dead_letters()

    assert (letter.topic, letter.body) == ("%DLQ%G", b"y")
    assert broker.groups["G"].retries()[0].body == b"x"
