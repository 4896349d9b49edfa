"""A time-out that is taken back never comes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, RecallOutcome, VirtualClock
from embedded_broker.pytest_plugin import Consumers, Recorders
from rocketmq_py import DefaultMQProducer, Message, RocketMQError
from tests.kit.shop.app import Orders

RECALLED = [timedelta(0), timedelta(minutes=1), timedelta(minutes=29, seconds=58)]


@pytest.mark.parametrize("after", RECALLED, ids=str)
def test_a_paid_order_takes_its_time_out_back(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    rocketmq_clock: VirtualClock,
    rocketmq_topic: str,
    after: timedelta,
) -> None:
    timeouts = rocketmq_recorder(rocketmq_topic)
    orders = Orders(rocketmq_producer, rocketmq_topic)
    orders.place("42")
    rocketmq_clock.run(after)
    orders.pay_and_recall("42")
    timeouts.expect_nothing(within=timedelta(days=1))


@pytest.mark.rocketmq(timers=True, recall=True)
def test_a_recall_works_on_every_broker_that_has_it(
    rocketmq_producer: DefaultMQProducer, rocketmq_recorder: Recorders, rocketmq_topic: str
) -> None:
    timeouts = rocketmq_recorder(rocketmq_topic)
    orders = Orders(rocketmq_producer, rocketmq_topic, timedelta(seconds=4))
    orders.place("42")
    orders.pay_and_recall("42")
    rocketmq_producer.send(Message(rocketmq_topic, b"43", delay=timedelta(seconds=5)))
    timeouts.expect("43", within=timedelta(seconds=5))
    assert timeouts.texts == ["43"]


@pytest.mark.parametrize("late", [timedelta(minutes=30), timedelta(hours=2)], ids=str)
def test_a_recall_that_comes_too_late_is_refused(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    rocketmq_topic: str,
    rocketmq_clock: VirtualClock,
    late: timedelta,
) -> None:
    timeouts = rocketmq_recorder(rocketmq_topic)
    orders = Orders(rocketmq_producer, rocketmq_topic)
    orders.place("42")
    rocketmq_clock.run(late)
    with pytest.raises(RocketMQError):
        orders.pay_and_recall("42")
    timeouts.expect("42")


@pytest.mark.parametrize("count", [2, 9, 30])
def test_only_what_was_recalled_is_gone(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    rocketmq_clock: VirtualClock,
    rocketmq_topic: str,
    count: int,
) -> None:
    orders = Orders(rocketmq_producer, rocketmq_topic)
    rocketmq_consumer("orders", rocketmq_topic, orders.listen)
    for number in range(count):
        orders.place(str(number))
    for number in range(0, count, 3):
        orders.pay_and_recall(str(number))
    rocketmq_clock.run(minutes=30)
    assert orders.status == {
        str(number): "cancelled" if number % 3 else "paid" for number in range(count)
    }


@pytest.mark.rocketmq(views=True)
@pytest.mark.parametrize("way", ["recall", "fire_now"])
def test_an_operator_may_take_a_message_back_or_let_it_go_at_once(
    rocketmq_broker: EmbeddedBroker, rocketmq_recorder: Recorders, rocketmq_topic: str, way: str
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_broker.send(rocketmq_topic, b"x", delay=timedelta(days=1))
    (timer,) = rocketmq_broker.timers.pending(topic=rocketmq_topic)
    if way == "recall":
        assert rocketmq_broker.timers.recall(timer) is RecallOutcome.RECALLED
        arrived.expect_nothing(within=timedelta(days=2))
    else:
        rocketmq_broker.timers.fire_now(timer)
        arrived.expect("x")
