"""Instants: epoch milliseconds to aware datetimes and back.

Answers: how a time of the broker is shown to a test, and how a test's time is read. Must not know:
clocks. Read on: ``clock.py``.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from embedded_broker.errors import ClockError
from rocketmq_py.clock import LATEST_MS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST_MS: Final = -62_135_510_400_000
"""The second day of the year 1: so every time zone has a name for it."""


def instant(time_ms: int) -> datetime:
    """Return epoch milliseconds as an aware UTC datetime, exactly.

    What a sender or a file calls a time may be any number. One that no calendar has is shown as the
    earliest or the latest time that can be shown in every time zone.
    """
    if not EARLIEST_MS <= time_ms <= LATEST_MS:
        time_ms = min(max(time_ms, EARLIEST_MS), LATEST_MS)
    return _EPOCH + timedelta(0, 0, 0, time_ms)


def epoch_ms(when: datetime) -> int:
    """Return an aware datetime as epoch milliseconds; ``ClockError`` for a naive one."""
    if when.tzinfo is None:
        raise ClockError(f"{when!r} has no time zone: pass an aware datetime")
    return (when - _EPOCH) // timedelta(milliseconds=1)
