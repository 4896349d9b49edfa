"""``clock.run``: forward in time deadline by deadline, so that clients can react on the way.

Answers: what ``clock.run`` and ``clock.run_until`` do. A consumer that arms itself anew for
tomorrow rings each day of five, which one jump over five days would skip. Must not know: who calls,
on which thread a condition is evaluated (``embedded_broker/api/aio.py`` does so on the loop's).
Read on: ``embedded_broker/clocks/clock.py``, ``settle.py``.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from attrs import define, field, frozen

from embedded_broker.clocks.instants import instant
from embedded_broker.clocks.settle import Settled
from embedded_broker.clocks.waiting import describe
from embedded_broker.errors import ClockError, WaitTimeoutError
from rocketmq_py.clock import monotonic


@frozen
class Advanced:
    """What a jump did: ``fired`` counts events that a user can see, ``until`` is the time now."""

    fired: int
    until: datetime


@frozen
class NextDeadline:
    """The next event: when it is due (``due_ms`` in epoch milliseconds), and what it is."""

    due_ms: int
    what: str
    at: datetime = field(init=False)

    @at.default
    def _instant(self) -> datetime:
        return instant(self.due_ms)


class Runner(Protocol):
    """The clock that runs; ``embedded_broker.clocks.clock.VirtualClock`` is one."""

    @property
    def now_ms(self) -> int:
        """The time now."""

    def settle(self, timeout: float = 5, *, check: bool = True) -> Settled:
        """Wait until the clients are idle."""

    def next_deadline(self) -> NextDeadline | None:
        """Return the next event that a user can see."""

    def jump_to_ms(self, when_ms: int) -> Advanced:
        """Move time forward to this instant; ``ClockError`` when it has passed."""


@define(eq=False)
class ClockRun:
    """One way forward: ``settle`` first, then ``step`` as long as it says that it moved.

    It ends at ``until_ms``; without it, when nothing waits any more. All steps together take at
    most ``timeout_s`` seconds of wall time.
    """

    _clock: Runner
    _until_ms: int | None
    _timeout_s: float
    fired: int = field(default=0, init=False)
    _steps: int = field(default=0, init=False)
    _trouble: str = field(default="", init=False)
    _end: float = field(init=False)
    _began_ms: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._end = monotonic() + self._timeout_s
        self._began_ms = self._clock.now_ms

    def settle(self) -> None:
        """Wait until the clients are idle; ``SettleTimeout`` names those that are not."""
        self._clock.settle(max(self._end - monotonic(), 0))

    def step(self) -> bool:
        """Go to the next event and let the clients react; False when the end is reached."""
        clock, until_ms = self._clock, self._until_ms
        head = clock.next_deadline()
        if head is not None and (until_ms is None or head.due_ms <= until_ms):
            target_ms = head.due_ms
        elif until_ms is None or until_ms <= clock.now_ms:
            return False
        else:
            target_ms = until_ms
        if monotonic() > self._end:
            raise WaitTimeoutError(
                f"the run was not over within {self._timeout_s:g} s of wall time: {self.told()}. "
                "Pass timeout=... for more, or a shorter span"
            )
        try:
            self.fired += clock.jump_to_ms(target_ms).fired
        except ClockError:  # time that flows has passed it: that is as good
            if clock.now_ms < target_ms:
                raise
        self._steps += 1
        self.settle()
        return True

    def told(self) -> str:
        """Say how far it came."""
        head = self._clock.next_deadline()
        following = "nothing waits"
        if head is not None:
            following = f"next is {head.what} at {instant(head.due_ms).isoformat()}"
        return (
            f"{self._steps} steps from {instant(self._began_ms).isoformat()} to "
            f"{instant(self._clock.now_ms).isoformat()} fired {self.fired}; {following}"
        )

    def holds(self, condition: Callable[[], object]) -> bool:
        """Look whether it has come true. A ``LookupError`` counts as not yet, as in a wait."""
        self._trouble = ""
        try:
            return bool(condition())
        except LookupError as error:
            self._trouble = f"\nthe condition raised {error!r}"
            return False

    def failed(self, condition: Callable[..., object]) -> WaitTimeoutError:
        """Make the error for a condition that did not come true on the way."""
        end = "at_most was reached" if self._until_ms is not None else "nothing waits any more"
        return WaitTimeoutError(
            f"ran until {describe(condition)}, but {end}: {self.told()}{self._trouble}"
        )
