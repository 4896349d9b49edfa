"""Which moment an option's text means: epoch milliseconds, or ISO 8601 with a zone.

A text without zone is refused, because driver and executors may live in different ones. Must not
know which option it is.
"""

import re
from datetime import UTC, datetime, timedelta

from spark_connector.errors import OptionError

MS_LEAST = 10**11
"""In 1973, when nothing was stored; as seconds these are the years up to 5138."""
MS_PAST = 10**14
"""In 5138; as microseconds these are the years from 1973 on."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SHAPE = re.compile("[0-9W-]+([Tt ].*)?")
"""Python takes any character between date and time, and so a zone after a date for a time."""


def instant_ms(option: str, text: str) -> int:
    """Return epoch ms; raises `OptionError` naming ``option``.

    >>> instant_ms("x", "1970-01-01T00:00:01Z"), instant_ms("x", "1970-01-01 01:00:01+01:00")
    (1000, 1000)
    """
    if text.isascii() and text.isdigit():
        return checked_ms(f"option {option} = {text!r}", int(text))
    moment = _moment(text)
    if moment is None:
        raise OptionError(
            f"option {option} = {text!r}: must be epoch milliseconds, or ISO 8601 with a time and "
            "a zone, such as 2024-01-31T00:00:00Z"
        )
    if moment.tzinfo is None:
        # A zone belongs to a time of day, so a bare date is completed to its midnight.
        whole = moment.isoformat()
        raise OptionError(
            f"option {option} = {text!r} has no zone: write {whole}Z, or {whole}+08:00"
        )
    return (moment - _EPOCH) // _MILLISECOND


def checked_ms(what: str, value: int) -> int:
    """Return epoch ms that can be meant; raises `OptionError` for other units, but not for 0.

    >>> checked_ms("x", 0), checked_ms("x", 1767225600000)
    (0, 1767225600000)
    """
    if value and not MS_LEAST <= value < MS_PAST:
        unit = "seconds" if value < MS_LEAST else "microseconds or nanoseconds"
        raise OptionError(f"{what} looks like epoch {unit}: it must be epoch milliseconds")
    return value


def _moment(text: str) -> datetime | None:
    if not _SHAPE.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
