"""Delayed messages from the producer's side: the embedded broker is the judge, its clock ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.api.views import StoredMessage
from rocketmq_py import DefaultMQProducer, DelayKind, Message
from rocketmq_py.errors import (
    DelayConflictError,
    DelayOutOfRangeError,
    DelayValueError,
    InvalidDelayError,
    MQBrokerException,
    MQClientException,
    ReservedPropertyError,
)
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.properties import decode_properties

Setter = Callable[[Message, int], object]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock(), inproc=False) as made:
        yield made


@pytest.fixture
def producer(broker: EmbeddedBroker) -> Iterator[DefaultMQProducer]:
    with DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as made:
        yield made


def on_the_wire(broker: EmbeddedBroker) -> dict[str, str]:
    """The properties of the latest message as the broker got them."""
    return decode_properties(
        broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2)[-1].fields["i"]
    )


def arrival(broker: EmbeddedBroker, after_ms: int) -> StoredMessage:
    """Step to just before the time and to it: not there, then there."""
    broker.clock.advance((after_ms - 1) / 1000)
    assert broker.messages.in_topic("T") == []
    broker.clock.advance(0.001)
    (message,) = broker.messages.in_topic("T")
    return message


def by_property(name: str, in_ms: bool, absolute: bool) -> Setter:
    def put(message: Message, now_ms: int) -> object:
        value = 10_000 if in_ms else 10
        return message.put_user_property(name, str(now_ms + value if absolute else value))

    return put


@pytest.mark.case("T33", "T35", "T37", "T38")
@pytest.mark.parametrize(
    ("ask", "name", "text"),
    [
        (lambda m, _: m.set_delay_time_sec(10), "TIMER_DELAY_SEC", "10"),
        (lambda m, _: m.set_delay_time_ms(10_000), "TIMER_DELAY_MS", "10000"),
        (lambda m, now: m.set_deliver_time_ms(now + 10_000), "TIMER_DELIVER_MS", None),
        (lambda m, _: m.set_delay_time_level(3), "DELAY", "3"),
        (lambda m, _: m.set_delay(timedelta(seconds=10)), "TIMER_DELAY_MS", "10000"),
        (lambda m, now: m.set_start_deliver_time(now + 10_000), "TIMER_DELIVER_MS", None),
        (by_property("TIMER_DELAY_SEC", False, False), "TIMER_DELAY_SEC", "10"),
        (by_property("TIMER_DELAY_MS", True, False), "TIMER_DELAY_MS", "10000"),
        (by_property("TIMER_DELIVER_MS", True, True), "TIMER_DELIVER_MS", None),
        (by_property("__STARTDELIVERTIME", True, True), "TIMER_DELIVER_MS", None),
    ],
    ids=[
        "sec",
        "ms",
        "deliver",
        "level",
        "timedelta",
        "start-deliver",
        "user-sec",
        "user-ms",
        "user-deliver",
        "user-start",
    ],
)
def test_every_way_to_ask_for_ten_seconds_arrives_after_ten_seconds(
    broker: EmbeddedBroker, producer: DefaultMQProducer, ask: Setter, name: str, text: str | None
) -> None:
    now_ms = broker.clock.now_ms
    message = Message("T", b"x")
    ask(message, now_ms)
    producer.send(message)
    assert on_the_wire(broker)[name] == (text or str(now_ms + 10_000))
    arrival(broker, 10_000)


@pytest.mark.case("T34")
def test_a_delay_that_is_no_number_is_refused_when_it_is_put() -> None:
    with pytest.raises(ValueError, match="ten"):
        Message("T", b"x").put_user_property("TIMER_DELAY_SEC", "ten")


@pytest.mark.case("T35")
def test_aliyuns_property_stays_visible_beside_its_translation(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    due = str(broker.clock.now_ms + 5_000)
    message = Message("T", b"x").put_user_property("__STARTDELIVERTIME", due)
    producer.send(message)
    assert "TIMER_DELIVER_MS" not in message.properties
    assert on_the_wire(broker)["TIMER_DELIVER_MS"] == due
    assert arrival(broker, 5_000).properties["__STARTDELIVERTIME"] == due


@pytest.mark.case("T36")
def test_translation_can_be_switched_off(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    producer.translate_start_deliver_time = "never"
    due = broker.clock.now_ms + 5_000
    producer.send(Message("T", b"x").set_start_deliver_time(due))
    assert not any(name.startswith("TIMER_") for name in on_the_wire(broker))


@pytest.mark.case("T40")
def test_a_level_wins_over_a_timer(broker: EmbeddedBroker, producer: DefaultMQProducer) -> None:
    producer.delay_policy = "as_java"
    message = Message("T", b"x").set_delay_time_sec(60).set_delay_time_level(3)
    producer.send(message)
    arrived = arrival(broker, 10_000)
    assert not any(name.startswith("TIMER_") for name in arrived.properties)


@pytest.mark.case("T41")
def test_seconds_win_over_milliseconds_and_a_delivery_time(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    producer.delay_policy = "as_java"
    message = Message("T", b"x").set_deliver_time_ms(broker.clock.now_ms + 90_000)
    producer.send(message.set_delay_time_ms(60_000).set_delay_time_sec(5))
    assert arrival(broker, 5_000).body == b"x"


@pytest.mark.case("T42")
def test_two_delays_are_an_error_and_nothing_is_sent(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    with pytest.raises(DelayConflictError):
        producer.send(Message("T", b"x").set_delay_time_sec(5).set_delay_time_ms(5))
    assert broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2) == []


@pytest.mark.case("T43")
def test_a_delivery_time_in_the_past_means_at_once_and_cannot_be_recalled(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    result = producer.send(Message("T", b"x").set_deliver_time_ms(broker.clock.now_ms - 1))
    assert result.recall_handle is None
    assert broker.topics["T"].count() == 1


@pytest.mark.case("T44")
@pytest.mark.parametrize(
    "message",
    [
        Message("T", b"x").set_delay_time_sec(0),
        Message("T", b"x").set_delay_time_ms(0),
        Message("T", b"x").set_delay_time_level(0),
    ],
    ids=["sec", "ms", "level"],
)
def test_no_delay_at_all_is_delivered_at_once(
    broker: EmbeddedBroker, producer: DefaultMQProducer, message: Message
) -> None:
    producer.send(Message("T", message.body, properties=message.properties))
    assert broker.topics["T"].count() == 1


@pytest.mark.case("T45")
def test_a_delay_beyond_the_brokers_limit_is_told_as_such_after_one_attempt(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    with pytest.raises(DelayOutOfRangeError, match="timerMaxDelaySec") as caught:
        producer.send(Message("T", b"x").set_delay_time_sec(4 * 24 * 3600))
    assert (caught.value.code, isinstance(caught.value, ValueError)) == (13, True)
    assert len(broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2)) == 1


def test_a_delay_that_only_the_broker_could_read_is_told_as_invalid(
    producer: DefaultMQProducer,
) -> None:
    producer.delay_policy = "as_java"
    message = Message("T", b"x", properties={"TIMER_DELAY_SEC": "ten"})
    with pytest.raises(InvalidDelayError, match="not a decimal integer"):
        producer.send(message)


def test_the_clients_own_longest_delay_is_checked_before_sending(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    producer.max_delay = timedelta(minutes=1)
    producer.send(Message("T", b"x").set_delay_time_sec(59))
    with pytest.raises(DelayValueError, match="max_delay"):
        producer.send(Message("T", b"x").set_delay_time_sec(61))
    assert len(broker.journal.requests(code=RequestCode.SEND_MESSAGE_V2)) == 1


def test_strict_reserved_refuses_delays_that_were_put_as_user_properties(
    producer: DefaultMQProducer,
) -> None:
    producer.strict_reserved = True
    producer.send(Message("T", b"x").set_delay_time_sec(5))
    with pytest.raises(ReservedPropertyError):
        producer.send(Message("T", b"x").put_user_property("TIMER_DELAY_SEC", "5"))


@pytest.mark.case("T47")
def test_relative_delays_count_on_the_brokers_clock_and_absolute_ones_on_the_callers(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    client_now_ms = broker.clock.now_ms + 3_600_000  # a client whose clock is an hour ahead
    producer.send(Message("T", b"relative").set_delay_time_sec(5))
    producer.send(Message("T", b"absolute").set_deliver_time_ms(client_now_ms + 5_000))
    assert arrival(broker, 5_000).body == b"relative"
    broker.clock.advance(3_600 - 0.001)
    assert broker.topics["T"].count() == 1
    broker.clock.advance(0.001)
    bodies = {message.body for message in broker.messages.in_topic("T")}
    assert bodies == {b"relative", b"absolute"}


@pytest.mark.case("T49")
def test_a_broker_without_timer_wheel_is_named_with_its_switch() -> None:
    with (
        EmbeddedBroker(clock=VirtualClock(), config={"timerWheelEnable": False}) as broker,
        DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer,
        pytest.raises(MQClientException, match="timerWheelEnable"),
    ):
        producer.send(Message("T", b"x").set_delay_time_sec(5))


@pytest.mark.case("T52")
def test_a_delayed_message_arrives_as_it_was_sent(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    body = bytes(range(256))
    message = Message("T", body, tags="a", keys=["k1", "k2"], delay=timedelta(seconds=5))
    message.put_user_property("colour", "grün")
    result = producer.send(message)
    arrived = arrival(broker, 5_000)
    assert (arrived.topic, arrived.body, arrived.tags) == ("T", body, "a")
    assert (arrived.keys, arrived.properties["colour"]) == (("k1", "k2"), "grün")
    assert arrived.msg_id == result.msg_id
    assert arrived.queue_id == result.message_queue.queue_id
    assert producer.view_message("T", result.msg_id).msg_id == result.msg_id


@pytest.mark.case("T57")
def test_a_recall_that_is_too_late_or_of_another_topic_is_refused(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    handle = producer.send(Message("T", b"x", delay=timedelta(seconds=10))).recall_handle or ""
    producer.send(Message("U", b"x"))
    with pytest.raises(MQBrokerException) as other:
        producer.recall_message("U", handle)
    broker.clock.advance(20)
    with pytest.raises(MQBrokerException) as late:
        producer.recall_message("T", handle)
    assert (other.value.code, late.value.code) == (604, 604)


def test_a_recall_need_not_be_waited_for(
    broker: EmbeddedBroker, producer: DefaultMQProducer
) -> None:
    result = producer.send(Message("T", b"x", delay=timedelta(seconds=10)))
    recalled = producer.recall_message_async("T", result.recall_handle)
    assert recalled.result(10) == result.msg_id
    with pytest.raises(MQClientException, match="handle"):
        producer.recall_message_async("T", "nonsense")
    broker.clock.advance(20)
    late = producer.recall_message_async("T", result.recall_handle).exception(10)
    assert isinstance(late, MQBrokerException)


def test_levels_are_no_timers_and_have_no_handle(producer: DefaultMQProducer) -> None:
    message = Message("T", b"x").set_delay_time_level(3)
    assert producer.send(message).recall_handle is None
    delay = message.effective_delay()
    assert delay is not None
    assert delay.kind is DelayKind.LEVEL
