"""What settling a popped message does."""

from __future__ import annotations

import pytest

from rocketmq_py.consumer.core.outcome import AS_ATTEMPT, DEAD, DONE, Hold, Later, Outcome
from rocketmq_py.errors import RemotingConnectException
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.rocketmq_py.consumer.core.popping import (
    ACK,
    HIDDEN,
    HIDE,
    INVISIBLE_MS,
    Bench,
    popped,
)
from tests.unit.rocketmq_py.consumer.fake_engine import ADDRESS, ok, refusal

HOUR_MS = 3_600_000


def test_what_is_done_is_acked_together_and_counts_until_then() -> None:
    bench = Bench()
    messages = bench.put(popped(0), popped(1))
    assert bench.receipts.settle(bench.lane, messages, DONE) == []
    assert bench.lane.count == 2
    assert bench.acked() == []  # nothing is sent by the thread of the listener
    bench.engine.run_tasks()
    assert (bench.acked(), bench.lane.count) == ([[0, 1]], 0)
    assert bench.receipts.keeper.held == 0


@pytest.mark.parametrize(
    ("outcome", "times", "ms"),
    [
        (AS_ATTEMPT, 0, 10_000),
        (AS_ATTEMPT, 2, 60_000),
        (AS_ATTEMPT, 15, 7_200_000),
        (Later(level=1), 5, 30_000),
        (Later(level=99), 0, 7_200_000),
        (Later(delay_ms=1_234), 7, 1_234),
        (Later(delay_ms=0), 7, 1),
        (Hold(50), 0, 50),
    ],
)
def test_what_is_to_come_again_is_hidden_for_so_long(outcome: Outcome, times: int, ms: int) -> None:
    bench = Bench()
    bench.settle(bench.put(popped(0, reconsume_times=times)), outcome)
    assert (bench.hidden(), bench.acked(), bench.lane.count) == ([(0, ms)], [], 0)


def test_a_plan_says_after_how_many_milliseconds_a_message_comes_again() -> None:
    plan = Bench().receipts.plan
    assert plan(popped(0), 1_234) == (Later(delay_ms=1_234), 1_234)
    assert plan(popped(0, reconsume_times=1), None) == (AS_ATTEMPT, 30_000)


@pytest.mark.parametrize("outcome", [AS_ATTEMPT, Later(delay_ms=5)])
def test_what_failed_too_often_comes_ever_later_and_is_given_up_after_four_hours(
    outcome: Outcome, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(max_reconsume_times=2)
    bench.settle(bench.put(popped(0, reconsume_times=2)), outcome)
    bench.clock.now_ms += 65_000
    bench.settle(bench.put(popped(1, reconsume_times=2)), outcome)
    old = popped(2, reconsume_times=9)
    bench.clock.now_ms += 4 * HOUR_MS
    bench.settle(bench.put(old), outcome)
    assert (bench.hidden(), bench.acked()) == ([(0, 10_000), (1, 120_000)], [[2]])
    assert "given up after 10 attempts" in caplog.text


def test_a_dead_message_is_acked_when_it_is_among_the_dead_letters() -> None:
    bench = Bench()
    bench.settle(bench.put(popped(0)), DEAD)
    assert [one.queue_offset for one in bench.dead_letters.taken] == [0]
    bench.dead_letters.takes = False
    bench.settle(bench.put(popped(1, reconsume_times=1)), DEAD)
    assert (bench.acked(), bench.hidden()) == ([[0]], [(1, 30_000)])


def test_the_receipt_of_the_last_renewal_counts() -> None:
    bench = Bench()
    messages = bench.put(popped(0))
    bench.now_s += INVISIBLE_MS / 2000
    bench.engine.run_scheduled()
    assert bench.hidden() == [(0, INVISIBLE_MS)]
    bench.now_s += INVISIBLE_MS / 1000 - 1
    bench.settle(messages, DONE)
    (ack,) = bench.engine.called(ACK)
    assert ack.ext_fields["extraInfo"].split()[1] == HIDDEN["popTime"]


def test_a_result_that_comes_too_late_is_discarded() -> None:
    bench = Bench()
    messages = bench.put(popped(0), popped(1))
    bench.now_s += INVISIBLE_MS / 1000
    bench.settle(messages[:1], DONE)
    bench.settle(messages[1:], AS_ATTEMPT)
    assert (bench.acked(), bench.hidden(), bench.lane.count) == ([], [], 0)
    assert bench.receipts.keeper.held == 0


def test_nothing_is_settled_of_a_lane_that_was_given_back() -> None:
    bench = Bench()
    messages = bench.put(popped(0))
    bench.lane.dropped = True
    bench.settle(messages, DONE)
    assert bench.acked() == []


@pytest.mark.parametrize("trouble", ["refusal", "closed", "gone"])
def test_what_a_broker_does_not_hide_comes_again_anyway(trouble: str) -> None:
    bench = Bench()

    def answer(_: RemotingCommand) -> RemotingCommand:
        if trouble == "closed":
            raise RemotingConnectException(ADDRESS)
        if trouble == "gone":
            return ok(HIDDEN | {"popTime": "0"})
        return refusal(ResponseCode.SYSTEM_ERROR)

    bench.engine.answers[HIDE] = answer
    bench.settle(bench.put(popped(0)), AS_ATTEMPT)
    assert bench.lane.count == 0
    assert bench.receipts.keeper.held == 0


def test_at_the_end_nothing_is_renewed_any_more() -> None:
    bench = Bench()
    bench.put(popped(0))
    bench.receipts.end()
    assert bench.receipts.keeper.held == 0


def test_in_order_a_message_that_no_broker_takes_as_a_dead_letter_stays_and_is_still_hidden() -> (
    None
):
    bench = Bench(in_order=True)
    (message,) = bench.put(popped(0))
    bench.dead_letters.takes = False
    assert bench.receipts.settle(bench.lane, [message], DEAD) == [message]
    assert (bench.acked(), bench.hidden(), bench.lane.holds(message)) == ([], [], True)
    assert bench.receipts.keeper.held == 1
    bench.dead_letters.takes = True
    bench.settle([message], DEAD)
    assert (bench.acked(), bench.lane.count) == ([[0]], 0)


@pytest.mark.parametrize("in_order", [False, True])
def test_what_waits_in_order_is_renewed_for_longer_than_consume_timeout(in_order: bool) -> None:
    bench = Bench(in_order=in_order, consume_timeout=1, pop_invisible_time=20_000)
    bench.put(popped(0))
    for _ in range(100):
        bench.now_s += 10
        bench.engine.run_scheduled()
    assert (len(bench.hidden()) == 100) is in_order
