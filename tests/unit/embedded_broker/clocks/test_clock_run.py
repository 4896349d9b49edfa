"""Going forward deadline by deadline, so that clients react on the way."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import pytest

from embedded_broker import (
    ClockError,
    EmbeddedBroker,
    SettleTimeout,
    VirtualClock,
    WaitTimeoutError,
)
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
    MessageListenerOrderly,
)

GUARD_S = 30.0
DAY = timedelta(days=1)


class Reminder:
    """A listener that arms itself anew for the same time tomorrow."""

    def __init__(self, broker: EmbeddedBroker, producer: DefaultMQProducer) -> None:
        self.broker = broker
        self.producer = producer
        self.rang: list[datetime] = []

    def __call__(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        self.rang.append(self.broker.clock.now())
        self.producer.send(Message("T", b"again", delay=DAY))
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    def days(self, began: datetime, count: int) -> bool:
        return self.rang == [began + number * DAY for number in range(1, count + 1)]


@pytest.fixture(params=[True, False], ids=["inproc", "tcp"])
def reminder(request: pytest.FixtureRequest) -> Iterator[Reminder]:
    with (
        EmbeddedBroker(clock=VirtualClock(), topics=["T"], inproc=request.param) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        made = Reminder(broker, producer)
        member = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
        member.subscribe("T")
        member.register_message_listener(made)
        with member:
            producer.send(Message("T", b"first", delay=DAY))
            yield made


def test_a_run_over_five_days_lets_a_daily_reminder_ring_on_each(reminder: Reminder) -> None:
    clock = reminder.broker.clock
    began = clock.now()

    went = clock.run(days=5, timeout=GUARD_S)

    assert reminder.days(began, 5)
    assert went.until == clock.now() == began + 5 * DAY
    assert went.fired == 5
    assert reminder.broker.timers.next_due() == began + 6 * DAY

    clock.run(timedelta(hours=23), timeout=GUARD_S)
    assert reminder.days(began, 5)
    assert clock.now() == began + timedelta(days=5, hours=23)


def test_a_run_until_a_condition_stops_at_the_first_time_at_which_it_holds(
    reminder: Reminder,
) -> None:
    clock = reminder.broker.clock
    began = clock.now()

    went = clock.run_until(lambda: len(reminder.rang) == 5, at_most=timedelta(days=30))

    assert reminder.days(began, 5)
    assert went.until == clock.now() == began + 5 * DAY
    assert clock.run_until(lambda: True).fired == 0
    assert clock.now() == began + 5 * DAY


def test_a_condition_that_does_not_come_true_says_how_far_the_run_came(reminder: Reminder) -> None:
    clock = reminder.broker.clock
    began = clock.now()

    with pytest.raises(WaitTimeoutError) as caught:
        clock.run_until(lambda: reminder.rang[9], at_most=2.5 * 86_400)

    text = str(caught.value)
    assert "clock.run_until(lambda: reminder.rang[9]" in text
    assert "at_most was reached: 3 steps from" in text
    assert "fired 2; next is timer at" in text
    assert "IndexError" in text
    assert clock.now() == began + timedelta(days=2, hours=12)
    assert reminder.days(began, 2)


def test_a_run_without_an_end_is_over_when_nothing_waits() -> None:
    with EmbeddedBroker(clock=VirtualClock(), topics=["T"], tcp=False) as broker:
        for seconds in (5, 9):
            broker.send("T", b"x", delay=seconds)
        began = broker.clock.now()
        with pytest.raises(WaitTimeoutError, match="nothing waits any more: 2 steps"):
            broker.clock.run_until(lambda: False)
        assert broker.clock.now() == began + timedelta(seconds=9)
        assert broker.clock.run(60).until == began + timedelta(seconds=69)


def test_a_run_is_bounded_by_wall_time() -> None:
    with EmbeddedBroker(clock=VirtualClock(), topics=["T"], tcp=False) as broker:
        began = broker.clock.now()
        broker.send("T", b"x", delay=DAY)
        message = r"within 1e-09 s of wall time.*timeout="
        with pytest.raises(WaitTimeoutError, match=message) as caught:
            broker.clock.run(days=5, timeout=1e-9)
        assert not isinstance(caught.value, SettleTimeout)
        assert broker.clock.now() == began


def test_a_run_names_who_is_busy_when_its_wall_time_is_over(reminder: Reminder) -> None:
    clock = reminder.broker.clock
    clock.settle(GUARD_S)
    reminder.broker.pause()
    with pytest.raises(SettleTimeout, match="paused"):
        clock.run(days=5, timeout=0.05)
    reminder.broker.resume()
    assert reminder.rang == []


def test_a_flowing_clock_runs_at_least_to_the_instant() -> None:
    with EmbeddedBroker(clock=VirtualClock(rate=1), topics=["T"], tcp=False) as broker:
        broker.send("T", b"x", delay=3600)
        began = broker.clock.now()
        assert broker.clock.run(hours=2).fired == 1
        assert broker.clock.now() >= began + timedelta(hours=2)


@pytest.mark.parametrize("repeat", range(5))
def test_autojump_stops_when_the_wait_is_over(reminder: Reminder, repeat: int) -> None:
    del repeat
    broker = reminder.broker
    began = broker.clock.now()

    with broker.clock.autojump():
        broker.wait_for(lambda _: len(reminder.rang) >= 5, timeout=GUARD_S)
        broker.clock.settle(GUARD_S)
        assert reminder.days(began, 5)

        broker.wait_delivered("T", 7, timeout=GUARD_S)
        broker.clock.settle(GUARD_S)
        assert reminder.days(began, 7)
    assert broker.clock.now() == began + 7 * DAY


def test_what_cannot_be_run_is_refused() -> None:
    with EmbeddedBroker(tcp=False) as broker:
        for call in (
            lambda: broker.clock.run(days=1),
            lambda: broker.clock.run_until(lambda: True),
            lambda: broker.clock.begin_run_until(None, None),
        ):
            with pytest.raises(ClockError, match="VirtualClock"):
                call()
    clock = VirtualClock()
    for arguments in ({"days": -1}, {"seconds": float("inf")}, {"days": 4_000_000}):
        with pytest.raises(ClockError, match=r"^clock\.run\("):
            clock.run(**arguments)


def test_time_stands_while_a_queue_of_an_orderly_consumer_rests() -> None:
    calls: list[datetime] = []

    def listen(_messages: list[MessageExt], _context: object) -> ConsumeOrderlyStatus:
        calls.append(broker.clock.now())
        if len(calls) < 3:
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        return ConsumeOrderlyStatus.SUCCESS

    with EmbeddedBroker(tcp=False, clock=VirtualClock(), topics=["T"]) as broker:
        consumer = DefaultMQPushConsumer(
            "G", namesrv_addr=broker.namesrv_addr, suspend_current_queue_time_millis=10
        )
        consumer.subscribe("T")
        consumer.register_message_listener(MessageListenerOrderly(listen))
        with consumer:
            began = broker.clock.now()
            broker.send("T", b"x")
            broker.clock.run(hours=1)
    assert calls == [began] * 3
