"""What time is it: the only module of the client side that may read the machine's clocks.

`Clock` is the interface that every part which needs wall time takes as an argument; `SystemClock`
is what production passes. `ApplicationClock` is what an application takes that has threads or tasks
of its own: it also says when these work, for tests that move time. The functions below are the
doors to the other readings. This module must not know who asks. The broker's clock that tests move
is `embedded_broker.clocks.clock.VirtualClock`.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, ParamSpec, Protocol, Self, TypeVar, runtime_checkable

from rocketmq_py.errors import ConfigError

LATEST_MS: Final = 253_402_214_400_000
"""The latest time that is used as one: the last day of the year 9999, in any time zone."""
NAME_MAX: Final = 200
"""Most characters of a name for `busy` and `idle_when`."""
P = ParamSpec("P")
R = TypeVar("R")


@runtime_checkable
class Clock(Protocol):
    """A source of wall time."""

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""

    def now(self) -> datetime:
        """Give the same instant as an aware UTC datetime."""


class Busy(Protocol):
    """Work of the application's own, for which a test's clock waits: see `ApplicationClock.busy`.

    A context manager in any thread or coroutine, and a decorator.
    """

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Count every call of a function or a coroutine function, from the call to its end."""

    def hand_over(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Count from now until the call that is returned has been made and has ended."""


class IdleCondition(Protocol):
    """A condition that was given to `ApplicationClock.idle_when`, until its ``with`` block ends."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def forget(self) -> None:
        """Ask it no longer; idempotent."""


@runtime_checkable
class ApplicationClock(Clock, Protocol):
    """What an application takes as its clock: the time, and words for what it is doing.

    In production it is a `SystemClock`, where these words do nothing. In a test it is the clock of
    the embedded broker (``broker.clock``), which moves time only while nobody is busy.

    >>> class Reminders:
    ...     def __init__(self, clock: ApplicationClock) -> None:
    ...         self.clock = clock
    ...
    ...     def on_message(self, text: str) -> None:
    ...         with self.clock.busy("reminders"):
    ...             print(text, "at a time before 2100:", self.clock.now().year < 2100)
    >>> Reminders(SystemClock()).on_message("drink water")
    drink water at a time before 2100: True
    """

    def busy(self, name: str | None = None) -> Busy:
        """Let the time of a test wait for work of the application's own threads and tasks."""

    def idle_when(
        self, predicate: Callable[[], object], *, name: str | None = None
    ) -> IdleCondition:
        """Let the time of a test wait until ``predicate()`` is true."""

    def forget(self, name: str) -> None:
        """Ask the condition of this name no longer."""


class SystemClock:
    """The machine's wall clock. No test moves it, so nobody asks whether the application is idle.

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

    def busy(self, name: str | None = None) -> Busy:
        """Do nothing: a test's clock would wait for this work (`ApplicationClock`).

        >>> with SystemClock().busy("outbox"):
        ...     pass
        """
        check_activity_name("busy", name)
        return _UNCOUNTED

    def idle_when(
        self, predicate: Callable[[], object], *, name: str | None = None
    ) -> IdleCondition:
        """Do nothing: a test's clock would wait until it is true (`ApplicationClock`)."""
        del predicate
        check_activity_name("idle_when", name)
        return _UNASKED

    def forget(self, name: str) -> None:
        """Do nothing, as `idle_when`."""

    def __repr__(self) -> str:
        return "SystemClock()"


def a_clock(clock: Clock | None) -> Clock:
    """Convert the argument ``clock`` of a client."""
    return SystemClock() if clock is None else clock


class _Unheeded:
    """A context manager that does nothing."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return


class _Uncounted(_Unheeded):
    """`Busy` of production."""

    __slots__ = ()

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        return function

    def hand_over(self, function: Callable[P, R], /) -> Callable[P, R]:
        return function


class _Unasked(_Unheeded):
    """`IdleCondition` of production."""

    __slots__ = ()

    def forget(self) -> None:
        return


_UNCOUNTED: Final = _Uncounted()
_UNASKED: Final = _Unasked()


def check_activity_name(call: str, name: object) -> None:
    """Raise ``ConfigError`` for a name that `busy` or `idle_when` cannot have."""
    if name is None or (isinstance(name, str) and 0 < len(name) <= NAME_MAX):
        return
    if callable(name):
        raise ConfigError("name", name, f"a text: write @clock.{call}() with parentheses")
    told = f"<{len(name)} characters>" if isinstance(name, str) else name
    raise ConfigError("name", told, f"a text of 1 to {NAME_MAX} characters, or None")


def wall_ms() -> int:
    """Milliseconds since 1970-01-01 UTC, for callers that were given no clock."""
    return time.time_ns() // 1_000_000


monotonic = time.monotonic  # as it is: a send asks for it half a dozen times
"""Seconds of a clock that never goes back: measures time-outs and durations."""
monotonic_ns = time.monotonic_ns
"""Nanoseconds of the same clock."""
