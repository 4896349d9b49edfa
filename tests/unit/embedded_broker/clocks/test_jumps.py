"""How much of the time since an instant counts as age."""

import pytest

from embedded_broker.clocks.jumps import JUMPS_MAX, Jumps


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "jumped"),
    [(0, 10_000, 4000), (0, 1000, 0), (2000, 3000, 1000), (4500, 10_000, 500), (6000, 7000, 0)],
)
def test_only_what_lies_inside_a_jump_is_taken_off(from_ms: int, to_ms: int, jumped: int) -> None:
    jumps = Jumps()
    jumps.add(1000, 5000)

    assert jumps.between(from_ms, to_ms) == jumped


def test_jumps_one_after_the_other_are_one_and_a_stretch_passed_twice_counts_once() -> None:
    jumps = Jumps()
    jumps.add(0, 10)
    jumps.add(10, 20)
    jumps.add(15, 30)
    jumps.add(5, 5)

    assert jumps.to_list() == [[0, 30]]


def test_many_jumps_are_joined_so_that_nothing_looks_older_than_it_is() -> None:
    jumps = Jumps()
    for number in range(JUMPS_MAX + 5):
        jumps.add(number * 10, number * 10 + 5)

    assert len(jumps.to_list()) == JUMPS_MAX
    assert jumps.between(0, 1 << 40) > 5 * (JUMPS_MAX + 5)


def test_what_a_file_kept_is_taken_over_and_rubbish_in_it_is_passed_over() -> None:
    jumps = Jumps()
    jumps.take_over([[1, 2], "x", [3], [5, 9]])
    jumps.take_over(None)

    assert jumps.to_list() == [[1, 2], [5, 9]]
    jumps.clear()
    assert jumps.to_list() == []
