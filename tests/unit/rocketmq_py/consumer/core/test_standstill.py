from __future__ import annotations

import pytest

from rocketmq_py.consumer.core.sources import Fetched
from rocketmq_py.consumer.core.standstill import PAUSE_FIRST_S, PAUSE_MAX_S, TOLD_AFTER, Standstill
from rocketmq_py.message import MessageExt

NOTHING, NO_MATCH, MOVED, FOUND = 19, 20, 21, 0
CODES = pytest.mark.parametrize("code", [NOTHING, NO_MATCH, MOVED, FOUND])


def answer(code: int, next_offset: int, *, brings: bool = False) -> Fetched:
    messages = [MessageExt("T", b"x")] if brings else []
    return Fetched(code, messages, next_offset, moved=code == MOVED)


def pause(
    stand: Standstill,
    code: int,
    next_offset: int,
    asked: int = 5,
    *,
    took_s: float = 0.0,
    brings: bool = False,
) -> float:
    return stand.pause_s(answer(code, next_offset, brings=brings), asked, took_s)


@CODES
def test_answers_that_stand_still_are_put_off_twice_as_long_each_time_up_to_a_second(
    code: int,
) -> None:
    stand = Standstill()
    pauses = [pause(stand, code, 5) for _ in range(2_000)]
    doubled = [PAUSE_FIRST_S * 2**number for number in range(6)]
    assert pauses[:6] == pytest.approx(doubled)
    assert set(pauses[6:]) == {PAUSE_MAX_S}


@CODES
def test_answers_that_move_on_are_asked_for_again_at_once(code: int) -> None:
    stand = Standstill()
    assert {pause(stand, code, asked + 1, asked) for asked in range(5, 500)} == {0.0}
    assert stand.count == 0


def test_messages_that_come_again_and_again_are_put_off_too() -> None:
    stand = Standstill()
    assert pause(stand, FOUND, 5, brings=True) == PAUSE_FIRST_S


@CODES
def test_an_answer_that_was_kept_is_no_standstill(code: int) -> None:
    stand = Standstill()
    for _ in range(20):
        pause(stand, code, 5)
    assert pause(stand, code, 5, took_s=PAUSE_MAX_S) == 0.0
    assert stand.is_over
    assert pause(stand, NOTHING, 5) == PAUSE_FIRST_S


def test_the_time_that_the_answer_took_counts() -> None:
    stand = Standstill()
    for _ in range(20):
        pause(stand, NOTHING, 5)
    assert pause(stand, NOTHING, 5, took_s=0.3) == pytest.approx(PAUSE_MAX_S - 0.3)


def test_a_correction_goes_back_at_once_only_the_first_time() -> None:
    stand = Standstill()
    assert pause(stand, MOVED, 3) == 0.0
    assert not stand.is_over
    assert pause(stand, MOVED, 2, 3) > 0.0


@pytest.mark.parametrize("offsets", [(8, 8, 8), (3, 4, 3, 4), (8, 3, 8)])
def test_corrections_that_go_round_in_circles_stand_still(offsets: tuple[int, ...]) -> None:
    """Also when the broker forgets each time what it has said, so that 5 is asked for again."""
    stand, asked, pauses = Standstill(), 5, []
    for offset in offsets * 10:
        pauses.append(pause(stand, MOVED, offset, asked))
        asked = offset if offsets[0] == 3 else 5
    assert pauses[0] == 0.0
    assert pauses.count(0.0) <= len(pauses) / 2 + 1
    assert pauses[-1] == PAUSE_MAX_S or pauses[-2] == PAUSE_MAX_S


def test_messages_that_move_on_end_it() -> None:
    stand = Standstill()
    for _ in range(TOLD_AFTER):
        assert not stand.is_worth_telling
        pause(stand, NOTHING, 5)
    assert stand.is_worth_telling
    assert pause(stand, FOUND, 6, brings=True) == 0.0
    assert stand.is_over
