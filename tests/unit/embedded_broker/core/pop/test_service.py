"""What a pop gets, by values."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.core.pop.pop_values import Pop, Popped
from embedded_broker.core.refusals import Reason, Refused
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.core.pop.popper import Popper, fill

RETRY = "%RETRY%G_T"


@pytest.fixture
def session() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def broker(start_broker: StartBroker, session: VirtualClock) -> EmbeddedBroker:
    broker = start_broker(session_clock=session)
    broker.topics.create("T", queues=1)
    return broker


@pytest.fixture
def popper(broker: EmbeddedBroker) -> Popper:
    return Popper(broker)


def test_what_was_popped_is_hidden_from_the_group_and_from_nobody_else(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 5)
    assert popper.bodies(max_count=3) == [b"m0", b"m1", b"m2"]
    assert popper.bodies() == [b"m3", b"m4"]
    assert popper.bodies() == []
    assert popper.committed() == 5
    assert Popper(broker, group="H").bodies() == [b"m0", b"m1", b"m2", b"m3", b"m4"]


def test_a_pop_walks_all_queues_and_says_what_is_left(broker: EmbeddedBroker) -> None:
    broker.topics.create("Wide", queues=4)
    for number in range(8):
        broker.send("Wide", b"%d" % number, queue=number % 4)
    popper = Popper(broker, topic="Wide")
    popped = popper.ask(max_count=5)
    assert popped is not None
    assert (popped.count, popped.left) == (5, 3)
    assert sum(len(portion.offsets) for portion in popped.portions) == 5
    left = [message for queue_id in range(4) for message in popper.pop(queue_id=queue_id)]
    assert len(left) == 3


@pytest.mark.parametrize(
    ("from_last", "in_memory", "expected"),
    [(False, True, 5), (True, True, 5), (True, False, 1), (False, False, 5)],
)
def test_a_new_group_begins_where_it_asks_to(
    start_broker: StartBroker, from_last: bool, in_memory: bool, expected: int
) -> None:
    broker = start_broker(config={"initPopOffsetByCheckMsgInMem": in_memory})
    broker.topics.create("T", queues=1)
    fill(broker, 5)
    assert len(Popper(broker).pop(from_last=from_last)) == expected


def test_a_filter_chooses_and_what_nobody_wants_is_passed_over(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 2, TAGS="A")
    fill(broker, 1, TAGS="B")
    fill(broker, 1, TAGS="A")
    popped = popper.ask(expression="B")
    assert popped is not None
    assert [one.record.queue_offset for one in popper.messages(popped)] == [2]
    assert (popped.left, popper.committed()) == (0, 4)
    fill(broker, 1, TAGS="A")
    assert popper.bodies(expression="B") == []
    assert popper.committed() == 5


def test_a_wanted_message_behind_many_others_is_found_by_a_pop_that_waits(
    start_broker: StartBroker, session: VirtualClock
) -> None:
    broker = start_broker(session_clock=session)
    broker.topics.create("T", queues=1)
    fill(broker, 2000, TAGS="A")
    fill(broker, 1, TAGS="B")
    popper = Popper(broker)
    assert popper.ask(expression="B", wait_ms=15_000) is None
    session.advance(0.001)
    (popped,) = popper.heard
    assert [one.record.queue_offset for one in popper.messages(popped)] == [2000]


@pytest.mark.parametrize(
    ("changed", "reason", "piece"),
    [
        ({"topic": "nosuch"}, Reason.TOPIC_NOT_EXIST, "topic[nosuch] not exist"),
        ({"queue_id": 1}, Reason.INVALID_PARAMETER, "queueId[1] is illegal, topic:[T]"),
        ({"max_count": 33}, Reason.INVALID_PARAMETER, "num is greater than 32"),
        ({"max_count": -1}, Reason.INVALID_PARAMETER, "num is less than 0"),
        ({"invisible_ms": 2**63 - 1}, Reason.INVALID_PARAMETER, "invisibleTime"),
        ({"expression": "||"}, Reason.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's"),
        ({"expression": "x", "expression_type": "Odd"}, Reason.SUBSCRIPTION_PARSE_FAILED, "Odd"),
        ({"group": "a b"}, Reason.GROUP_NOT_EXIST, "subscription group [a b] does not exist"),
    ],
)
def test_what_cannot_be_is_refused(
    popper: Popper, changed: dict[str, object], reason: Reason, piece: str
) -> None:
    with pytest.raises(Refused) as refused:
        popper.ask(**changed)
    assert refused.value.reason is reason
    assert piece in refused.value.remark


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [("timerWheelEnable", False, Reason.FAILED), ("brokerPermission", 2, Reason.NO_PERMISSION)],
)
def test_a_broker_whose_options_forbid_it_gives_nothing(
    broker: EmbeddedBroker, popper: Popper, option: str, value: object, reason: Reason
) -> None:
    fill(broker, 1)
    broker.config.update(**{option: value})
    with pytest.raises(Refused) as refused:
        popper.ask()
    assert refused.value.reason is reason


def test_a_disk_without_room_hands_out_nothing_and_loses_nothing(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 3)
    broker.faults.disk.fill_after(bytes=0)
    with pytest.raises(Refused, match="not handed out"):
        popper.ask()
    assert (popper.hidden(), popper.committed()) == ([], 0)
    broker.faults.disk.clear()
    assert popper.bodies() == [b"m0", b"m1", b"m2"]


def test_a_pop_that_finds_nothing_waits_for_a_message(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    second = Popper(broker)
    assert popper.ask(wait_ms=15_000) is None
    assert second.ask(wait_ms=15_000) is None
    fill(broker, 1)
    heard = popper.heard + second.heard
    assert [one.body for one in popper.messages(heard[0])] == [b"m0"]
    assert len(heard) == 1
    fill(broker, 1)
    assert len(popper.heard + second.heard) == 2


def test_a_pop_waits_for_tags_that_it_wants(broker: EmbeddedBroker, popper: Popper) -> None:
    assert popper.ask(expression="B", wait_ms=15_000) is None
    fill(broker, 1, TAGS="A")
    assert popper.heard == []
    fill(broker, 1, TAGS="B")
    assert len(popper.heard) == 1


def test_waiting_ends_without_a_message(popper: Popper, session: VirtualClock) -> None:
    assert popper.ask(wait_ms=5_000) is None
    session.advance(4.999)
    assert popper.heard == []
    session.advance(0.001)
    (popped,) = popper.heard
    assert isinstance(popped, Popped)
    assert (popped.count, popped.is_full) == (0, False)


def test_no_more_than_so_many_wait_at_one_place(start_broker: StartBroker) -> None:
    broker = start_broker(config={"popPollingSize": 1})
    broker.topics.create("T", queues=1)
    poppers = [Popper(broker) for _ in range(3)]
    answers = [one.ask(wait_ms=15_000) for one in poppers]
    assert answers[:2] == [None, None]
    assert answers[2] is not None
    assert answers[2].is_full
    parts = broker._parts()
    with parts.door:
        assert parts.pop.peeks.waiting("G", "T", -1, poppers[0].peer) == 2
        assert parts.pop.peeks.waiting("G", "T", 0, poppers[0].peer) == 0
        parts.consume.waiters.forget(poppers[0].peer)
        assert parts.pop.peeks.waiting("G", "T", -1, poppers[0].peer) == 1


def test_what_comes_back_wakes_who_waits_in_time(broker: EmbeddedBroker, popper: Popper) -> None:
    fill(broker, 1)
    popper.pop(invisible_ms=10_000)
    assert popper.ask(wait_ms=15_000) is None
    broker.clock.advance(9.999)
    assert popper.heard == []
    broker.clock.advance(0.001)
    (message,) = popper.messages(popper.heard[0])
    assert (message.record.topic, message.hidden.topic) == ("T", RETRY)


def test_a_topic_that_is_gone_ends_the_wait(broker: EmbeddedBroker, popper: Popper) -> None:
    assert popper.ask(wait_ms=15_000) is None
    parts = broker._parts()
    with parts.door:
        del parts.tables.topics._topics["T"]
        parts.consume.waiters.wake("G", "T", 0)
    (refused,) = popper.heard
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.TOPIC_NOT_EXIST


def test_a_fifth_of_the_pops_begins_with_what_came_back(start_broker: StartBroker) -> None:
    broker = start_broker()
    broker.topics.create("T", queues=1)
    popper = Popper(broker)
    fill(broker, 400)
    for _ in range(10):
        popper.pop(invisible_ms=1_000, max_count=20)
    broker.clock.advance(1)
    taken = [popper.pop(max_count=1)[0] for _ in range(150)]
    first = sum(one.hidden.topic == RETRY for one in taken)
    assert 15 <= first <= 45


@pytest.mark.parametrize("percent", [0, 100])
def test_the_proportion_is_an_option(start_broker: StartBroker, percent: int) -> None:
    broker = start_broker(config={"popFromRetryProbability": percent})
    broker.topics.create("T", queues=1)
    fill(broker, 4)
    popper = Popper(broker)
    popper.pop(invisible_ms=1_000, max_count=2)
    broker.clock.advance(1)
    taken = [popper.pop(max_count=1)[0].hidden.topic for _ in range(4)]
    expected = [RETRY] * 2 + ["T"] * 2
    assert taken == (expected if percent else expected[::-1])


def test_a_reset_is_where_the_next_pop_begins(broker: EmbeddedBroker, popper: Popper) -> None:
    fill(broker, 4)
    assert len(popper.pop()) == 4
    parts = broker._parts()
    with parts.door:
        parts.tables.offsets.reset("G", "T", 0, 1, tell=True)
    assert popper.bodies() == [b"m1", b"m2", b"m3"]
    assert popper.committed() == 4


def test_two_pops_from_one_offset_at_one_time_have_names_of_their_own(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    fill(broker, 1)
    (first,) = popper.pop()
    parts = broker._parts()
    with parts.door:
        parts.tables.offsets.reset("G", "T", 0, 0, tell=True)
    (second,) = popper.pop()
    popper.ack(first)
    assert popper.hidden() == [("T", 0, 0)]
    popper.ack(second)
    assert popper.hidden() == []


def test_a_look_takes_nothing(broker: EmbeddedBroker, popper: Popper) -> None:
    fill(broker, 3)
    parts = broker._parts()
    with parts.door:
        peeked = parts.pop.peeks.peek(Pop(popper.peer, "G", "T", -1, 2, 0))
    assert (peeked.count, peeked.left) == (2, 3)
    assert popper.committed() == -1
    assert len(popper.pop()) == 3


def test_a_pop_after_a_reset_of_the_broker_hears_of_the_new_state(
    broker: EmbeddedBroker, popper: Popper
) -> None:
    assert popper.ask(wait_ms=15_000) is None
    broker.reset()
    assert len(popper.heard) == 1
