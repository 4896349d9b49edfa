"""Popped messages of one assignment, from the pop until their broker has confirmed what is done."""

from __future__ import annotations

from rocketmq_py.consumer.core.pop_calls import GIVEN_BACK_MS
from tests.unit.rocketmq_py.consumer.core.popping import ANY, INVISIBLE_MS, Bench, popped


def test_a_message_counts_until_it_is_removed_and_is_held_until_it_is_taken() -> None:
    bench = Bench()
    first, second = bench.put(popped(0), popped(1))
    lane = bench.lane
    assert (lane.queue, lane.is_popped, lane.count, lane.size) == (ANY, True, 2, 8)
    assert lane.head() is first
    assert [one for one, _ in lane.take([first])] == [first]
    assert (lane.count, lane.holds(first), lane.head()) == (2, False, second)
    assert lane.take([first]) == []
    assert lane.remove([first]) == -1
    assert (lane.count, lane.size, lane.max_span) == (1, 4, 0)
    assert lane.remove([first]) == -1
    assert lane.count == 1


def test_only_claimed_messages_are_kept_hidden_and_only_once() -> None:
    bench = Bench()
    one = popped(0)
    bench.put(one, claim=False)
    assert bench.lane.take([one]) == []
    assert bench.receipts.keeper.held == 0
    for _ in range(2):
        assert bench.receipts.claim(bench.lane, [one]) == [one]
        assert bench.receipts.keeper.held == 1


def test_what_waited_for_longer_than_it_is_hidden_is_forgotten() -> None:
    bench = Bench()
    late, timely = popped(0), popped(1)
    bench.put(late, claim=False)
    bench.now_s += 1
    bench.put(timely, claim=False)
    bench.now_s += INVISIBLE_MS / 1000 - 1
    assert bench.receipts.claim(bench.lane, [late, timely]) == [timely]
    assert (bench.lane.count, bench.lane.holds(late)) == (1, False)
    assert bench.receipts.keeper.held == 1


def test_a_dropped_lane_gives_nothing_and_keeps_nothing_hidden() -> None:
    bench = Bench()
    first, second = popped(0), popped(1)
    bench.put(first)
    bench.put(second, claim=False)
    bench.lane.dropped = True
    bench.receipts.given_back(bench.lane)
    assert bench.receipts.keeper.held == 0
    assert bench.receipts.claim(bench.lane, [second]) == []


def test_a_handle_that_a_broker_gives_once_more_is_the_same_message() -> None:
    bench = Bench()
    (first,) = bench.put(popped(0))
    assert bench.put(popped(0)) != []  # its listener has it: nothing is added
    assert bench.lane.count == 1
    assert bench.lane.head() is first


def test_a_handle_that_comes_again_while_its_ack_is_under_way_is_handled_once_more() -> None:
    bench = Bench()
    (first,) = bench.put(popped(0))
    bench.lane.take([first])
    (again,) = bench.put(popped(0))
    bench.lane.remove([first])  # the ack has got its answer
    assert (bench.lane.count, bench.lane.size) == (1, 4)
    assert bench.lane.head() is again
    assert [one for one, _ in bench.lane.take([again])] == [again]


def test_in_order_what_is_over_takes_along_all_that_was_popped_with_it_or_before() -> None:
    bench = Bench(in_order=True)
    first, second = bench.put(popped(0), popped(1))
    bench.engine.run_scheduled()  # both are renewed, which the first one is not told
    held = bench.lane._deliveries
    for one in held.values():
        assert one.held is not None
        one.held.expires_at = bench.now_s + (0 if one.message is first else 60)
    bench.now_s += 1
    again = bench.put(popped(0, pop_time_ms=2_000), popped(1, pop_time_ms=2_000))
    assert bench.receipts.claim(bench.lane, [first, second]) == []
    assert (bench.lane.count, bench.receipts.keeper.held) == (2, 2)
    assert bench.receipts.claim(bench.lane, again) == again


def test_a_lane_in_order_that_is_dropped_gives_back_what_is_not_settled() -> None:
    bench = Bench(in_order=True)
    first, _, _ = bench.put(popped(0), popped(1), popped(2))
    bench.lane.take([first])
    bench.lane.dropped = True
    bench.lane.release()
    assert bench.hidden() == [(1, GIVEN_BACK_MS), (2, GIVEN_BACK_MS)]
    assert bench.engine.run_scheduled() == [INVISIBLE_MS / 2]  # that of the message with its ack


def test_each_pop_in_order_has_a_name_and_others_have_none() -> None:
    bench = Bench(in_order=True)
    first = bench.lane.attempt_id
    later = bench.receipts.begin(bench.lane.queue)  # the same queue, taken afresh
    assert later.attempt_id == bench.lane.attempt_id == first
    later.end_attempt()
    assert later.attempt_id not in {None, first}
    assert Bench().lane.attempt_id is None
