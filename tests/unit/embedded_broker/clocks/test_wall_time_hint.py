"""A client on wall time and a broker on other time: one warning says so, and only when it helps."""

from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import DefaultMQProducer, Message, SystemClock

WALL = SystemClock()
HOUR = timedelta(hours=1)


def warnings_of(
    caplog: pytest.LogCaptureFixture, clock: VirtualClock, *messages: Message
) -> list[str]:
    with (
        EmbeddedBroker(clock=clock, tcp=False, topics=["T"]) as broker,
        DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        for message in messages:
            producer.send(message)
    return [one.getMessage() for one in caplog.records if one.name.endswith("wall_time_hint")]


def in_ten_seconds() -> Message:
    return Message("T", b"x").set_deliver_time_ms(WALL.now_ms + 10_000)


def test_an_instant_computed_from_wall_time_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    ahead = VirtualClock(start=WALL.now() + HOUR)
    (told,) = warnings_of(caplog, ahead, in_ten_seconds(), in_ten_seconds())
    assert "broker.clock.now_ms" in told
    assert "TIMER_DELIVER_MS" in told


@pytest.mark.parametrize(
    ("ahead", "message"),
    [
        (timedelta(0), in_ten_seconds()),
        (HOUR, Message("T", b"x").set_delay_time_sec(10)),
        (HOUR, Message("T", b"x").set_deliver_time_ms(1)),
        (HOUR, Message("T", b"x")),
    ],
    ids=["clocks agree", "relative", "long past", "no delay"],
)
def test_nothing_is_said_when_the_clock_does_not_matter(
    caplog: pytest.LogCaptureFixture, ahead: timedelta, message: Message
) -> None:
    assert warnings_of(caplog, VirtualClock(start=WALL.now() + ahead), message) == []
