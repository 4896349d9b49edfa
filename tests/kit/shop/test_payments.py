"""Payments are tried again, later and later, until they work or are given up."""

from __future__ import annotations

from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.pytest_plugin import Consumers, Recorders
from rocketmq_py import ConsumeConcurrentlyContext as Context
from rocketmq_py import ConsumeConcurrentlyStatus, DefaultMQProducer, Message, MessageExt
from tests.kit.shop.app import LATER, Payments

Messages = list[MessageExt]
WAITS_S = [10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]
"""The pauses between the tries of a message, as RocketMQ's delay levels say."""


@pytest.mark.parametrize("failures", range(17))
def test_a_payment_is_tried_again_after_ever_longer_pauses(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    rocketmq_clock: VirtualClock,
    rocketmq_topic: str,
    failures: int,
) -> None:
    payments = Payments(failures)
    rocketmq_consumer("billing", rocketmq_topic, payments.listen)
    began_ms = rocketmq_clock.now_ms
    rocketmq_producer.send(Message(rocketmq_topic, b"42"))
    rocketmq_clock.run(days=1)
    assert payments.paid == ["42"]
    expected_s = [sum(WAITS_S[:number]) for number in range(failures + 1)]
    assert expected_s == [(one - began_ms) // 1000 for one in payments.tried_at_ms]


@pytest.mark.parametrize("tries", [0, 1, 2, 3, 5])
def test_a_payment_that_never_works_ends_among_the_dead_letters(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    rocketmq_recorder: Recorders,
    rocketmq_clock: VirtualClock,
    rocketmq_topic: str,
    tries: int,
) -> None:
    payments = Payments(failures=1000)
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_consumer("billing", rocketmq_topic, payments.listen, max_reconsume_times=tries)
    rocketmq_producer.send(Message(rocketmq_topic, b"42", keys="order-42"))
    rocketmq_clock.run(days=1)
    (dead,) = arrived.dead_letters("billing")
    assert dead.body == b"42"
    assert dead.keys == ("order-42",)
    assert len(payments.tried_at_ms) == tries + 1
    assert arrived.texts == ["42"]  # retries go to the group that asked for them alone


@pytest.mark.parametrize("level", range(1, 19))
def test_a_listener_may_say_how_long_the_pause_is(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    rocketmq_clock: VirtualClock,
    rocketmq_topic: str,
    level: int,
) -> None:
    at_ms: list[int] = []

    def listen(messages: Messages, context: Context) -> ConsumeConcurrentlyStatus:
        at_ms.extend(one.store_timestamp for one in messages)
        context.delay_level_when_next_consume = level
        return LATER if len(at_ms) == 1 else Payments(0).listen(messages, context)

    rocketmq_consumer("billing", rocketmq_topic, listen)
    rocketmq_producer.send(Message(rocketmq_topic, b"42"))
    rocketmq_clock.run(hours=3)
    waits_s = [1, 5, *WAITS_S]
    assert [waits_s[level - 1]] == [(at_ms[1] - at_ms[0]) // 1000]
    assert len(at_ms) == 2


@pytest.mark.parametrize("failures", [0, 1])
def test_a_delayed_payment_is_tried_again_on_every_broker(
    rocketmq_producer: DefaultMQProducer,
    rocketmq_consumer: Consumers,
    rocketmq_recorder: Recorders,
    rocketmq_topic: str,
    rocketmq_group: str,
    failures: int,
) -> None:
    payments = Payments(failures)
    receipts = rocketmq_recorder(rocketmq_topic, tags="receipt")

    def pay(messages: Messages, context: Context) -> ConsumeConcurrentlyStatus:
        told = payments.listen(messages, context)
        context.delay_level_when_next_consume = 1  # one second
        for text in payments.paid:
            rocketmq_producer.send(Message(rocketmq_topic, text.encode(), tags="receipt"))
        return told

    rocketmq_consumer(rocketmq_group, rocketmq_topic, pay, tags="pay")
    rocketmq_producer.send(Message(rocketmq_topic, b"42", tags="pay").set_delay_time_level(1))
    receipts.expect("42", within=timedelta(seconds=2 + failures))


@pytest.mark.rocketmq(views=True)
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_payment_that_is_delivered_again_is_seen_by_one_group_only(
    rocketmq_broker: EmbeddedBroker,
    rocketmq_recorder: Recorders,
    rocketmq_topic: str,
    nth: int,
) -> None:
    billing, audit = rocketmq_recorder(rocketmq_topic), rocketmq_recorder(rocketmq_topic)
    for number in range(3):
        rocketmq_broker.send(rocketmq_topic, b"%d" % number)
    wanted = billing.expect(b"%d" % (nth - 1))
    rocketmq_broker.redeliver(wanted, group=billing.group)
    billing.expect(b"%d" % (nth - 1))
    assert [wanted.msg_id] == [one.msg_id for one in billing.duplicates]
    assert audit.duplicates == []
