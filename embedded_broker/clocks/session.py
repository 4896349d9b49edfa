"""Calls at times of the session clock: timeouts, expiry, saves.

Answers: how a part of the broker is called later, once or again and again. Must not know: who asks
and what for. Read on: ``timeline.py`` for the timers behind, ``driver.py`` for who fires them.
"""

from collections.abc import Callable

from embedded_broker.clocks.timeline import SessionTimer, SessionTimers
from rocketmq_py.clock import Clock

__all__ = ["Session"]


class Session:
    """Session time and the calls that wait for it. Used under the door."""

    def __init__(self, clock: Clock, timers: SessionTimers | None = None) -> None:
        self.clock = clock
        self.timers = timers or SessionTimers()

    @property
    def now_ms(self) -> int:
        """Session time."""
        return self.clock.now_ms

    def at(self, due_ms: int, call: Callable[[], None], what: str = "session") -> SessionTimer:
        """Call ``call`` under the door once the session clock reaches ``due_ms``."""
        return self.timers.at(due_ms, call, what)

    def after(self, delay_ms: int, call: Callable[[], None], what: str = "session") -> SessionTimer:
        """Call ``call`` under the door after ``delay_ms`` of session time."""
        return self.at(self.clock.now_ms + delay_ms, call, what)

    def every(self, period_ms: int, call: Callable[[], None], what: str = "housekeeping") -> None:
        """Call ``call`` under the door every ``period_ms`` of session time, first after one.

        A jump of the session clock makes the call once more, at its end, and not for every
        period on the way.
        """

        def again() -> None:
            due_ms = self.clock.now_ms + period_ms
            self.at(max(due_ms, self.timers.horizon_ms), again, what)
            call()

        self.after(period_ms, again, what)
