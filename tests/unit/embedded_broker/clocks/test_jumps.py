"""How much of the time since an instant counts as age."""

import pytest

from embedded_broker.clocks.jumps import LEAPS_MAX, Leaps


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "jumped"),
    [(0, 10_000, 4000), (0, 1000, 0), (2000, 3000, 1000), (4500, 10_000, 500), (6000, 7000, 0)],
)
def test_only_what_lies_inside_a_leap_is_taken_off(from_ms: int, to_ms: int, jumped: int) -> None:
    leaps = Leaps()
    leaps.add(1000, 5000)

    assert leaps.between(from_ms, to_ms) == jumped


def test_leaps_one_after_the_other_are_one_and_a_stretch_passed_twice_counts_once() -> None:
    leaps = Leaps()
    leaps.add(0, 10)
    leaps.add(10, 20)
    leaps.add(15, 30)
    leaps.add(5, 5)

    assert leaps.to_list() == [[0, 30]]


def test_many_leaps_are_joined_so_that_nothing_looks_older_than_it_is() -> None:
    leaps = Leaps()
    for number in range(LEAPS_MAX + 5):
        leaps.add(number * 10, number * 10 + 5)

    assert len(leaps.to_list()) == LEAPS_MAX
    assert leaps.between(0, 1 << 40) > 5 * (LEAPS_MAX + 5)


def test_what_a_file_kept_is_taken_over_and_rubbish_in_it_is_passed_over() -> None:
    leaps = Leaps()
    leaps.take_over([[1, 2], "x", [3], [5, 9]])
    leaps.take_over(None)

    assert leaps.to_list() == [[1, 2], [5, 9]]
    leaps.clear()
    assert leaps.to_list() == []
