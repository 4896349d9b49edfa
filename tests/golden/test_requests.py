"""Every form of send and pull is answered and stored byte for byte as it always was."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from tests.golden.requests import (
    CONDITIONS,
    FILE,
    MODES,
    PROFILES,
    ROWS,
    VERBS,
    faulty_outcome,
    kept,
    outcome,
    parked_outcome,
    signed_outcome,
)
from tests.short_form import short_form


@cache
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def test_rows_have_names_of_their_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("profile", "condition"),
    short_form(
        [(PROFILES[0], one) for one in CONDITIONS]
        + [(PROFILES[1], one) for one in ("plain", "all of them")],
        lambda one: (
            one in [(PROFILES[0], "plain"), (PROFILES[0], "all of them")]
            or one == (PROFILES[1], "all of them")
        ),
    ),
)
def test_answers_and_files_are_the_recorded_ones_whoever_looks_on(
    profile: str, mode: str, condition: str
) -> None:
    """``python -m tests.golden.requests --show ROW`` prints what a difference is in."""
    answers, files = outcome(ROWS, profile, condition, mode)
    expected = recorded()[f"{profile} {mode}"]
    pairs = zip(answers, expected["answers"].split(), kept(answers).split(), strict=True)
    assert [name for name, then, now in pairs if then != now] == []
    assert files == expected["files"]


@pytest.mark.parametrize("mode", MODES)
def test_who_signs_and_who_does_not_is_answered_as_recorded(mode: str) -> None:
    assert signed_outcome(mode) == recorded()["signed"][mode]


@pytest.mark.parametrize("verb", VERBS)
def test_sends_and_pulls_around_one_with_a_fault_are_answered_as_recorded(verb: str) -> None:
    assert faulty_outcome(verb) == recorded()["faults"][verb]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_pull_that_waits_is_answered_as_recorded(condition: str) -> None:
    assert parked_outcome(condition) == recorded()["parked"]
