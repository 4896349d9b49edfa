"""Deliveries that a program settles: once, in time, and what each of its three words does."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta

import pytest

from rocketmq_py.clock import wall_ms
from rocketmq_py.consumer.core.delivery import DELAY_MAX, Delivery, Settlement
from rocketmq_py.consumer.core.lane import Lane
from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, DEAD, DONE, Later, Outcome
from rocketmq_py.errors import DeliveryEndedError, UnsupportedOperationError
from rocketmq_py.message import MessageExt
from rocketmq_py.send_result import MessageQueue
from tests.unit.rocketmq_py.consumer.fake_engine import message

QUEUE = MessageQueue("T", "broker-a", 3)


class Bench:
    def __init__(self, *offsets: int, supports: bool = True) -> None:
        self.lane = Lane(QUEUE, 0, fetched_at=0.0)
        self.cached = [message(offset, reconsume_times=2) for offset in offsets or (7,)]
        self.lane.put(self.cached)
        self.settled: list[Outcome] = []
        self.planned: list[int | None] = []
        self._supports = supports
        self.settlement = Settlement(self.cached, self.lane, self._settle)
        self.delivery = Delivery(self.cached, self.settlement, self._plan, self._plan)

    def _settle(self, lane: Lane, messages: object, outcome: Outcome) -> Future[None]:
        assert lane is self.lane
        assert messages is self.cached
        self.settled.append(outcome)
        ended: Future[None] = Future()
        ended.set_result(None)
        return ended

    def _plan(self, lane: Lane, _message: MessageExt, delay_ms: int | None) -> tuple[Outcome, int]:
        assert lane is self.lane
        if not self._supports:
            raise UnsupportedOperationError("nothing comes again")
        self.planned.append(delay_ms)
        return (AS_ATTEMPT, 10_000) if delay_ms is None else (Later(2), delay_ms)


def test_a_delivery_tells_what_it_holds() -> None:
    bench = Bench(7, 8)
    delivery = bench.delivery
    bench.cached[0].reconsume_times = 5  # it comes again meanwhile
    assert (delivery.message, delivery.messages) == (bench.cached[0], bench.cached)
    assert (delivery.queue, delivery.attempt, delivery.is_settled) == (QUEUE, 3, False)
    assert "attempt 3, open" in repr(delivery)
    delivery.ack()
    assert delivery.is_settled
    assert "settled as Done" in repr(delivery)


def test_each_word_means_one_outcome() -> None:
    for word, outcome in (("ack", DONE), ("nack", AS_ATTEMPT), ("dead", DEAD)):
        bench = Bench()
        getattr(bench.delivery, word)().result(0)
        assert bench.settled == [outcome]


@pytest.mark.parametrize("second", ["ack", "nack", "dead"])
@pytest.mark.parametrize("first", ["ack", "nack", "dead"])
def test_a_second_word_is_an_error_and_does_nothing(first: str, second: str) -> None:
    bench = Bench()
    getattr(bench.delivery, first)()
    due = bench.delivery.next_due
    with pytest.raises(DeliveryEndedError, match=r"ID7.*was settled before"):
        getattr(bench.delivery, second)()
    assert len(bench.settled) == 1
    assert bench.delivery.next_due == due


def test_of_many_threads_one_settles() -> None:
    bench = Bench()
    begin, refused = threading.Barrier(8), []

    def settle() -> None:
        begin.wait(10)
        try:
            bench.delivery.ack()
        except DeliveryEndedError as error:
            refused.append(error)

    threads = [threading.Thread(target=settle) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(bench.settled) == 1
    assert len(refused) == 7


def test_after_its_queue_has_gone_it_cannot_be_settled_and_who_waits_for_its_end_learns_of_it() -> (
    None
):
    bench = Bench()
    bench.lane.dropped = True
    with pytest.raises(DeliveryEndedError, match="does not have the queue any more"):
        bench.delivery.ack()
    assert bench.settled == [DONE]
    with pytest.raises(DeliveryEndedError, match="was settled before"):
        bench.delivery.ack()
    assert bench.settled == [DONE]


def test_messages_that_were_taken_back_cannot_be_settled() -> None:
    swept, taken = Bench(), Bench()
    swept.lane.remove(swept.cached)  # by the sweep of a pool
    assert taken.settlement.take_back()  # by that of a queue in order
    for bench in (swept, taken):
        with pytest.raises(DeliveryEndedError, match="consume_timeout"):
            bench.delivery.nack()
    assert taken.settled == []
    assert not taken.delivery.is_settled
    assert taken.settlement.is_over
    assert not taken.settlement.take_back()


def test_what_was_settled_is_not_taken_back() -> None:
    bench = Bench()
    bench.delivery.ack()
    assert not bench.settlement.take_back()


def test_a_batch_can_be_settled_while_any_message_of_it_is_unfinished() -> None:
    bench = Bench(7, 8)
    bench.lane.remove(bench.cached[:1])
    bench.delivery.ack()
    assert bench.settled == [DONE]


@pytest.mark.parametrize(
    ("delay", "milliseconds"),
    [
        (None, 10_000),
        (timedelta(), 0),
        (timedelta(microseconds=1), 1),
        (timedelta(seconds=90), 90_000),
        (DELAY_MAX, 366 * 86_400_000),
    ],
)
def test_nack_says_when_the_messages_come_again(delay: timedelta | None, milliseconds: int) -> None:
    bench = Bench()
    before = bench.delivery.next_due
    assert before is None
    earliest = wall_ms()
    bench.delivery.nack(delay)
    assert bench.planned == [None if delay is None else milliseconds]
    assert bench.delivery.next_due is not None
    due_ms = bench.delivery.next_due.timestamp() * 1000
    assert earliest + milliseconds <= round(due_ms) <= wall_ms() + milliseconds
    assert bench.delivery.next_due.tzinfo is UTC
    assert isinstance(bench.delivery.next_due, datetime)


@pytest.mark.parametrize(
    ("delay", "error", "words"),
    [
        (timedelta(seconds=-1), ValueError, "must not be negative"),
        (DELAY_MAX + timedelta(microseconds=1), ValueError, "at most 366 days"),
        (10, TypeError, r"timedelta, not int"),
    ],
)
def test_an_impossible_delay_is_refused_and_settles_nothing(
    delay: timedelta, error: type[Exception], words: str
) -> None:
    bench = Bench()
    with pytest.raises(error, match=words):
        bench.delivery.nack(delay)
    assert not bench.delivery.is_settled
    bench.delivery.ack()


@pytest.mark.parametrize("word", ["nack", "dead"])
def test_where_nothing_comes_again_only_ack_is_possible(word: str) -> None:
    bench = Bench(supports=False)
    with pytest.raises(UnsupportedOperationError):
        getattr(bench.delivery, word)()
    assert not bench.delivery.is_settled
    bench.delivery.ack()
    assert bench.settled == [DONE]
