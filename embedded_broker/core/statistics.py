"""How much goes in and out of a broker: totals since it started, and rates over 10 s, 1 and 10 min.

Answers: the counts and rates of request 28. Must not know: requests, and it is not told of single
messages: what was put is read off the queues' ends every 10 s of session time, so a message costs
nothing. Windows as in the original's `StoreStatsService`, which has nothing to say until a window
is full; here it is 0.0 until then.

Read on: `remoting/handlers/admin/inspection.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["SAMPLE_EVERY_MS", "WINDOWS_S", "Totals", "Traffic"]

WINDOWS_S: Final = (10, 60, 600)
SAMPLE_EVERY_MS: Final = 10_000
_SAMPLES_KEPT: Final = max(WINDOWS_S) * 1000 // SAMPLE_EVERY_MS + 2


class Totals(NamedTuple):
    """Ever-growing numbers of one broker at one moment."""

    put: int = 0
    """Messages in all queues."""
    put_by_users: int = 0
    """Those outside system topics."""
    found: int = 0
    """Pulls that brought something."""
    missed: int = 0
    """Pulls that brought nothing."""
    given: int = 0
    """Messages that pulls brought."""
    timers_in: int = 0
    """Messages that entered the timer topic, hops and marks included."""
    timers_out: int = 0
    """Those of them that are through with it."""


class Traffic:
    """Remembers totals for ten minutes; `read` gives the present ones.

    `now_ms` is session time, for rates; `day` numbers the days of the message clock, in UTC.
    `note_pull` is called for every pull, everything else is asked for. All under the door.
    """

    def __init__(
        self, read: Callable[[], Totals], now_ms: Callable[[], int], day: Callable[[], int]
    ) -> None:
        self._read = read
        self._now_ms = now_ms
        self._day_now = day
        self._day = 0
        self.this_morning = Totals()
        """What `totals` was when the day began; zero in the first day."""
        self.yesterday_morning = Totals()
        self._samples: deque[tuple[int, Totals]] = deque(maxlen=_SAMPLES_KEPT)
        self.found = 0
        self.missed = 0
        self.given = 0
        self._at_start = Totals()

    def start(self) -> None:
        """Count from here."""
        self._at_start = self._read()
        self._day = self._day_now()
        self.sample()

    def note_pull(self, messages: int) -> None:
        """Count one pull and what it brought."""
        if messages:
            self.found += 1
            self.given += messages
        else:
            self.missed += 1

    def sample(self) -> None:
        """Remember the present totals; called every `SAMPLE_EVERY_MS`."""
        self._samples.append((self._now_ms(), self._read()))
        self._note_day()

    def _note_day(self) -> None:
        day = self._day_now()
        if day != self._day:
            self._day = day
            self.yesterday_morning, self.this_morning = self.this_morning, self.totals()

    def present(self) -> Totals:
        """Give the numbers as they are, those of former lives included."""
        return self._read()

    def totals(self) -> Totals:
        """Give what came and went since `start`; a deleted topic can make it less."""
        pairs = zip(self._read(), self._at_start, strict=True)
        return Totals(*(max(0, now - before) for now, before in pairs))

    def rates(self, field: str) -> tuple[float, ...]:
        """Give one field's growth per second over each of `WINDOWS_S`."""
        now_ms, present = self._now_ms(), getattr(self._read(), field)
        rates = []
        for window_s in WINDOWS_S:
            begin_ms = now_ms - window_s * 1000
            older = [(at, totals) for at, totals in self._samples if at <= begin_ms]
            if not older:
                rates.append(0.0)
                continue
            at, totals = older[-1]
            growth = max(0, present - getattr(totals, field))
            rates.append(growth * 1000 / max(1, now_ms - at))
        return tuple(rates)
