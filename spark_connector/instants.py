"""Which moment an option's text means: epoch milliseconds, or ISO 8601 with a zone.

A text without zone is refused, because driver and executors may live in different ones. Must not
know which option it is.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from spark_connector.errors import OptionError

__all__ = ["instant_ms"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def instant_ms(option: str, text: str) -> int:
    """Return epoch ms; raises `OptionError` naming ``option``.

    >>> instant_ms("x", "1970-01-01T00:00:01Z"), instant_ms("x", "1970-01-01 01:00:01+01:00")
    (1000, 1000)
    """
    if text.isascii() and text.isdigit():
        value = int(text)
        if value < 1 << 62:
            return value
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"option {option} = {text!r}: must be epoch milliseconds, or ISO 8601 with a zone"
        ) from None
    if moment.tzinfo is None:
        raise OptionError(f"option {option} = {text!r} has no zone: write {text}Z, or {text}+08:00")
    return (moment - _EPOCH) // _MILLISECOND
