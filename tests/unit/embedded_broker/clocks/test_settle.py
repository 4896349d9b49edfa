"""Waiting until clients are idle, and jumping whenever they are."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from threading import Event, Thread

import pytest

from embedded_broker import ClockError, EmbeddedBroker, SettleTimeout, VirtualClock
from embedded_broker.clocks.activity import Activity
from embedded_broker.clocks.settle import Settled, wait_until_settled
from embedded_broker.door import Door
from rocketmq_py import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageExt,
)
from rocketmq_py.clock import monotonic

GUARD_S = 30.0
DONE = ConsumeConcurrentlyStatus.CONSUME_SUCCESS


class Worker:
    """A listener that can be held up, and counts what it finished."""

    def __init__(self) -> None:
        self.entered = Event()
        self.may_end = Event()
        self.may_end.set()
        self.bodies: list[bytes] = []

    def __call__(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        self.entered.set()
        self.may_end.wait(GUARD_S)
        self.bodies += [message.body for message in messages]
        return DONE


def consumer(broker: EmbeddedBroker, worker: Worker, group: str = "G") -> DefaultMQPushConsumer:
    made = DefaultMQPushConsumer(group, namesrv_addr=broker.namesrv_addr)
    made.subscribe("T")
    made.register_message_listener(worker)
    return made


@pytest.mark.case("K5")
@pytest.mark.parametrize("inproc", [True, False])
def test_a_consumer_busy_in_its_listener_is_named_with_group_message_and_client(
    inproc: bool,
) -> None:
    worker = Worker()
    worker.may_end.clear()
    clock = VirtualClock()
    with (
        EmbeddedBroker(clock=clock, topics=["T"], inproc=inproc) as broker,
        consumer(broker, worker) as member,
    ):
        clock.settle(GUARD_S)
        sent = broker.send("T", b"slow")
        assert worker.entered.wait(GUARD_S)
        started = monotonic()

        with pytest.raises(SettleTimeout) as caught:
            clock.settle(0.2)

        assert monotonic() - started >= 0.2
        text = str(caught.value)
        assert "G: " in text
        assert sent.msg_id in text
        assert member.client_id in text
        settled = clock.settle(0, check=False)
        assert not settled.ok
        assert sent.msg_id in settled.busy[0]
        assert clock.settle(0, groups=["another group"]).ok

        worker.may_end.set()
        assert clock.settle(GUARD_S).busy == ()
        assert worker.bodies == [b"slow"]


@pytest.mark.parametrize("inproc", [True, False])
def test_settled_means_that_everything_sent_was_consumed_and_committed(inproc: bool) -> None:
    worker = Worker()
    clock = VirtualClock()
    with (
        EmbeddedBroker(clock=clock, topics=["T"], inproc=inproc) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        consumer(broker, worker),
    ):
        for round_number in range(1, 6):
            for number in range(20):
                producer.send(Message("T", f"{round_number}/{number}".encode()))

            broker.wait_idle(timeout=GUARD_S)

            assert len(worker.bodies) == 20 * round_number
            parts = broker._parts()
            committed = [parts.tables.offsets.query("G", "T", queue) for queue in range(4)]
            assert committed == [broker.topics["T"].max_offset(queue) for queue in range(4)]


def test_a_topic_that_appears_after_its_consumer_is_waited_for() -> None:
    worker = Worker()
    clock = VirtualClock()
    with EmbeddedBroker(clock=clock, topics=["Other"], tcp=False) as broker:
        member = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
        member.subscribe("T")
        member.subscribe("Other")
        member.register_message_listener(worker)
        with member:
            broker.wait_for(lambda b: b._parts().tables.consumers.get("G"), timeout=GUARD_S)
            broker.send("T", b"first")

            clock.settle(GUARD_S)

            assert worker.bodies == [b"first"]


@pytest.mark.parametrize("inproc", [True, False])
def test_a_consumer_that_has_not_joined_a_topic_just_created_is_waited_for(inproc: bool) -> None:
    worker = Worker()
    clock = VirtualClock()
    with (
        EmbeddedBroker(clock=clock, inproc=inproc) as broker,
        consumer(broker, worker),
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        producer.send(Message("T", b"the topic is made by this"))

        clock.settle(GUARD_S)

        assert worker.bodies == [b"the topic is made by this"]


@pytest.mark.parametrize("inproc", [True, False])
def test_a_topic_that_is_created_empty_is_joined_before_anything_settles(inproc: bool) -> None:
    worker = Worker()
    clock = VirtualClock()
    with EmbeddedBroker(clock=clock, inproc=inproc) as broker, consumer(broker, worker):
        broker.topics.create("T", queues=2)

        clock.settle(GUARD_S)

        waiting = broker._parts().consume.waiters.is_waiting
        assert [waiting("G", "T", 0), waiting("G", "T", 1)] == [True, True]


@pytest.mark.parametrize("inproc", [True, False])
def test_a_subscription_to_a_topic_that_does_not_exist_is_told(inproc: bool) -> None:
    clock = VirtualClock()
    with (
        EmbeddedBroker(clock=clock, topics=["Other"], inproc=inproc) as broker,
        consumer(broker, Worker()),
    ):
        settled = clock.settle(GUARD_S)

        assert settled.ok
        (note,) = settled.notes
        assert note.startswith("G: subscribes to T, which does not exist")
        assert clock.settle(GUARD_S, groups=["H"]).notes == ()


def test_a_producer_that_asked_for_a_topic_before_it_existed_waits_for_nothing() -> None:
    worker = Worker()
    clock = VirtualClock()
    with (
        EmbeddedBroker(clock=clock, topics=["T"], inproc=False) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
        consumer(broker, worker),
    ):
        producer.send(Message("New", b"makes a topic"))

        assert clock.settle(GUARD_S) == Settled(ok=True)


def test_a_broker_that_stays_down_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embedded_broker.clocks.settle.DOWN_S", 0.05)
    clock = VirtualClock(watchdog=GUARD_S * 10)
    with EmbeddedBroker(clock=clock, tcp=False) as broker:
        broker.crash()
        with pytest.raises(SettleTimeout, match=r"within 0\.\d s: broker broker-a crashed"):
            clock.run(minutes=1)
        broker.restart()
        assert clock.run(minutes=1).fired == 0


def test_nobody_is_idle_at_a_broker_that_is_down() -> None:
    clock = VirtualClock()
    other = EmbeddedBroker(clock=clock, tcp=False, broker_name="other")
    with other, EmbeddedBroker(clock=clock, tcp=False) as broker:
        broker.crash()
        assert clock.settle(0, check=False).busy == ("broker broker-a crashed: call restart()",)
        with pytest.raises(SettleTimeout, match="restart"):
            broker.wait_idle(timeout=0)
        broker.restart()
        assert clock.settle(GUARD_S).ok
        broker.close()
        assert clock.settle(GUARD_S).ok
    (reason,) = clock.settle(0, check=False).busy
    assert "no broker runs on this clock" in reason


@pytest.mark.parametrize("inproc", [True, False])
def test_members_of_one_group_that_subscribe_to_different_topics_are_named_as_the_cause(
    inproc: bool,
) -> None:
    clock = VirtualClock()
    with (
        EmbeddedBroker(clock=clock, topics=["T", "U"], inproc=inproc) as broker,
        consumer(broker, Worker()) as first,
    ):
        second = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
        second.subscribe("U", "a || b")
        second.register_message_listener(Worker())
        with second:
            # Until it shares the queues with the second, the first takes all messages.
            broker.wait_for(
                lambda _: sum(one.topic == "T" for one in first.assigned_queues()) == 2,
                timeout=GUARD_S,
            )
            # A pull that still waits at a queue which its client has given up takes the first.
            for number in range(8):
                broker.send("T", b"x", queue=number % 4)

            with pytest.raises(SettleTimeout) as caught:
                clock.settle(0.3)

            text = str(caught.value)
            assert "the members of group G do not subscribe to the same" in text
            assert f"{first.client_id} to %RETRY%G (*), T (*)" in text
            assert f"{second.client_id} to %RETRY%G (*), U (a || b)" in text


@pytest.mark.parametrize("is_connected", [True, False])
def test_asynchronous_sends_under_way_and_timers_that_are_due_count_as_busy(
    is_connected: bool,
) -> None:
    clock = VirtualClock()
    with (
        EmbeddedBroker(clock=clock, topics=["T"], tcp=False) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        if is_connected:
            producer.send(Message("T", b"connects"))
        broker.pause()
        future = producer.send_async(Message("T", b"x"), timeout=20_000)
        busy = clock.settle(0, check=False).busy
        assert any("producer P: 1 sends in flight" in reason for reason in busy)
        broker.resume()
        future.result(GUARD_S)
        assert clock.settle(GUARD_S).ok


def test_after_a_crash_clients_that_come_back_are_waited_for() -> None:
    worker = Worker()
    clock = VirtualClock()
    with (
        EmbeddedBroker(clock=clock, topics=["T"], tcp=False) as broker,
        consumer(broker, worker),
    ):
        clock.settle(GUARD_S)
        broker.crash()
        broker.restart()
        broker.send("T", b"after the crash")

        # Less than the second that a consumer waits after a failed pull.
        clock.settle(0.7)

        assert worker.bodies == [b"after the crash"]


def test_wall_time_can_settle_but_not_jump() -> None:
    with EmbeddedBroker(tcp=False) as broker:
        assert broker.clock.settle().ok
        with pytest.raises(ClockError, match="VirtualClock"):
            broker.clock.autojump()


def test_a_broker_that_stops_while_it_is_asked_is_no_idle_one() -> None:
    class Gone:
        door = Door()
        is_down = False

        def busy(self, groups: frozenset[str] | None) -> Sequence[str]:
            return [f"asked for {sorted(groups or ())}"]

        def notes(self, groups: frozenset[str] | None) -> Sequence[str]:
            return ()

        def hasten(self) -> None:
            pass

    settled = wait_until_settled(lambda: [Gone()], Activity(), timeout_s=0, check=False, groups="G")

    assert settled.busy == ("asked for ['G']",)


def test_traffic_between_two_clients_while_they_are_asked_makes_the_answer_void() -> None:
    class Stirring:
        is_down = False

        def __init__(self) -> None:
            self.looks = 0
            self.door = Door()

        def busy(self, groups: frozenset[str] | None) -> Sequence[str]:
            self.looks += 1
            if self.looks <= 3:
                with self.door:
                    pass
            return ()

        def notes(self, groups: frozenset[str] | None) -> Sequence[str]:
            return ()

        def hasten(self) -> None:
            pass

    stirring = Stirring()

    assert wait_until_settled(lambda: [stirring], Activity(), timeout_s=GUARD_S, check=True).ok
    assert stirring.looks == 4


def test_who_is_in_the_middle_of_a_request_when_the_look_begins_is_waited_for() -> None:
    class Idle:
        is_down = False
        door = Door()

        def busy(self, groups: frozenset[str] | None) -> Sequence[str]:
            with self.door.quiet:  # as one that looks at its state
                return ()

        def notes(self, groups: frozenset[str] | None) -> Sequence[str]:
            return ()

        def hasten(self) -> None:
            pass

    idle, is_inside = Idle(), Event()
    asked: list[None] = []

    def ask() -> None:
        with idle.door:
            is_inside.set()
            until = monotonic() + GUARD_S
            while not idle.door.contended and monotonic() < until:
                pass

    asking = Thread(target=ask)

    def residents() -> Sequence[Idle]:
        asked.append(None)
        if len(asked) == 2:  # the first time it is only watched
            asking.start()
            assert is_inside.wait(GUARD_S)
        return [idle]

    settled = wait_until_settled(residents, Activity(), timeout_s=0, check=False)
    asking.join()

    assert settled.busy == ()


class Alarm:
    """A listener that arms itself anew for the same time tomorrow."""

    def __init__(self, producer: DefaultMQProducer, clock: VirtualClock) -> None:
        self.producer = producer
        self.clock = clock
        self.fired: list[datetime] = []

    def __call__(
        self, messages: Sequence[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        self.fired.append(self.clock.now())
        self.producer.send(Message("T", b"again", delay=timedelta(days=1)))
        return DONE


@pytest.mark.case("K6")
def test_autojump_lets_a_daily_alarm_ring_thirty_times_each_a_day_apart() -> None:
    clock = VirtualClock()
    with (
        EmbeddedBroker(clock=clock, topics=["T"]) as broker,
        DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer,
    ):
        alarm = Alarm(producer, clock)
        member = DefaultMQPushConsumer("G", namesrv_addr=broker.namesrv_addr)
        member.subscribe("T")
        member.register_message_listener(alarm)
        with member:
            began = clock.now()
            producer.send(Message("T", b"first", delay=timedelta(days=1)))

            with clock.autojump():
                broker.wait_for(lambda _: len(alarm.fired) >= 30, timeout=GUARD_S)

        days = [began + timedelta(days=number) for number in range(1, 31)]
        assert alarm.fired[:30] == days


def test_autojump_ends_with_its_body_and_says_who_kept_it_from_jumping() -> None:
    worker = Worker()
    worker.may_end.clear()
    clock = VirtualClock(watchdog=0.2)
    with (
        EmbeddedBroker(clock=clock, topics=["T"], tcp=False) as broker,
        consumer(broker, worker),
    ):
        broker.send("T", b"slow")
        assert worker.entered.wait(GUARD_S)
        stuck = Event()

        with pytest.raises(SettleTimeout, match="is in its listener"), clock.autojump():
            stuck.wait(0.5)
        worker.may_end.set()

        with clock.autojump():
            pass
        before = clock.now_ms
        broker.send("T", b"later", delay=60)
        clock.settle(GUARD_S)
        assert clock.now_ms == before
