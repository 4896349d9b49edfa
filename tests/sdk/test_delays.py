"""Delayed messages on whatever broker `--rocketmq` names: the same tests, embedded and real.

On an embedded broker they take milliseconds. Elsewhere they wait, a few seconds each, or are
skipped with a reason.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from embedded_broker import VirtualClock
from embedded_broker.pytest_plugin import Recorders, Store
from rocketmq_py import DefaultMQProducer, Message

SECOND = timedelta(seconds=1)
LATE = timedelta(seconds=60)
"""A hang guard for machines that have much to do; nothing here says how late is too late."""


def test_a_delay_level_holds_a_message_back(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, rocketmq_recorder: Recorders
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_producer.send(Message(rocketmq_topic, b"later").set_delay_time_level(2))
    rocketmq_producer.send(Message(rocketmq_topic, b"now"))
    arrived.expect("now", within=LATE)
    arrived.expect("later", after=5 * SECOND, within=LATE)


@pytest.mark.rocketmq(timers=True)
def test_delays_of_any_length_arrive_in_the_order_of_their_times(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, rocketmq_recorder: Recorders
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    for seconds in (5, 1, 3):
        body = f"{seconds} s".encode()
        rocketmq_producer.send(Message(rocketmq_topic, body, delay=seconds * SECOND))
    for seconds in (1, 3, 5):
        arrived.expect(f"{seconds} s", within=LATE)
    assert arrived.texts == ["1 s", "3 s", "5 s"]


@pytest.mark.case("T52")
@pytest.mark.rocketmq(timers=True)
def test_a_delayed_message_arrives_as_it_was_sent_with_the_id_of_the_send(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, rocketmq_recorder: Recorders
) -> None:
    body = bytes(range(256))
    message = Message(rocketmq_topic, body, tags="TagA", keys="k1 k2", delay=2 * SECOND)
    message.put_user_property("color", "red")
    arrived = rocketmq_recorder(rocketmq_topic, tags="TagA")
    sent = rocketmq_producer.send(message)
    got = arrived.expect(body, within=LATE)
    assert (got.topic, got.tags, got.keys) == (rocketmq_topic, "TagA", ["k1", "k2"])
    assert got.get_user_property("color") == "red"
    assert (got.msg_id, got.reconsume_times) == (sent.msg_id, 0)


@pytest.mark.case("T56")
@pytest.mark.rocketmq(timers=True, recall=True)
def test_a_message_that_is_called_back_never_comes(
    rocketmq_topic: str, rocketmq_producer: DefaultMQProducer, rocketmq_recorder: Recorders
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    unwanted = rocketmq_producer.send(Message(rocketmq_topic, b"unwanted", delay=10 * SECOND))
    rocketmq_producer.send(Message(rocketmq_topic, b"wanted", delay=12 * SECOND))
    assert unwanted.recall is not None
    assert unwanted.recall.uniq_key == unwanted.msg_id
    recalled = rocketmq_producer.recall_message(rocketmq_topic, unwanted.recall_handle)
    assert recalled == unwanted.msg_id
    arrived.expect("wanted", within=LATE)
    assert arrived.texts == ["wanted"]


@pytest.mark.rocketmq(timers=True)
def test_a_delay_outlives_a_broker_that_is_killed(
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
    rocketmq_store: Store,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_producer.send(Message(rocketmq_topic, b"still there", delay=5 * SECOND))
    rocketmq_store.reopen(crash=True)
    arrived.expect("still there", within=LATE)


def test_a_day_takes_no_time_where_the_clock_is_ours(
    rocketmq_clock: VirtualClock,
    rocketmq_topic: str,
    rocketmq_producer: DefaultMQProducer,
    rocketmq_recorder: Recorders,
) -> None:
    arrived = rocketmq_recorder(rocketmq_topic)
    rocketmq_producer.send(Message(rocketmq_topic, b"tomorrow", delay=timedelta(days=1)))
    rocketmq_clock.run(timedelta(days=1) - SECOND)
    assert arrived.texts == []
    arrived.expect("tomorrow", within=SECOND)
