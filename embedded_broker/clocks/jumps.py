"""The stretches of time that were jumped over and make nothing older.

Answers: how much of the time since an instant counts as age. Retention is there for the flow of
time; a test that goes 30 days forward wants to see its timers fire, not its messages vanish. Must
not know: clocks, messages. Read on: ``embedded_broker/clocks/clock.py`` for who notes a leap,
``embedded_broker/store/retention.py`` for what age is used for.
"""

from collections.abc import Iterable
from typing import Final

__all__ = ["Leaps"]

LEAPS_MAX: Final = 1000
"""More are joined, the oldest first, together with the time between them."""


class Leaps:
    """Stretches in rising order that do not overlap; times in epoch milliseconds.

    >>> leaps = Leaps()
    >>> leaps.add(1000, 5000)
    >>> leaps.between(0, 10_000), leaps.between(4500, 10_000)
    (4000, 500)
    """

    def __init__(self) -> None:
        self._leaps: list[tuple[int, int]] = []

    def add(self, from_ms: int, to_ms: int) -> None:
        """Note a jump; one that begins where the last ended makes that longer."""
        if to_ms <= from_ms:
            return
        leaps = self._leaps
        # A clock that was set back can pass a stretch again.
        while leaps and leaps[-1][1] >= from_ms:
            before_ms, until_ms = leaps.pop()
            from_ms, to_ms = min(from_ms, before_ms), max(to_ms, until_ms)
        leaps.append((from_ms, to_ms))
        if len(leaps) > LEAPS_MAX:
            leaps[:2] = [(leaps[0][0], leaps[1][1])]

    def between(self, from_ms: int, to_ms: int) -> int:
        """Give how many milliseconds of a stretch were jumped over."""
        return sum(
            max(0, min(to_ms, end_ms) - max(from_ms, begin_ms)) for begin_ms, end_ms in self._leaps
        )

    def clear(self) -> None:
        """Let all of it count as age from now on."""
        self._leaps.clear()

    def to_list(self) -> list[list[int]]:
        """Give what a file keeps."""
        return [list(leap) for leap in self._leaps]

    def take_over(self, stored: object) -> None:
        """Add what a file kept; anything that is no list of pairs of numbers is passed over."""
        for pair in stored if isinstance(stored, Iterable) else ():
            match pair:
                case [int(from_ms), int(to_ms)]:
                    self.add(from_ms, to_ms)
                case _:
                    continue
