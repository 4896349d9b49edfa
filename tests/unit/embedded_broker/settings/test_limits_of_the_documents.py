"""The limits that users read about timed messages, one after the other, and what holds here.

The numbers are those of an article on RocketMQ's arbitrary delays that describes a cloud service:
seven limits and one advice. What is false for RocketMQ itself, or can be changed, says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.put_values import InnerMessage, PutStatus
from embedded_broker.timer.admission import Admission
from rocketmq_py import DefaultMQProducer, Message, MQBrokerException
from rocketmq_py.protocol.codes import ResponseCode
from tests.unit.embedded_broker.wire_peer import WirePeer, bodies

DAY_S = 86_400
FORTY_DAYS_S = 40 * DAY_S

Start = Callable[..., EmbeddedBroker]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as ends:

        def one(**arguments: object) -> EmbeddedBroker:
            arguments.setdefault("clock", VirtualClock())
            arguments.setdefault("topics", ["T"])
            broker = EmbeddedBroker(**arguments)  # type: ignore[arg-type] # as the test wrote them
            return ends.enter_context(broker)

        yield one


def lateness_ms(broker: EmbeddedBroker) -> list[int]:
    """How late each delivered message is, by the time that it asked for."""
    return [
        round(message.stored_at.timestamp() * 1000) - int(message.properties["TIMER_DELIVER_MS"])
        for message in broker.messages.in_topic("T")
    ]


# --- 1. accuracy: 1 to 2 s -----------------------------------------------------------------------


@pytest.mark.case("S0-1")
@pytest.mark.parametrize(
    ("arguments", "longest_ms"),
    [
        ({}, 0),
        ({"defaults": "upstream"}, 1000),
        ({"defaults": "upstream", "config": {"timerPrecisionMs": 100}}, 100),
        ({"config": {"timerReleasePrecisionMs": 250}}, 250),
    ],
    ids=["ours", "upstream", "upstream-100", "quarter"],
)
def test_a_timer_is_never_early_and_late_by_less_than_the_precision(
    start: Start, arguments: dict[str, object], longest_ms: int
) -> None:
    broker = start(**arguments)
    now_ms, random = broker.clock.now_ms, Random(1)
    for _ in range(100):
        due_ms = now_ms + random.randrange(1, 10_000)
        broker.send("T", b"x", properties={"TIMER_DELIVER_MS": str(due_ms)})

    broker.clock.advance(15)

    late = lateness_ms(broker)
    assert len(late) == 100
    assert min(late) >= 0
    assert max(late) <= longest_ms


# --- 2. a time in the past means at once ----------------------------------------------------------


@pytest.mark.case("S0-2")
@pytest.mark.parametrize("before_ms", [0, 1, 1000, 10**12])
def test_a_time_that_is_past_means_at_once(start: Start, before_ms: int) -> None:
    broker = start()
    due_ms = broker.clock.now_ms - before_ms

    broker.send("T", b"x", properties={"TIMER_DELIVER_MS": str(due_ms)})

    assert (broker.topics["T"].count(), broker.timers.count()) == (1, 0)


# --- 3. at most 40 days ---------------------------------------------------------------------------


@pytest.mark.case("S0-3")
@pytest.mark.parametrize(
    ("name", "unit"), [("TIMER_DELAY_SEC", 1), ("TIMER_DELAY_MS", 1000), ("TIMER_DELIVER_MS", 1000)]
)
def test_the_service_takes_less_than_40_days_and_refuses_exactly_40(
    start: Start, name: str, unit: int
) -> None:
    broker = start(limits="aliyun")
    base = broker.clock.now_ms if name == "TIMER_DELIVER_MS" else 0

    for seconds in (FORTY_DAYS_S, FORTY_DAYS_S + 1):
        with pytest.raises(MQBrokerException, match="shorter than 3456000000 ms") as caught:
            broker.send("T", b"x", properties={name: str(base + seconds * unit)})
        assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
    broker.send("T", b"x", properties={name: str(base + FORTY_DAYS_S * unit - 1)})

    broker.clock.advance(FORTY_DAYS_S - 1.001)
    assert broker.topics["T"].count() == 0
    broker.clock.advance(1)
    assert broker.topics["T"].count() == 1


@pytest.mark.case("S0-3")
def test_rocketmq_itself_takes_3_days_unless_told_otherwise_and_the_end_is_included(
    start: Start,
) -> None:
    broker = start()
    broker.send("T", b"x", delay=3 * DAY_S)
    with pytest.raises(MQBrokerException, match="259200000"):
        broker.send("T", b"x", delay=3 * DAY_S + 0.001)

    broker.config.update(timerMaxDelaySec=FORTY_DAYS_S)
    broker.send("T", b"x", delay=FORTY_DAYS_S)
    assert broker.timers.count() == 2


# --- 4. a backlog comes first ---------------------------------------------------------------------


@pytest.mark.case("S0-4")
def test_a_due_message_waits_behind_what_was_not_consumed_yet(start: Start) -> None:
    broker = start(topics=[])
    broker.topics.create("T", queues=1)
    broker.send("T", b"timer", delay=5)
    for number in range(3):
        broker.send("T", b"%d" % number)
    broker.clock.advance(5)
    broker.send("T", b"after")

    with WirePeer(broker.addr) as peer:
        assert bodies(peer.pull("T")) == [b"0", b"1", b"2", b"timer", b"after"]


# --- 5. whose clock -------------------------------------------------------------------------------


@pytest.mark.case("S0-5")
@pytest.mark.parametrize("ahead_s", [-3600, 3600])
def test_an_absolute_time_is_judged_by_the_brokers_clock(start: Start, ahead_s: int) -> None:
    broker = start()
    wall_of_client_ms = broker.clock.now_ms + ahead_s * 1000
    with DefaultMQProducer("P", namesrv_addr=broker.namesrv_addr) as producer:
        producer.send(Message("T", b"absolute").set_deliver_time_ms(wall_of_client_ms + 10_000))
        producer.send(Message("T", b"relative").set_delay_time_sec(10))

    broker.clock.advance(10)

    arrived = {message.body for message in broker.messages.in_topic("T")}
    assert arrived == ({b"relative"} if ahead_s > 0 else {b"absolute", b"relative"})
    broker.clock.advance(max(0, ahead_s))
    assert broker.topics["T"].count() == 2


# --- 6. messages are kept for 7 days after they became due --------------------------------------


@pytest.mark.case("S0-6")
def test_a_message_due_on_day_5_that_nobody_reads_is_gone_on_day_12(start: Start) -> None:
    broker = start(limits="aliyun", config={"mappedFileSizeCommitLog": 4096})
    assert broker.config["fileReservedTime"] == 7 * 24
    broker.send("T", b"due on day 5", delay=5 * DAY_S)
    broker.clock.advance(days=5, age=True)
    assert broker.topics["T"].count() == 1
    for _ in range(60):  # only whole files go, and never the newest
        broker.send("T", b"x" * 100)

    broker.clock.advance(days=6.9, age=True)
    assert b"due on day 5" in {message.body for message in broker.messages.in_topic("T")}

    broker.clock.advance(days=0.2, age=True)
    broker.wait_for(lambda b: b"due on day 5" not in {one.body for one in b.messages.in_topic("T")})


# --- 7. progress survives a restart -------------------------------------------------------------


@pytest.mark.case("S0-7")
def test_what_became_due_while_the_broker_was_down_is_delivered_when_it_is_back(
    start: Start, tmp_path: Path
) -> None:
    clock = VirtualClock()
    broker = start(clock=clock, store=tmp_path / "store")
    broker.send("T", b"before", delay=1)
    broker.send("T", b"in between", delay=60)
    broker.send("T", b"after", delay=3600)
    clock.advance(1)
    assert broker.topics["T"].count() == 1

    broker.close()
    clock.advance(600)
    broker.start()

    clock.advance(0)
    bodies_now = [message.body for message in broker.messages.in_topic("T")]
    assert bodies_now == [b"before", b"in between"]
    clock.advance(3600)
    assert [message.body for message in broker.messages.in_topic("T")] == [
        b"before",
        b"in between",
        b"after",
    ]


# --- advice: not more than 100,000 at one instant -----------------------------------------------


def admit(num: int, **config: object) -> PutStatus | None:
    """What admission says about one more timer in a slot that holds so many."""
    admission = Admission(BrokerConfig(config), slot_num=lambda _: num, random=Random(1))
    message = InnerMessage("T", 0, b"x", {"TIMER_DELAY_SEC": "5"})
    refusal = admission.before_put(message, 1_000_000)
    return None if refusal is None else refusal.status


def test_the_advice_of_100000_per_instant_can_be_made_a_limit() -> None:
    limit = {"timerCongestNumEachSlot": 100_000}
    assert admit(99_999, **limit) is None
    assert admit(100_000, **limit) is None
    assert admit(200_000, **limit) is PutStatus.WHEEL_TIMER_FLOW_CONTROL
    assert admit(10_000_000) is None, "by default nothing is limited"


def test_such_a_limit_is_soft_up_to_twice_its_number_and_refuses_with_1(start: Start) -> None:
    broker = start(config={"timerCongestNumEachSlot": 50}, seed=1)
    due_ms = str(broker.clock.now_ms + 60_000)
    outcomes = []
    for _ in range(400):
        try:
            broker.send("T", b"x", properties={"TIMER_DELIVER_MS": due_ms})
            outcomes.append(0)
        except MQBrokerException as error:
            outcomes.append(error.code)
    assert set(outcomes[:50]) == {0}
    assert set(outcomes) == {0, ResponseCode.SYSTEM_ERROR}
    assert broker.timers.count() <= 100
    assert outcomes[-1] == ResponseCode.SYSTEM_ERROR
