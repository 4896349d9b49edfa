"""Instants: epoch milliseconds to aware datetimes and back.

Answers: how a time of the broker is shown to a test, and how a test's time is read. Must not know:
clocks. Read on: ``clock.py``.
"""

from datetime import UTC, datetime, timedelta

from embedded_broker.errors import ClockError


def instant(now_ms: int) -> datetime:
    """Return epoch milliseconds as an aware UTC datetime, exactly."""
    return datetime.fromtimestamp(now_ms // 1000, tz=UTC) + timedelta(milliseconds=now_ms % 1000)


def epoch_ms(when: datetime) -> int:
    """Return an aware datetime as epoch milliseconds; ``ClockError`` for a naive one."""
    if when.tzinfo is None:
        raise ClockError(f"{when!r} has no time zone: pass an aware datetime")
    return (when - datetime.fromtimestamp(0, tz=UTC)) // timedelta(milliseconds=1)
