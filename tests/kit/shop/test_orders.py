"""Orders time out, unless they are paid: to the millisecond, and on a real broker to the second."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.pytest_plugin import Consumers, Recorders
from rocketmq_py import DefaultMQProducer, Message
from tests.kit.shop.app import Orders

Shop = Callable[[timedelta], Orders]
MILLISECOND = timedelta(milliseconds=1)
TIMEOUTS = [
    timedelta(milliseconds=1),
    timedelta(seconds=1),
    timedelta(seconds=59, milliseconds=999),
    timedelta(minutes=2, microseconds=1000),
    timedelta(minutes=30),
    timedelta(hours=5, seconds=1),
    timedelta(days=1),
    timedelta(days=2, hours=23, minutes=59, seconds=59),
]


@pytest.fixture
def shop(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    rocketmq_topic: str,
    rocketmq_group: str,
) -> Shop:
    def open_shop(timeout: timedelta) -> Orders:
        orders = Orders(rocketmq_producer, rocketmq_topic, timeout)
        rocketmq_consumer(rocketmq_group, rocketmq_topic, orders.listen, tags="timeout")
        return orders

    return open_shop


@pytest.mark.parametrize("timeout", TIMEOUTS, ids=str)
def test_an_order_that_nobody_pays_is_cancelled_in_time(
    shop: Shop, rocketmq_clock: VirtualClock, timeout: timedelta
) -> None:
    orders = shop(timeout)
    orders.place("42")
    rocketmq_clock.run(timeout - MILLISECOND)
    assert orders.status == {"42": "open"}
    rocketmq_clock.run(MILLISECOND)
    assert orders.status == {"42": "cancelled"}


@pytest.mark.parametrize("timeout", TIMEOUTS, ids=str)
def test_an_order_that_is_paid_in_the_last_moment_stays(
    shop: Shop, rocketmq_clock: VirtualClock, timeout: timedelta
) -> None:
    orders = shop(timeout)
    orders.place("42")
    rocketmq_clock.run(timeout - MILLISECOND)
    orders.pay("42")
    rocketmq_clock.run(days=3)
    assert orders.status == {"42": "paid"}


@pytest.mark.parametrize("timeout", TIMEOUTS, ids=str)
def test_money_that_comes_too_late_does_not_bring_an_order_back(
    shop: Shop, rocketmq_clock: VirtualClock, timeout: timedelta
) -> None:
    orders = shop(timeout)
    orders.place("42")
    rocketmq_clock.run(timeout)
    orders.pay("42")
    assert orders.status == {"42": "cancelled"}


@pytest.mark.parametrize("count", [2, 7, 40])
def test_each_of_many_orders_has_its_own_time(
    shop: Shop, rocketmq_clock: VirtualClock, count: int
) -> None:
    orders = shop(timedelta(minutes=30))
    for number in range(count):
        orders.place(str(number))
        rocketmq_clock.run(minutes=1)
    for number in range(0, count, 2):
        if orders.status[str(number)] == "open":
            orders.pay(str(number))
    late = {str(number) for number in range(count) if orders.status[str(number)] == "cancelled"}
    rocketmq_clock.run(minutes=31)
    odd = {str(number) for number in range(1, count, 2)}
    cancelled = {number for number, status in orders.status.items() if status == "cancelled"}
    assert cancelled == odd | late
    assert len(late) == max(0, count - 29)


@pytest.mark.rocketmq(timers=True)
@pytest.mark.parametrize("seconds", [1, 2])
def test_a_short_time_out_works_on_every_broker(
    shop: Shop, rocketmq_recorder: Recorders, rocketmq_topic: str, seconds: int
) -> None:
    timeouts = rocketmq_recorder(rocketmq_topic, tags="timeout")
    orders = shop(timedelta(seconds=seconds))
    orders.place("42")
    timeouts.expect("42", within=timedelta(seconds=seconds), after=timedelta(seconds=seconds))
    timeouts.expect_nothing()
    assert timeouts.texts == ["42"]


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_a_time_out_that_comes_again_cancels_nothing_twice(
    shop: Shop,
    rocketmq_broker: EmbeddedBroker,
    rocketmq_clock: VirtualClock,
    rocketmq_topic: str,
    rocketmq_recorder: Recorders,
    copies: int,
) -> None:
    timeouts = rocketmq_recorder(rocketmq_topic)
    orders = shop(timedelta(minutes=30))
    orders.place("42")
    orders.place("43")
    orders.pay("43")
    rocketmq_clock.run(minutes=30)
    for message in list(timeouts.messages):
        for _ in range(copies):
            rocketmq_broker.redeliver(message)
    rocketmq_clock.settle()
    assert orders.status == {"42": "cancelled", "43": "paid"}
    assert len(timeouts.duplicates) == 2 * copies


@pytest.mark.parametrize("members", [2, 3, 4, 5])
def test_members_of_the_group_share_the_work(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    rocketmq_clock: VirtualClock,
    rocketmq_topic: str,
    members: int,
) -> None:
    shops = [Orders(rocketmq_producer, rocketmq_topic) for _ in range(members)]
    for one in shops:
        rocketmq_consumer("orders", rocketmq_topic, one.listen)
    rocketmq_clock.settle()
    for number in range(12):
        for one in shops:
            one.status[str(number)] = "open"
        shops[0].place(str(number))
    rocketmq_clock.run(minutes=30)
    cancelled = [
        number for one in shops for number, told in one.status.items() if told == "cancelled"
    ]
    assert sorted(cancelled, key=int) == [str(number) for number in range(12)]


LEVELS_S = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]


@pytest.mark.rocketmq(virtual_clock=True)
@pytest.mark.parametrize("level", range(1, 19))
def test_a_delay_level_is_as_good_as_a_delay(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    rocketmq_topic: str,
    level: int,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    seconds = LEVELS_S[level - 1]
    rocketmq_producer.send(Message(rocketmq_topic, b"level").set_delay_time_level(level))
    rocketmq_producer.send(Message(rocketmq_topic, b"delay", delay=timedelta(seconds=seconds)))
    arrived.expect("level", within=seconds, after=seconds)
    arrived.expect("delay")


@pytest.mark.parametrize("level", [1, 2])
def test_a_short_delay_level_works_on_every_broker(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    rocketmq_topic: str,
    level: int,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_producer.send(Message(rocketmq_topic, b"x").set_delay_time_level(level))
    arrived.expect("x", within=LEVELS_S[level - 1])


@pytest.mark.rocketmq(start=datetime(2028, 2, 28, 23, 59, 30, tzinfo=UTC))
@pytest.mark.parametrize("seconds", [29, 30, 31, 86_430])
def test_midnight_and_the_29th_of_february_are_no_trouble(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    rocketmq_topic: str,
    rocketmq_clock: VirtualClock,
    seconds: int,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    due = rocketmq_clock.now() + timedelta(seconds=seconds)
    rocketmq_producer.send(Message(rocketmq_topic, b"x", deliver_at=due))
    arrived.expect(b"x", within=seconds, after=seconds)
    assert rocketmq_clock.now() == due
