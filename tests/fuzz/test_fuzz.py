"""The short form of `make fuzz`."""

from __future__ import annotations

from tests.fuzz.frames import Mutants
from tests.fuzz.run import run


def test_twenty_thousand_mutants_leave_the_broker_answering_and_nothing_behind() -> None:
    funnel = run(20_000, 2, seed=7)
    assert funnel.is_good, "\n".join(funnel.lines())


def test_a_seed_gives_the_same_mutants() -> None:
    one, other, third = Mutants(5), Mutants(5), Mutants(6)
    some = [one.next() for _ in range(200)]
    assert some == [other.next() for _ in range(200)]
    assert some != [third.next() for _ in range(200)]
