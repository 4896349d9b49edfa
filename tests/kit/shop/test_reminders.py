"""Reminders that arm the next one: each on its day, none skipped, none twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.pytest_plugin import Consumers, Recorders
from rocketmq_py import DefaultMQProducer, Message
from tests.kit.shop.app import Reminders

Remind = Callable[[timedelta, int], Reminders]


@pytest.fixture
def remind(
    rocketmq_producer: DefaultMQProducer, rocketmq_consumer: Consumers, rocketmq_topic: str
) -> Remind:
    def begin(every: timedelta, times: int) -> Reminders:
        reminders = Reminders(rocketmq_producer, rocketmq_topic, every, times)
        rocketmq_consumer("reminders", rocketmq_topic, reminders.listen)
        reminders.begin("renew")
        return reminders

    return begin


@pytest.mark.parametrize("times", [1, 2, 5, 30])
@pytest.mark.parametrize(
    "every", [timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)], ids=str
)
def test_each_reminder_comes_exactly_on_its_time(
    remind: Remind, rocketmq_clock: VirtualClock, every: timedelta, times: int
) -> None:
    began_ms = rocketmq_clock.now_ms
    reminders = remind(every, times)
    rocketmq_clock.run(every * (times + 1))
    step_ms = every // timedelta(milliseconds=1)
    assert reminders.rung_at_ms == [began_ms + step_ms * n for n in range(1, times + 1)]


@pytest.mark.parametrize("stop_after", range(1, 15))
def test_time_stops_where_a_condition_holds(
    remind: Remind, rocketmq_clock: VirtualClock, stop_after: int
) -> None:
    began = rocketmq_clock.now()
    reminders = remind(timedelta(days=1), 20)
    rocketmq_clock.run_until(lambda: len(reminders.rung_at_ms) == stop_after, at_most=86_400 * 20)
    assert rocketmq_clock.now() == began + timedelta(days=stop_after)
    assert len(reminders.rung_at_ms) == stop_after


@pytest.mark.rocketmq(virtual_clock=True)
@pytest.mark.parametrize("days", [0, 1, 2, 3])
def test_a_chain_is_expected_link_by_link(
    remind: Remind, rocketmq_recorder: Recorders, rocketmq_topic: str, days: int
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    remind(timedelta(days=1), 4)
    for day in range(1, days + 1):
        arrived.expect(f"renew {day}", within=timedelta(days=1), after=timedelta(days=1))
    arrived.expect_nothing(within=timedelta(hours=23))
    assert arrived.texts == [f"renew {day}" for day in range(1, days + 1)]


@pytest.mark.rocketmq(timers=True)
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_short_chain_works_on_every_broker(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    rocketmq_recorder: Recorders,
    rocketmq_topic: str,
    rocketmq_group: str,
    times: int,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    reminders = Reminders(rocketmq_producer, rocketmq_topic, timedelta(seconds=1), times)
    rocketmq_consumer(rocketmq_group, rocketmq_topic, reminders.listen)
    reminders.begin("renew")
    for number in range(1, times + 1):
        arrived.expect(f"renew {number}", within=timedelta(seconds=2))
    arrived.expect_nothing()


@pytest.mark.parametrize("hour", [0, 7, 8, 9, 23])
def test_a_reminder_at_eight_comes_at_the_next_eight_o_clock(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    rocketmq_clock: VirtualClock,
    rocketmq_topic: str,
    hour: int,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_clock.advance(hours=hour)
    eight = rocketmq_clock.now().replace(hour=8)
    if eight <= rocketmq_clock.now():
        eight += timedelta(days=1)
    rocketmq_producer.send(Message(rocketmq_topic, b"good morning", deliver_at=eight))
    arrived.expect("good morning", within=timedelta(days=1))
    assert (rocketmq_clock.now().hour, rocketmq_clock.now()) == (8, eight)


@pytest.mark.parametrize("moved_h", [-20, -1, 1, 20])
def test_a_reminder_may_be_moved(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_recorder: Recorders,
    rocketmq_clock: VirtualClock,
    rocketmq_topic: str,
    moved_h: int,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    sent = rocketmq_broker.send(rocketmq_topic, b"renew", delay=timedelta(days=1))
    due = rocketmq_clock.now() + timedelta(days=1, hours=moved_h)
    rocketmq_broker.timers.reschedule(sent, deliver_at=due)
    arrived.expect("renew", within=timedelta(days=2))
    assert rocketmq_clock.now() == due
    arrived.expect_nothing(within=timedelta(days=2))
