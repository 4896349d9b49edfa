"""What settling does to lane, offset and retries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketmq_py.consumer.calls import ConsumerCalls
from rocketmq_py.consumer.core.broker_offsets import BrokerOffsets
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, DEAD, DONE, Later, Outcome
from rocketmq_py.consumer.core.progress import OffsetProgress
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.errors import RemotingConnectException
from rocketmq_py.message import MessageExt
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import GROUP, FakeEngine, message

QUEUE = MessageQueue("T", "broker-a", 0)


class Retrying:
    """Retries that a test lets fail for some offsets."""

    def __init__(self) -> None:
        self.arranged: list[tuple[int, Outcome]] = []
        self.refused: set[int] = set()
        self.meanwhile: Callable[[], object] = lambda: None

    def arrange(self, message: MessageExt, outcome: Outcome) -> bool:
        self.arranged.append((message.queue_offset, outcome))
        self.meanwhile()
        return message.queue_offset not in self.refused

    def plan(self, message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        return Later(message.queue_offset), delay_ms or 0


class Bench:
    def __init__(self, *offsets: int) -> None:
        self.engine = FakeEngine()
        calls = ConsumerCalls(self.engine, GROUP, PushConsumerConfig())
        self.offsets = BrokerOffsets(self.engine, calls)
        self.retries = Retrying()
        self.progress = OffsetProgress(self.offsets, self.retries, lambda _queue: 40)
        self.lane = Lane(QUEUE, 0, fetched_at=0.0)
        self.messages = [message(offset) for offset in offsets]
        self.lane.put(self.messages)

    @property
    def committed(self) -> int:
        return self.offsets.in_memory(QUEUE)


def test_the_offset_is_that_of_the_first_message_that_is_unfinished() -> None:
    bench = Bench(3, 4, 5)
    bench.progress.settle(bench.lane, bench.messages[1:], DONE)
    assert bench.committed == 3
    bench.progress.settle(bench.lane, bench.messages[:1], DONE)
    assert bench.committed == 6
    assert bench.engine.stored_offsets() == [("T", 0, 6)]
    assert bench.retries.arranged == []


@pytest.mark.parametrize("outcome", [AS_ATTEMPT, Later(4), DEAD], ids=str)
def test_what_comes_again_is_settled_as_far_as_brokers_take_it(outcome: Outcome) -> None:
    bench = Bench(0, 1, 2)
    bench.retries.refused.add(1)
    kept = bench.progress.settle(bench.lane, bench.messages, outcome)
    assert bench.retries.arranged == [(0, outcome), (1, outcome), (2, outcome)]
    assert kept == [bench.messages[1]]
    assert bench.committed == 1
    assert bench.lane.holds(bench.messages[1])


def test_what_was_settled_by_another_thread_does_not_come_again() -> None:
    bench = Bench(0, 1)
    bench.progress.settle(bench.lane, bench.messages[:1], DONE)
    assert bench.progress.settle(bench.lane, bench.messages, AS_ATTEMPT) == []
    assert bench.retries.arranged == [(1, AS_ATTEMPT)]


@pytest.mark.parametrize("outcome", [DONE, AS_ATTEMPT])
def test_of_a_dropped_lane_nothing_is_settled(outcome: Outcome) -> None:
    bench = Bench(0)
    bench.lane.dropped = True
    assert bench.progress.settle(bench.lane, bench.messages, outcome) == []
    assert bench.committed == -1
    assert bench.retries.arranged == []


def test_a_lane_that_is_dropped_while_a_broker_is_asked_does_not_move_its_offset() -> None:
    bench = Bench(0)

    def drop() -> None:
        bench.lane.dropped = True

    bench.retries.meanwhile = drop
    bench.progress.settle(bench.lane, bench.messages, AS_ATTEMPT)
    assert bench.committed == -1


def test_a_lane_begins_where_it_is_told_and_forgets_what_was_known() -> None:
    bench = Bench()
    bench.offsets.freeze(QUEUE, 9)
    assert bench.progress.begin(QUEUE).next_offset == 40
    assert bench.committed == -1
    bench.progress.passed(bench.lane, 41)
    bench.progress.passed(bench.lane, 5)
    assert bench.committed == 41


def test_a_lane_whose_broker_does_not_answer_does_not_begin() -> None:
    bench = Bench()

    def silent(_queue: MessageQueue) -> int:
        raise RemotingConnectException("away")

    progress = OffsetProgress(bench.offsets, bench.retries, silent)
    with pytest.raises(RemotingConnectException):
        progress.begin(QUEUE)


def test_plans_are_those_of_the_retries() -> None:
    bench = Bench()
    assert bench.progress.plan(bench.lane, message(6), 5) == (Later(6), 5)
