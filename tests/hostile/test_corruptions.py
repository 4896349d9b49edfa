"""Damaged files of a store: nothing is lost in silence, and what is repaired stays repaired.

Each seed draws a store, one of its files and a damage; see `corruptions.py`. The first seeds are a
part of every run of the suite, the marked test plays three hundred.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.corruptions import GOOD, KINDS, STORES, Damages, Outcome, Verdict, table_of
from tests.hostile.stores import MEMORY
from tests.short_form import short_form

SEEDS = 60
TURNS = 6
ALL = 300
FOUND = {
    44: "an empty log of a slice counted as a whole one",
    92: "another slice's log lay in the place of one, and its timers were dropped",
    168: "the offsets of the levels were gone, and nobody said that their messages come again",
    356: "a flipped property of a slice's record was delivered or dropped",
    404: "the offsets of all groups were deleted, and the store opened without a word",
    1130: "timers of an emptied log were not taken from the commit log",
    1256: "a flipped record of a slice was dropped when its second came",
}
"""Damages that were silent once, and what they found."""


@pytest.fixture(scope="module")
def damages() -> Iterator[Damages]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Damages(Path(folder))


def _check(outcomes: list[Outcome]) -> None:
    bad = [one.line() for one in outcomes if one.verdict not in GOOD]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("turn", short_form(range(TURNS), lambda turn: turn < TURNS // 2))
def test_no_damage_to_a_file_is_silent(damages: Damages, turn: int) -> None:
    _check([damages.play(seed) for seed in range(turn, SEEDS, TURNS)])


def test_what_was_silent_once_is_silent_no_more(damages: Damages) -> None:
    _check([damages.play(seed) for seed in FOUND])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_hundred_damages_are_the_same_said_or_refused(damages: Damages) -> None:
    outcomes = [damages.play(seed) for seed in range(ALL)]
    _check(outcomes)
    assert {one.damage.split()[0] for one in outcomes} == set(KINDS)
    assert len({one.store for one in outcomes}) == len(STORES)
    assert {one.verdict for one in outcomes} == GOOD


def test_the_table_counts_every_damage() -> None:
    outcomes = [
        Outcome(number, "wheel, closed", f"flip bit {number}", verdict, "", (1, 1, 1), None)
        for number, verdict in enumerate([Verdict.SAME, Verdict.SAME, Verdict.SILENT])
    ]
    lines = table_of(outcomes)
    assert lines[0].split() == ["same", "SILENT"]
    assert ["flip", "2", "1"] in [line.split() for line in lines]
    assert lines[-1] == "3 damages, 1 silent or worse"
