"""The table of mutants fits the tree: `python -m tests.mutants` can try every one."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cases import ROOT, proofs
from tests.mutants.__main__ import tests_of as named_tests
from tests.mutants.mutant import Mutant
from tests.mutants.table import MUTANTS, TIMERS
from tests.mutants.trial import Copy

FAMILIES = ("F", "A", "P", "R", "C", "L", "E", "store", "core", "remoting")
LEAST = 3


def test_every_family_has_three_mutants_and_none_is_there_twice() -> None:
    by_family = Counter(mutant.family for mutant in MUTANTS)
    assert [family for family in FAMILIES if by_family[family] < LEAST] == []
    assert len({mutant.title for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.title)
def test_a_mutant_changes_a_line_that_is_there_once(mutant: Mutant) -> None:
    assert mutant.old != mutant.new
    assert "\n" not in mutant.old.rstrip("\n")
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1


def test_the_cases_of_every_mutant_have_tests_or_its_tests_are_there() -> None:
    found = proofs()
    assert [one.title for one in TIMERS if not found.keys() >= set(one.cases)] == []
    named = {test for one in MUTANTS for test in one.tests}
    assert sorted(test for test in named if not (ROOT / test).is_file()) == []
    assert all(named_tests(list(MUTANTS)).values())


def test_a_line_that_is_gone_and_a_case_without_tests_are_said(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    copy = Copy.__new__(Copy)
    copy.root = tmp_path_factory.mktemp("copy")
    (copy.root / "x.py").write_text("a = 1\n", encoding="utf-8")
    mutant = Mutant("x.py", "b = 1", "b = 2", cases=("F1",))
    assert "0 times" in copy.try_out(mutant, ["tests/x.py"]).trouble
    assert "no test for F1: x.py" in copy.try_out(mutant, []).trouble
    assert not copy.try_out(mutant, []).caught
