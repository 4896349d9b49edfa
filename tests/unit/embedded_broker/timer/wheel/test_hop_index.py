"""Which timers lie in another slot than the one in which they are due."""

from __future__ import annotations

from random import Random

from embedded_broker.timer.request import TimerRequest
from embedded_broker.timer.wheel.hop_index import HopIndex, SortedPairs, home_slot


def test_pairs_are_kept_sorted_whatever_the_order_of_adding_and_removing() -> None:
    random = Random(3)
    pairs, model = SortedPairs(), set[tuple[int, int]]()
    for _ in range(8000):
        pair = (random.randrange(400), random.randrange(30))
        if random.random() < 0.7:
            assert pairs.add(*pair) is (pair not in model)
            model.add(pair)
        else:
            assert pairs.remove(*pair) is (pair in model)
            model.discard(pair)

    assert list(pairs) == sorted(model)
    assert len(pairs) == len(model)
    for key in range(-1, 401):
        assert pairs.at(key) == sorted(value for one, value in model if one == key)
        assert pairs.first_key(key) == min((one for one, _ in model if one >= key), default=None)


def test_one_key_may_have_more_values_than_a_chunk_holds() -> None:
    pairs = SortedPairs()
    for value in range(5000, 0, -1):
        pairs.add(7, value)

    assert pairs.at(7) == list(range(1, 5001))


def test_pairs_that_were_all_removed_leave_nothing() -> None:
    pairs = SortedPairs()
    numbers = list(range(3000))
    Random(1).shuffle(numbers)
    for number in numbers:
        pairs.add(number, number)
    Random(2).shuffle(numbers)
    for number in numbers:
        assert pairs.remove(number, number)

    assert not pairs
    assert pairs.first_key(0) is None
    assert not pairs.remove(1, 1)


def test_every_change_is_noticed() -> None:
    index = HopIndex()
    index.add(1000, 5)
    before = index.changes
    index.remove(1000, 5)

    assert index.changes > before


def test_a_message_is_at_home_in_the_slot_in_which_it_is_due() -> None:
    request = TimerRequest(5000, "T", 0, None)
    mark = TimerRequest(5000, "T", 0, "T+K")

    assert home_slot({}, request, 1000) == 5000
    assert home_slot({"TIMER_DUE_MS": "5001"}, request, 1000) == 5000
    assert home_slot({"TIMER_DUE_MS": "5000"}, request, 1000) == 4000
    assert home_slot({"TIMER_DUE_MS": "4001"}, request, 1000) == 4000
    assert home_slot({"TIMER_DUE_MS": "17"}, request, 1000) == 4000  # never looked for further back
    assert home_slot({"TIMER_DUE_MS": "4001"}, mark, 1000) == 5000
    assert home_slot({"TIMER_DUE_MS": "junk"}, request, 1000) == 5000
    assert home_slot({"TIMER_DUE_MS": "1" * 5000}, request, 1000) == 5000
