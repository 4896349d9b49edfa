"""Delivery timestamps: seconds or milliseconds since 1970, and never one taken for the other.

`Message.delivery_timestamp` of the official Python client counts seconds,
``setDeliveryTimestamp`` of the 5.0 documents milliseconds, and so does what a received message
says. A plain number has the unit of the place where it is given; `EpochSeconds` and
`EpochMilliseconds` carry theirs along. What would lie before 1973 or after the year 5138 is the
other unit, and refused.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Self

from compat.v5.errors import IllegalArgumentException

LEAST_MS: Final = 100_000_000_000
"""The least number of milliseconds that is taken, which as seconds is in the year 5138.

As milliseconds it is in March 1973, so numbers of one unit are on one side of it.
"""
_LEAST_S: Final = LEAST_MS // 1000
_A_DELAY: Final = "a delay, and a moment is wanted: the present, as of time.time(), and the delay"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class EpochSeconds(int):
    """Seconds since 1970-01-01 UTC.

    >>> EpochSeconds(1_800_000_000).milliseconds
    EpochMilliseconds(1800000000000)
    """

    __slots__ = ()

    def __new__(cls, value: int) -> Self:
        """Check that it can be seconds."""
        number = _whole(value, cls.__name__)
        if not _LEAST_S <= number < LEAST_MS:
            looks_like = "milliseconds, give EpochMilliseconds" if number >= LEAST_MS else _A_DELAY
            raise IllegalArgumentException(
                f"delivery timestamp {number} cannot be seconds since 1970: it looks like "
                + looks_like
            )
        return super().__new__(cls, number)

    @property
    def milliseconds(self) -> EpochMilliseconds:
        """The same moment in milliseconds."""
        return EpochMilliseconds(int(self) * 1000)

    def __repr__(self) -> str:
        return f"EpochSeconds({int(self)})"

    def __str__(self) -> str:
        return str(int(self))


class EpochMilliseconds(int):
    """Milliseconds since 1970-01-01 UTC.

    >>> EpochMilliseconds(1_800_000_000_500).moment.isoformat()
    '2027-01-15T08:00:00.500000+00:00'
    """

    __slots__ = ()

    def __new__(cls, value: int) -> Self:
        """Check that it can be milliseconds."""
        number = _whole(value, cls.__name__)
        if number < LEAST_MS:
            looks_like = "seconds, give EpochSeconds" if number >= _LEAST_S else _A_DELAY
            raise IllegalArgumentException(
                f"delivery timestamp {number} cannot be milliseconds since 1970: it looks like "
                + looks_like
            )
        return super().__new__(cls, number)

    @property
    def moment(self) -> datetime:
        """The same moment as an aware datetime in UTC."""
        return _EPOCH + int(self) * _MILLISECOND

    def __repr__(self) -> str:
        return f"EpochMilliseconds({int(self)})"

    def __str__(self) -> str:
        return str(int(self))


def as_milliseconds(
    moment: int | datetime, unit: type[EpochSeconds | EpochMilliseconds]
) -> EpochMilliseconds:
    """Read a moment; a plain number is of the unit. TypeError for what is no moment."""
    if isinstance(moment, datetime):
        if moment.utcoffset() is None:
            raise IllegalArgumentException(
                f"datetime {moment} must be aware: give it a tzinfo, or .astimezone()"
            )
        return EpochMilliseconds(-(-(moment - _EPOCH) // _MILLISECOND))
    if not isinstance(moment, (EpochSeconds, EpochMilliseconds)):
        moment = unit(moment)
    return moment if isinstance(moment, EpochMilliseconds) else moment.milliseconds


def _whole(value: object, unit: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"a delivery timestamp is a whole number of {unit} or an aware datetime, not "
            f"{type(value).__name__} {value!r}: int(time.time()) + 10 is ten seconds from now"
        )
    return int(value)
