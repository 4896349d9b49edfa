"""What a pop asks for, and what follows from its answer; pulls are in ``test_intake.py``."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rocketmq_py.consumer.core.pop_calls import GIVEN_BACK_MS, PopCalls, Receipt
from rocketmq_py.consumer.core.pop_lane import PopLane
from rocketmq_py.consumer.core.sources import Pops
from rocketmq_py.consumer.core.standstill import Standstill
from rocketmq_py.consumer.listener import ConsumeFromWhere
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.consumer.subscriptions import SubscriptionTable
from rocketmq_py.errors import HeaderError, MQBrokerException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.properties import Prop
from tests.unit.rocketmq_py.consumer.core.popping import ANY
from tests.unit.rocketmq_py.consumer.core.test_pop_calls import popped, stored
from tests.unit.rocketmq_py.consumer.fake_engine import GROUP, FakeClock, FakeEngine, ok


class Bench:
    def __init__(self, tags: str = "*", *, in_order: bool = False, **settings: object) -> None:
        self.engine = FakeEngine()
        self.engine.answers[RequestCode.POP_MESSAGE] = lambda _: ok()
        self.subscriptions = SubscriptionTable(FakeClock())
        self.subscriptions.put("T", tags)
        self.unwanted: list[Receipt] = []
        config = PushConsumerConfig(**cast("Any", settings))
        calls = PopCalls(self.engine, GROUP)
        self.pops = Pops(calls, self.subscriptions, config, self.unwanted.extend, GROUP)
        self.lane = PopLane(ANY, lambda: 0.0, {} if in_order else None)

    def asked(self) -> dict[str, str]:
        self.pops.ask(self.lane)
        return self.engine.called(RequestCode.POP_MESSAGE)[-1].ext_fields

    def given_back(self) -> list[tuple[int, int]]:
        return [
            (int(one.ext_fields["offset"]), int(one.ext_fields["invisibleTime"]))
            for one in self.engine.called(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
        ]


def test_a_pop_asks_for_what_the_settings_say() -> None:
    fields = Bench("a || b", pop_batch_nums=5, pop_invisible_time=7_000).asked()
    wanted = {
        "consumerGroup": GROUP,
        "topic": "T",
        "queueId": "-1",
        "maxMsgNums": "5",
        "invisibleTime": "7000",
        "pollTime": "15000",
        "initMode": "1",
        "exp": "a || b",
        "expType": "TAG",
    }
    assert fields.items() >= wanted.items()


def test_a_group_that_begins_at_the_first_message_says_so() -> None:
    fields = Bench(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET).asked()
    assert fields["initMode"] == "0"


def test_nothing_is_asked_for_a_topic_that_is_unsubscribed() -> None:
    bench = Bench()
    bench.subscriptions.remove("T")
    assert bench.pops.ask(bench.lane) is None
    assert bench.pops.read(bench.lane, popped(stored(0))).messages == []


def test_messages_with_another_tag_are_given_away_and_count_as_progress() -> None:
    bench = Bench("a")
    records = [stored(number, properties={Prop.TAGS: tag}) for number, tag in enumerate("ab")]
    answer = popped(*records, starts="0 0 0", offsets="0 0 0,1")
    fetched = bench.pops.read(bench.lane, answer)
    assert [one.queue_offset for one in fetched.messages] == [0]
    assert [one.offset for one in bench.unwanted] == [1]
    assert fetched.next_offset == 2
    assert Standstill().pause_s(fetched, bench.lane.next_offset, 0.0) == 0


@pytest.mark.parametrize("took_s", [15.0, 1.0])
def test_a_pop_that_waited_in_vain_is_repeated_at_once(took_s: float) -> None:
    bench = Bench()
    fetched = bench.pops.read(bench.lane, popped(code=ResponseCode.POLLING_TIMEOUT))
    assert (fetched.messages, fetched.moved) == ([], False)
    assert Standstill().pause_s(fetched, bench.lane.next_offset, took_s) == 0


def test_a_broker_at_which_too_many_pops_wait_refuses() -> None:
    bench = Bench()
    with pytest.raises(MQBrokerException) as refused:
        bench.pops.read(bench.lane, popped(code=ResponseCode.POLLING_FULL))
    assert refused.value.code == ResponseCode.POLLING_FULL


def test_what_can_be_read_is_given_with_the_problem_of_the_rest() -> None:
    bench = Bench()
    answer = popped(stored(0), stored(1), starts="0 0 0", offsets="0 0 0")
    fetched = bench.pops.read(bench.lane, answer)
    assert [one.queue_offset for one in fetched.messages] == [0]
    assert isinstance(fetched.problem, HeaderError)


def test_a_pop_in_order_keeps_its_name_until_its_answer_has_brought_something() -> None:
    bench = Bench(in_order=True)
    fields = bench.asked()
    assert fields["order"] == "true"
    name = fields["attemptId"]
    bench.pops.read(bench.lane, popped(code=ResponseCode.POLLING_TIMEOUT))
    with pytest.raises(MQBrokerException):
        bench.pops.read(bench.lane, popped(code=ResponseCode.SYSTEM_ERROR))
    assert bench.asked()["attemptId"] == name
    bench.pops.read(bench.lane, popped(stored(0)))
    assert bench.asked()["attemptId"] != name


@pytest.mark.parametrize("in_order", [False, True])
def test_what_comes_in_order_to_a_lane_that_has_ended_is_given_back(in_order: bool) -> None:
    bench = Bench("a", in_order=in_order)
    bench.engine.answers[RequestCode.CHANGE_MESSAGE_INVISIBLETIME] = lambda _: ok()
    tags = [{Prop.TAGS: "a"}, {Prop.TAGS: "b"}]
    answer = popped(*(stored(at, properties=one) for at, one in enumerate(tags)))
    bench.pops.decline(bench.lane, answer)
    assert bench.given_back() == ([(0, GIVEN_BACK_MS), (1, GIVEN_BACK_MS)] if in_order else [])
    assert bench.unwanted == []
    bench.subscriptions.remove("T")
    bench.pops.decline(bench.lane, answer)
