"""What time is it: the only module of the client side that may read the machine's clocks.

`Clock` is the interface that every part which needs wall time takes as an argument; `SystemClock`
is what production passes. The functions below are the doors to the other readings. This module must
not know who asks. The broker's clock that tests move is
`embedded_broker.clocks.clock.VirtualClock`.
"""

import time
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """A source of wall time."""

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""

    def now(self) -> datetime:
        """Give the same instant as an aware UTC datetime."""


class SystemClock:
    """The machine's wall clock.

    >>> SystemClock().now_ms > 1_600_000_000_000
    True
    """

    __slots__ = ()

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def now(self) -> datetime:
        """Give the instant as an aware UTC datetime, to the microsecond."""
        return datetime.fromtimestamp(time.time(), tz=UTC)

    def __repr__(self) -> str:
        return "SystemClock()"


def wall_ms() -> int:
    """Milliseconds since 1970-01-01 UTC, for callers that were given no clock."""
    return time.time_ns() // 1_000_000


monotonic = time.monotonic  # as it is: a send asks for it half a dozen times
"""Seconds of a clock that never goes back: measures time-outs and durations."""
monotonic_ns = time.monotonic_ns
"""Nanoseconds of the same clock."""
