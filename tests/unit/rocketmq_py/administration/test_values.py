"""Times and spans that peers tell, as administrators get them."""

from datetime import UTC, datetime, timedelta

import pytest

from rocketmq_py.administration.values import moment, span


@pytest.mark.parametrize(
    ("epoch_ms", "shown"),
    [(1_000, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)), (0, None), (-1, None), (2**62, None)],
)
def test_a_time_that_no_calendar_has_is_none(epoch_ms: int, shown: datetime | None) -> None:
    assert moment(epoch_ms) == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(1_500, timedelta(seconds=1.5)), (-1, timedelta(0)), (2**62, timedelta.max)],
)
def test_a_span_that_is_too_long_is_the_longest_one(milliseconds: int, shown: timedelta) -> None:
    assert span(milliseconds) == shown
