"""Popped messages in order: what waits stays hidden, and what is hidden no more is forgotten."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from rocketmq_py.consumer.core.delivery import Delivery
from rocketmq_py.consumer.core.locks import QueueLocks
from rocketmq_py.consumer.core.modes import ProgressByMode
from rocketmq_py.consumer.core.pop_calls import GIVEN_BACK_MS
from rocketmq_py.consumer.dispatch.in_order import OrderlyDispatch
from rocketmq_py.consumer.listener import (
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    MessageListenerOrderly,
    listening_of,
)
from rocketmq_py.consumer.listening import handler_of
from rocketmq_py.consumer.settings import PushConsumerConfig
from rocketmq_py.message import MessageExt
from tests.unit.rocketmq_py.consumer.core.popping import INVISIBLE_MS, popped
from tests.unit.rocketmq_py.consumer.core.popping import Bench as Popping
from tests.unit.rocketmq_py.consumer.fake_engine import ADDRESS, GROUP, InlinePool

SUCCESS = ConsumeOrderlyStatus.SUCCESS
SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
SUSPEND_MS = 1_000
HALF_S = INVISIBLE_MS / 2_000


class Bench(Popping):
    """A consumer of one popped queue; its listener answers what the test has listed."""

    def __init__(self, *answers: ConsumeOrderlyStatus, **settings: Any) -> None:
        super().__init__(in_order=True, **settings)
        self.answers = list(answers)
        self.seen: list[tuple[int, int]] = []
        self.deliveries: list[Delivery] = []
        self.start(MessageListenerOrderly(self.listen), **settings)

    def start(self, listener: Any, **settings: Any) -> None:
        self.dispatch = OrderlyDispatch(
            group=GROUP,
            engine=self.engine,
            settings=PushConsumerConfig(**settings),
            progress=ProgressByMode(cast("Any", None), self.receipts, lambda _: True),
            handler=handler_of(listening_of(listener), GROUP, lambda: SUSPEND_MS, commits=False),
            clock=self.clock,
            locks=QueueLocks(self.engine, GROUP, lambda _: True),
        )
        self.dispatch.pool = InlinePool()
        assert list(self.dispatch.may_take([self.lane.queue])) == [self.lane.queue]

    def listen(
        self, messages: list[MessageExt], _context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus:
        self.seen += [(one.queue_offset, one.reconsume_times) for one in messages]
        return self.answers.pop(0) if self.answers else SUCCESS

    def receive(self, *messages: MessageExt) -> None:
        self.lane.put(messages)
        self.dispatch.deliver(self.lane, messages)
        self.engine.run_tasks()

    def go_on(self, seconds: float) -> None:
        """Let time pass, and run what is due by then."""
        self.now_s += seconds
        due = [one for one in self.engine.scheduled if one.delay_ms <= seconds * 1000]
        self.engine.scheduled = [one for one in self.engine.scheduled if one not in due]
        for one in due:
            if not one.cancelled:
                one.task()
            self.engine.run_tasks()

    def acked_offsets(self) -> list[int]:
        return [offset for request in self.acked() for offset in request]

    def give_back(self) -> None:
        self.lane.dropped = True
        self.dispatch.given_back(self.lane)


def held_bench(**settings: Any) -> Bench:
    bench = Bench()

    def listen(delivery: Delivery) -> None:
        bench.deliveries.append(delivery)

    bench.start(MessageListenerOrderly(listen), **settings)
    return bench


def test_messages_are_acked_in_their_order() -> None:
    bench = Bench()
    bench.receive(popped(0), popped(1), popped(2))
    assert bench.seen == [(0, 0), (1, 0), (2, 0)]
    assert (bench.acked(), bench.hidden(), bench.lane.count) == ([[0, 1, 2]], [], 0)


def test_what_is_not_handled_comes_again_here_and_all_behind_it_stays_hidden_meanwhile() -> None:
    bench = Bench(SUSPEND, SUSPEND)
    bench.receive(popped(0), popped(1))
    bench.go_on(1)
    assert (bench.seen, bench.acked()) == ([(0, 0), (0, 1)], [])
    bench.go_on(HALF_S)  # the renewals were planned before the next attempt
    assert bench.hidden() == [(0, INVISIBLE_MS), (1, INVISIBLE_MS)]
    assert bench.seen == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert (sorted(bench.acked_offsets()), bench.lane.count) == ([0, 1], 0)


def test_after_its_last_attempt_a_message_is_a_dead_letter_and_the_next_one_comes() -> None:
    bench = Bench(SUSPEND, SUSPEND, max_reconsume_times=1)
    bench.receive(popped(0), popped(1))
    bench.go_on(1)
    assert bench.seen == [(0, 0), (0, 1), (1, 0)]
    assert [one.queue_offset for one in bench.dead_letters.taken] == [0]
    assert (bench.acked_offsets(), bench.hidden()) == ([0, 1], [])


def test_nothing_overtakes_a_message_that_no_broker_takes_as_a_dead_letter() -> None:
    bench = Bench(SUSPEND, SUSPEND, max_reconsume_times=0)
    bench.dead_letters.takes = False
    bench.receive(popped(0), popped(1))
    assert (bench.seen, bench.acked(), bench.lane.count) == ([(0, 0)], [], 2)
    bench.dead_letters.takes = True
    bench.go_on(1)
    assert bench.seen == [(0, 0), (0, 1), (1, 0)]
    assert [one.queue_offset for one in bench.dead_letters.taken] == [0]


def test_what_is_hidden_no_more_is_forgotten_with_all_behind_it_until_it_is_popped_again() -> None:
    bench = Bench(SUSPEND)
    bench.engine.answers.clear()  # no broker answers, so nothing is renewed
    bench.receive(popped(0), popped(1))
    bench.go_on(INVISIBLE_MS / 1000)
    assert (bench.seen, bench.lane.count, bench.receipts.keeper.held) == ([(0, 0)], 0, 0)
    bench.receive(popped(0, pop_time_ms=2_000, reconsume_times=1), popped(1, pop_time_ms=2_000))
    assert bench.seen == [(0, 0), (0, 1), (1, 0)]


def test_a_queue_that_is_given_back_is_free_for_others_soon() -> None:
    bench = Bench(SUSPEND)
    bench.receive(popped(0), popped(1))
    bench.give_back()
    assert bench.hidden() == [(0, GIVEN_BACK_MS), (1, GIVEN_BACK_MS)]
    bench.go_on(HALF_S)
    assert (bench.seen, len(bench.hidden())) == ([(0, 0)], 2)


def test_a_queue_that_is_given_back_is_free_when_the_program_has_settled_its_message() -> None:
    bench = held_bench()
    bench.receive(popped(0), popped(1))
    bench.give_back()
    bench.go_on(HALF_S)
    assert bench.hidden() == [(0, INVISIBLE_MS), (1, INVISIBLE_MS)]
    (delivery,) = bench.deliveries
    with pytest.raises(Exception, match="does not have the queue any more"):
        delivery.ack()
    bench.engine.run_tasks()
    assert bench.hidden()[2:] == [(0, GIVEN_BACK_MS), (1, GIVEN_BACK_MS)]
    assert bench.acked() == []


def test_a_program_that_settles_itself_has_one_message_of_a_queue_at_a_time() -> None:
    bench = held_bench()
    bench.receive(popped(0), popped(1), popped(2))
    bench.deliveries[0].nack(timedelta(milliseconds=20))
    bench.engine.run_tasks()
    assert len(bench.deliveries) == 1
    bench.go_on(0.02)
    assert [(one.message.queue_offset, one.attempt) for one in bench.deliveries] == [(0, 1), (0, 2)]
    ended = bench.deliveries[1].ack()
    bench.engine.run_tasks()
    ended.result(0)
    bench.deliveries[2].dead()
    bench.engine.run_tasks()
    assert [one.queue_offset for one in bench.dead_letters.taken] == [1]
    assert [one.message.queue_offset for one in bench.deliveries] == [0, 0, 1, 2]
    assert bench.acked_offsets() == [0, 1]


def test_what_a_program_does_not_settle_comes_again_after_consume_timeout() -> None:
    bench = held_bench(consume_timeout=1)
    bench.receive(popped(0), popped(1))
    bench.clock.now_ms += 60_001
    assert bench.dispatch.sweep([bench.lane]) == 1
    bench.go_on(1)
    assert [(one.message.queue_offset, one.attempt) for one in bench.deliveries] == [(0, 1), (0, 2)]


def test_a_queue_whose_broker_may_have_started_anew_is_not_kept() -> None:
    bench = Bench(SUSPEND)
    bench.receive(popped(0), popped(1))
    assert bench.dispatch.keeps(bench.lane)
    bench.dispatch.connection_lost(ADDRESS)
    assert not bench.dispatch.keeps(bench.lane)
    assert bench.engine.rebalances == 1
    bench.go_on(1)
    assert bench.seen == [(0, 0)]  # although no rebalance has taken the queue away yet
