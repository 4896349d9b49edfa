"""Sending without a client."""

from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.errors import ConfigError, MQBrokerException


def bodies(broker: EmbeddedBroker, topic: str = "T") -> list[bytes]:
    return [message.body for message in broker.messages.in_topic(topic)]


def test_every_way_to_ask_for_delay_waits_for_its_time(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    broker.send("T", b"seconds", delay=1.5)
    broker.send("T", b"span", delay=timedelta(minutes=1))
    broker.send("T", b"instant", delay=None, deliver_at=clock.now() + timedelta(seconds=30))
    broker.send("T", b"level", delay_level=3)
    broker.send("T", b"property", properties={"__STARTDELIVERTIME": str(clock.now_ms + 2000)})
    assert broker.timers.count() == broker.timers.count(topic="T") == 5
    assert broker.timers.count(topic="other") == 0
    assert repr(broker.timers) == "<timers: 5 pending>"

    clock.advance(60)

    assert bodies(broker) == [b"seconds", b"property", b"level", b"instant", b"span"]
    assert broker.timers.count() == 0


def test_two_delays_at_once_are_refused(broker: EmbeddedBroker) -> None:
    with pytest.raises(ConfigError, match="one of delay, delay_level and deliver_at"):
        broker.send("T", b"x", delay=1, delay_level=1)


def test_what_the_broker_refuses_is_raised_with_code_and_remark(broker: EmbeddedBroker) -> None:
    with pytest.raises(MQBrokerException) as caught:
        broker.send("T", b"x", delay=timedelta(days=30))

    assert caught.value.code == 13
    assert caught.value.broker_addr == broker.addr
