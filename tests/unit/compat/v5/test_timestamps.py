"""Seconds and milliseconds of delivery timestamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from compat.v5 import EpochMilliseconds, EpochSeconds, IllegalArgumentException
from compat.v5.timestamps import as_milliseconds

S = 1_800_000_000
MS = S * 1000


def test_a_plain_number_has_the_unit_of_its_place_and_others_keep_theirs() -> None:
    assert as_milliseconds(S, EpochSeconds) == MS
    assert as_milliseconds(MS + 1, EpochMilliseconds) == MS + 1
    assert as_milliseconds(EpochMilliseconds(MS), EpochSeconds) == MS
    assert as_milliseconds(EpochSeconds(S), EpochMilliseconds) == MS
    assert repr(EpochSeconds(S).milliseconds) == f"EpochMilliseconds({MS})"
    assert EpochMilliseconds(MS).moment == datetime(2027, 1, 15, 8, tzinfo=UTC)


def test_a_datetime_is_rounded_up_to_a_millisecond() -> None:
    moment = datetime(2027, 1, 15, 9, 0, 0, 1, tzinfo=timezone(timedelta(hours=1)))
    assert as_milliseconds(moment, EpochSeconds) == MS + 1


@pytest.mark.parametrize(
    ("moment", "unit", "words"),
    [
        (MS, EpochSeconds, "looks like milliseconds, give EpochMilliseconds"),
        (S, EpochMilliseconds, "looks like seconds, give EpochSeconds"),
        (10, EpochSeconds, "timestamp 10 cannot be seconds since 1970: it looks like a delay"),
        (-1, EpochSeconds, "cannot be seconds since 1970: it looks like a delay"),
        (0, EpochMilliseconds, "cannot be milliseconds since 1970: it looks like a delay"),
        (datetime(2027, 1, 1), EpochSeconds, "must be aware"),  # noqa: DTZ001 - that is the case
    ],
)
def test_what_cannot_be_meant_is_refused(moment: Any, unit: Any, words: str) -> None:
    with pytest.raises(IllegalArgumentException, match=words):
        as_milliseconds(moment, unit)


@pytest.mark.parametrize("moment", [1.5, True, "1800000000", None])
def test_what_is_no_whole_number_is_refused(moment: Any) -> None:
    with pytest.raises(TypeError, match="whole number of EpochSeconds or an aware datetime"):
        as_milliseconds(moment, EpochSeconds)
