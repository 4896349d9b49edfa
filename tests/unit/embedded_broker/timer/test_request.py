"""How messages of the timer topic are read back."""

from __future__ import annotations

import pytest

from embedded_broker.timer.request import (
    TimerRequest,
    delete_key,
    parse_request,
    root_offset,
    source_offset,
    victim_root,
)

GOOD = {"TIMER_OUT_MS": "5000", "REAL_TOPIC": "T", "REAL_QID": "3"}


def test_slot_topic_and_queue_are_read() -> None:
    assert parse_request(GOOD) == TimerRequest(5000, "T", 3, None)
    assert parse_request({**GOOD, "TIMER_DEL_UNIQKEY": "T+K"}) == TimerRequest(5000, "T", 3, "T+K")


@pytest.mark.parametrize(
    "changed",
    [
        {"TIMER_OUT_MS": "x"},
        {"TIMER_OUT_MS": "-1"},
        {"REAL_TOPIC": ""},
        {"REAL_QID": "two"},
        {"REAL_QID": "-1"},
        {"REAL_QID": str(2**31)},
    ],
)
def test_a_message_that_cannot_be_released_is_no_timer(changed: dict[str, str]) -> None:
    assert parse_request({**GOOD, **changed}) is None


@pytest.mark.parametrize("missing", sorted(GOOD))
def test_nothing_may_be_missing(missing: str) -> None:
    assert parse_request({name: value for name, value in GOOD.items() if name != missing}) is None


def test_offsets_of_copies_and_marks() -> None:
    assert delete_key("T", "K") == "T+K"
    assert root_offset({}, 7) == 7
    assert root_offset({"TIMER_ROOT_OFFSET": "5"}, 7) == 5
    assert root_offset({"TIMER_ROOT_OFFSET": "x"}, 7) == 7
    assert (source_offset({}), source_offset({"TIMER_SRC_OFFSET": "0"})) == (None, 0)
    assert (victim_root({}), victim_root({"TIMER_DEL_OFFSET": "9"})) == (None, 9)
