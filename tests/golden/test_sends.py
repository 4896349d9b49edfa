"""What a broker answers to a send and stores of it is, byte for byte, what it always was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.requests import CONDITIONS
from tests.golden.sends import FILE, MODES, NAMES, SETTINGS, digests
from tests.short_form import short_form

KEPT: dict[str, dict[str, dict[str, Any]]] = json.loads(FILE.read_text())


@pytest.mark.parametrize(
    ("setting", "mode"),
    short_form(
        [(setting, mode) for setting in SETTINGS for mode in MODES],
        lambda one: one in [("5.x", MODES[0]), ("sliced", MODES[0])] or one[1] == MODES[1],
    ),
)
def test_answers_and_files_are_those_that_were_recorded(setting: str, mode: str) -> None:
    """``python -m tests.golden.sends --show NAME`` prints what a difference is in."""
    now, kept = digests(setting, in_one_piece=mode == MODES[1]), KEPT[setting][mode]
    pairs = zip(NAMES, kept["answers"].split(), now["answers"].split(), strict=True)
    assert [name for name, then, this in pairs if then != this] == []
    assert kept["files"] == now["files"]


@pytest.mark.parametrize("mode", short_form(MODES, lambda one: one == MODES[1]))
@pytest.mark.parametrize("condition", ["an interceptor", "a guard", "a fault for others"])
def test_sends_that_somebody_looks_at_are_stored_together_as_well(
    condition: str, mode: str
) -> None:
    """A put hook is left out: messages that it sees are stored one by one."""
    now = digests("5.x", in_one_piece=mode == MODES[1], changes=CONDITIONS[condition])
    assert now == KEPT["5.x"][mode]


def test_every_request_has_an_answer_but_those_that_want_none() -> None:
    answers = KEPT["5.x"]["alone"]["answers"].split()
    silent = [name for name, one in zip(NAMES, answers, strict=True) if one == "-"]
    assert silent == ["oneway", "end prepared by property with 0"]
