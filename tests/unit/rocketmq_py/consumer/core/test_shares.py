"""Whose queues are whose."""

from __future__ import annotations

import pytest

from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core import shares
from rocketmq_py.consumer.core.shares import (
    UNLISTED_WAIT_FIRST_MS,
    UNLISTED_WAIT_MAX_MS,
    Assigned,
    Everything,
    Mine,
    SharedByStrategy,
)
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import (
    GROUP,
    ME,
    RIVAL,
    FakeEngine,
    member_list,
    queues_of,
)

FOUR = queues_of("T", 4)
BACKWARDS = tuple(reversed(FOUR))


class Now:
    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    made = Now()
    monkeypatch.setattr(shares, "monotonic", made)
    return made


@pytest.fixture
def engine() -> FakeEngine:
    made = FakeEngine()
    made.queues.update({"T": FOUR, "U": queues_of("U", 2)})
    made.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = member_list(ME)
    return made


@pytest.fixture
def share(engine: FakeEngine) -> SharedByStrategy:
    config = PushConsumerConfig()
    made = SharedByStrategy(engine, ConsumerCalls(engine, GROUP, config), GROUP, config)
    made.begin(monotonic() + 3)
    return made


def test_members_share_the_queues_in_their_order(
    engine: FakeEngine, share: SharedByStrategy
) -> None:
    engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = member_list(ME, RIVAL)
    assert share.of("T", BACKWARDS) == Mine(list(FOUR[:2]))


def test_topics_on_the_same_brokers_are_one_question_a_round(
    engine: FakeEngine, share: SharedByStrategy
) -> None:
    share.of("T", FOUR)
    share.of("U", queues_of("U", 2))
    assert len(engine.called(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) == 1
    share.begin(monotonic() + 3)
    share.of("T", FOUR)
    assert len(engine.called(RequestCode.GET_CONSUMER_LIST_BY_GROUP)) == 2


def test_a_member_that_has_left_is_noted_once(
    engine: FakeEngine, share: SharedByStrategy, now: Now
) -> None:
    engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = member_list(ME, RIVAL)
    assert share.of("T", FOUR) == Mine(list(FOUR[:2]))
    engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = member_list(ME)
    for lost in (True, False):
        share.begin(now.s + 3)
        assert share.of("T", FOUR) == Mine(list(FOUR), lost_rival=lost)


def test_a_broker_that_does_not_list_this_member_is_asked_more_and_more_seldom(
    engine: FakeEngine, share: SharedByStrategy, now: Now
) -> None:
    engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = member_list(RIVAL)
    pauses = []
    for _ in range(6):
        share.begin(now.s + 3)
        assert share.of("T", FOUR) == Mine([], listed=False)
        (pause,) = share.waits().values()
        pauses.append(round(pause * 1000))
        now.s += pause
    assert pauses[:2] == [UNLISTED_WAIT_FIRST_MS, 2 * UNLISTED_WAIT_FIRST_MS]
    assert pauses[-1] == UNLISTED_WAIT_MAX_MS
    engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = member_list(ME)
    share.begin(now.s + 3)
    assert share.of("T", FOUR) == Mine(list(FOUR), lost_rival=True)
    assert share.waits() == {}


def test_topics_that_are_not_wanted_any_more_are_forgotten(
    engine: FakeEngine, share: SharedByStrategy
) -> None:
    engine.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = member_list(RIVAL)
    share.of("T", FOUR)
    assert set(share.waits()) == {"T"}
    share.keep_only({"U"})
    assert share.waits() == {}


def test_without_a_broker_nobody_is_asked_and_a_silent_one_is_an_error(
    engine: FakeEngine, share: SharedByStrategy
) -> None:
    assert share.of("unknown", FOUR) is None
    engine.answers.clear()
    with pytest.raises(RocketMQError):
        share.of("T", FOUR)


def test_a_topic_without_queues_has_none_to_share(share: SharedByStrategy) -> None:
    assert share.of("T", ()) == Mine([])


def test_in_broadcasting_every_queue_is_every_members() -> None:
    everything = Everything()
    everything.begin(0)
    assert everything.of("T", BACKWARDS) == Mine(list(FOUR))
    everything.keep_only(set())
    assert everything.waits() == {}


def test_an_assignment_is_what_the_program_says_whatever_the_routes_say() -> None:
    assigned = Assigned()
    assert assigned.of("T", FOUR) == Mine([])
    other = MessageQueue("U", "broker-b", 7)
    assigned.assign([FOUR[3], other, FOUR[1], FOUR[3]])
    assert assigned.queues == (FOUR[1], FOUR[3], other)
    assert assigned.of("T", ()) == Mine([FOUR[1], FOUR[3]])
    assert assigned.of("U", FOUR) == Mine([other])
    assigned.assign([])
    assert assigned.of("T", FOUR) == Mine([])
