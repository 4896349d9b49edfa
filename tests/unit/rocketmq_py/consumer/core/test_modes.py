"""A consumer whose topics an administrator sets to pulling or popping."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.limits import PopLimit, QueueLimits
from rocketmq_py.consumer.core.modes import ProgressByMode, SourceByMode, gate_by_mode
from rocketmq_py.consumer.core.outcome import DONE, Later
from rocketmq_py.consumer.core.progress import OffsetProgress
from rocketmq_py.consumer.core.rebalance import Rebalancer
from rocketmq_py.consumer.send_back import SendBack
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.consumer.subscriptions import SubscriptionTable
from rocketmq_py.protocol.codes import RequestCode
from tests.unit.rocketmq_py.consumer.core.popping import Bench as Popping
from tests.unit.rocketmq_py.consumer.core.popping import popped
from tests.unit.rocketmq_py.consumer.core.test_pop_shares import ASSIGNMENT, QUEUES, assigning
from tests.unit.rocketmq_py.consumer.core.test_pop_shares import Bench as Shares
from tests.unit.rocketmq_py.consumer.fake_engine import GROUP, FakeClock, message


class Bench:
    def __init__(self) -> None:
        self.popping = Popping()
        self.popping.now_s = monotonic()
        shares = Shares()
        self.engine, self.share = shares.engine, shares.share
        config = PushConsumerConfig()
        calls = ConsumerCalls(self.engine, GROUP, config)
        self.offsets = BrokerOffsets(self.engine, calls)
        self.progress = ProgressByMode(
            OffsetProgress(self.offsets, SendBack(GROUP, calls, config), lambda _: 5),
            self.popping.receipts,
            self.share.pops,
        )
        subscriptions = SubscriptionTable(FakeClock())
        subscriptions.put("T", "*")
        self.fetched: list[Lane] = []
        self.rebalancer = Rebalancer(
            group=GROUP,
            engine=self.engine,
            share=self.share,
            progress=self.progress,
            offsets=self.offsets,
            subscriptions=subscriptions,
            fetch=self.fetched.append,
            ownership=self.popping.receipts,
        )

    def run(self, mode: str) -> list[Lane]:
        """Rebalance with this mode; give the lanes."""
        self.engine.answers[ASSIGNMENT] = assigning(mode, *QUEUES)
        self.rebalancer.run()
        return self.rebalancer.lanes


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_queue_whose_mode_changes_is_taken_afresh(bench: Bench) -> None:
    pulled = bench.run("PULL")
    assert [(lane.queue, lane.is_popped, lane.next_offset) for lane in pulled] == [
        (queue, False, 5) for queue in QUEUES
    ]
    fresh = bench.run("POP")
    assert [(lane.queue, lane.is_popped) for lane in fresh] == [(queue, True) for queue in QUEUES]
    assert all(lane.dropped for lane in pulled)
    assert bench.run("POP") == fresh
    assert bench.fetched == [*pulled, *fresh]
    assert not any(lane.is_popped for lane in bench.run("PULL"))


def test_messages_of_a_popped_lane_that_is_given_back_are_hidden_no_longer(bench: Bench) -> None:
    first, _ = bench.run("POP")
    messages = [popped(0)]
    first.put(messages)
    assert bench.progress.claim(first, messages) == messages
    assert bench.popping.receipts.keeper.held == 1
    bench.run("PULL")
    assert bench.popping.receipts.keeper.held == 0


def test_each_lane_is_settled_in_its_mode(bench: Bench) -> None:
    (pulled, _), (popped_lane, _) = bench.run("PULL"), bench.run("POP")
    pulled.dropped = False  # as that of another topic
    mine, theirs = [message(7)], [popped(0)]
    pulled.put(mine)
    popped_lane.put(theirs)
    assert bench.progress.claim(pulled, mine) == mine
    bench.progress.claim(popped_lane, theirs)
    assert bench.progress.plan(pulled, mine[0], 1_234) == (Later(level=2), 5_000)
    assert bench.progress.plan(popped_lane, theirs[0], 1_234) == (Later(delay_ms=1_234), 1_234)
    for lane, messages in ((pulled, mine), (popped_lane, theirs)):
        assert bench.progress.settle(lane, messages, DONE) == []
    bench.popping.engine.run_tasks()
    assert bench.popping.acked() == [[0]]
    assert bench.offsets.in_memory(pulled.queue) == 8
    bench.progress.passed(popped_lane, 99)
    assert bench.offsets.in_memory(popped_lane.queue) == 8
    bench.progress.passed(pulled, 99)
    assert bench.offsets.in_memory(pulled.queue) == 99


def test_each_lane_is_fetched_and_bounded_in_its_mode(bench: Bench) -> None:
    (pulled, _), (popped_lane, _) = bench.run("PULL"), bench.run("POP")

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def ask(self, _: Lane) -> str:
            return self.name

        def read(self, _: Lane, answer: str) -> str:
            return f"{self.name} {answer}"

    source = SourceByMode(cast("Any", Named("pull")), cast("Any", Named("pop")))
    asked = [cast("str", source.ask(lane)) for lane in (pulled, popped_lane)]
    assert asked == ["pull", "pop"]
    answer = cast("Any", "answer")
    read = [cast("object", source.read(lane, answer)) for lane in (pulled, popped_lane)]
    assert read == ["pull answer", "pop answer"]
    config = PushConsumerConfig(pull_threshold_for_queue=10, pop_threshold_for_queue=2)
    gate = gate_by_mode(QueueLimits(config, lambda: 1), PopLimit(config))
    for lane in (pulled, popped_lane):
        lane.put(popped(number) for number in range(3))
    assert gate(pulled) is None
    assert gate(popped_lane) == "3 messages not acked, pop_threshold_for_queue 2"


def test_the_assignment_is_asked_for_once_a_run(bench: Bench) -> None:
    bench.run("POP")
    assert len(bench.engine.called(RequestCode.QUERY_ASSIGNMENT)) == 1
