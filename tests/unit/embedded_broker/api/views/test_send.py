"""Sending without a client."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py.errors import ConfigError, DelayValueError, MQBrokerException


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
    broker.topics.create("other")
    assert broker.timers.count(topic="other") == 0
    assert repr(broker.timers) == "<timers: 5 pending>"

    clock.advance(60)

    assert bodies(broker) == [b"seconds", b"property", b"level", b"instant", b"span"]
    assert broker.timers.count() == 0


@pytest.mark.parametrize(
    "asked",
    [
        {"delay": -1},
        {"delay": timedelta(seconds=-1)},
        {"delay": timedelta(microseconds=-1000)},
        {"delay": float("inf")},
        {"delay": float("nan")},
        {"delay": 1e300},
        {"delay_level": 2**31},
        {"deliver_at": datetime(2030, 1, 1)},  # noqa: DTZ001 - it is refused
    ],
)
def test_a_delay_that_cannot_be_meant_is_refused_as_the_client_does(
    broker: EmbeddedBroker, asked: dict[str, Any]
) -> None:
    with pytest.raises(DelayValueError):
        broker.send("T", b"x", **asked)
    assert broker.journal.requests() == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"delay": "1"}, "delay takes seconds or a timedelta, not str '1'"),
        ({"delay": True}, "delay takes seconds or a timedelta, not bool True"),
        ({"delay_level": "3"}, "DELAY takes an int, not str '3'"),
        ({"deliver_at": 5}, "deliver_at takes a datetime, not int 5"),
        ({"body": "x"}, "a body is bytes, not str: encode the text"),
        ({"body": 5}, "a body is bytes, not int"),
        ({"topic": b"T"}, "a topic is str, not bytes b'T'"),
        ({"queue": "0"}, "queue is the number of one, counted from 0, not str '0'"),
        ({"tags": 3}, "property 'TAGS': names and values are str, not int 3"),
        ({"properties": {"a": 1}}, "property 'a': names and values are str, not int 1"),
        ({"properties": {1: "a"}}, "property 1: names and values are str, not int 1"),
    ],
)
def test_a_value_of_another_type_is_named(
    broker: EmbeddedBroker, arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(TypeError, match=f"^{named}"):
        broker.send(**{"topic": "T", "body": b"x", **arguments})
    assert broker.journal.requests() == []


def test_every_kind_of_bytes_is_a_body(broker: EmbeddedBroker) -> None:
    for body in (b"1", bytearray(b"2"), memoryview(b"3")):
        broker.send("T", body)
    assert bodies(broker) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("microseconds", [400, 1300, 1500])
def test_advancing_by_a_delay_delivers_whatever_its_fraction(
    broker: EmbeddedBroker, clock: VirtualClock, microseconds: int
) -> None:
    delay = timedelta(microseconds=microseconds)
    broker.send("T", b"x", delay=delay)
    clock.advance(delay)
    assert bodies(broker) == [b"x"]


def test_jumping_to_a_delivery_time_delivers_whatever_its_fraction(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    moment = clock.now() + timedelta(microseconds=1_000_001)
    broker.send("T", b"x", deliver_at=moment)
    clock.jump_to(moment)
    assert bodies(broker) == [b"x"]


def test_two_delays_at_once_are_refused(broker: EmbeddedBroker) -> None:
    with pytest.raises(ConfigError, match="one of delay, delay_level and deliver_at"):
        broker.send("T", b"x", delay=1, delay_level=1)


def test_what_the_broker_refuses_is_raised_with_code_and_remark(broker: EmbeddedBroker) -> None:
    with pytest.raises(MQBrokerException) as caught:
        broker.send("T", b"x", delay=timedelta(days=30))

    assert caught.value.code == 13
    assert caught.value.broker_addr == broker.addr
