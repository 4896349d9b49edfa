"""A client on wall time and a broker on other time: one warning says so, and only when it helps."""

from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.clocks.instants import epoch_ms
from rocketmq_py import DefaultMQProducer, Message, SystemClock
from rocketmq_py.errors import DelayOutOfRangeError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from tests.unit.embedded_broker.wire_peer import Connect, send_fields

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
        (HOUR, Message("T", b"x").set_deliver_time_ms(1_000_000_000_000)),
        (HOUR, Message("T", b"x")),
    ],
    ids=["clocks agree", "relative", "long past", "no delay"],
)
def test_nothing_is_said_when_the_clock_does_not_matter(
    caplog: pytest.LogCaptureFixture, ahead: timedelta, message: Message
) -> None:
    assert warnings_of(caplog, VirtualClock(start=WALL.now() + ahead), message) == []


@pytest.mark.parametrize("days", [-400, -1, 1, 30])
def test_an_instant_computed_from_the_brokers_clock_is_in_order(
    caplog: pytest.LogCaptureFixture, days: int
) -> None:
    clock = VirtualClock(start=WALL.now() + timedelta(days=days))
    message = Message("T", b"x", deliver_at=clock.now() + timedelta(days=1))
    assert warnings_of(caplog, clock, message) == []


def test_an_instant_of_wall_time_that_is_years_ahead_of_the_broker_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    long_ago = VirtualClock(start=WALL.now() - timedelta(days=2_000))
    with pytest.raises(DelayOutOfRangeError):
        warnings_of(caplog, long_ago, in_ten_seconds())
    assert "compute delivery times from broker.clock.now_ms" in caplog.text


@pytest.mark.parametrize("born_ms", [10**15, -(10**15)])
def test_times_that_no_calendar_has_fail_no_send_for_the_sake_of_the_hint(
    connect: Connect, born_ms: int
) -> None:
    clock = VirtualClock(start=WALL.now() - timedelta(days=2_000))
    with EmbeddedBroker(clock=clock, topics=["T"]) as broker:
        fields = send_fields("T", {"TIMER_DELIVER_MS": str(born_ms + 10_000)}, g=str(born_ms))
        answer = connect(broker.addr).ask(RequestCode.SEND_MESSAGE_V2, fields, b"x")
        assert answer.code in {ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL}, answer.remark
        assert broker.timers.misread_clock is not None


@pytest.mark.parametrize("days", [-2_000, 2_000])
def test_what_was_computed_by_the_wrong_clock_can_be_asked_for_until_a_reset(days: int) -> None:
    clock = VirtualClock(start=WALL.now() + timedelta(days=days))
    config = {"timerMaxDelaySec": 3_000 * 86_400}
    with (
        EmbeddedBroker(clock=clock, tcp=False, topics=["T"], config=config) as broker,
        DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        found = broker.timers.misread_clock
        assert found is None
        when_ms = WALL.now_ms + 10_000
        producer.send(Message("T", b"x").set_deliver_time_ms(when_ms))
        producer.send(in_ten_seconds())
        found = broker.timers.misread_clock
        assert found is not None
        assert found.property_name == "TIMER_DELIVER_MS"
        assert epoch_ms(found.deliver_at) == when_ms
        assert found.broker_at == clock.now()
        assert timedelta(0) < found.deliver_at - found.sent_at <= timedelta(seconds=10)
        broker.reset()
        found = broker.timers.misread_clock
        assert found is None
