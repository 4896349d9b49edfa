"""Jumps of the clock: time that a test skipped does not count as age of messages.

Answers: how much of the time since an instant counts as age. A test that goes 30 days
forward wants to see its timers fire, not its messages removed by retention. Must
not know: clocks, messages. Read on: ``embedded_broker/clocks/clock.py`` for who notes a jump,
``embedded_broker/store/retention.py`` for what age is used for.
"""

from collections.abc import Iterable
from typing import Final

JUMPS_MAX: Final = 1000
"""When there are more, the oldest ones are joined, the time between them included."""


class Jumps:
    """Spans in rising order that do not overlap; times in epoch milliseconds.

    >>> jumps = Jumps()
    >>> jumps.add(1000, 5000)
    >>> jumps.between(0, 10_000), jumps.between(4500, 10_000)
    (4000, 500)
    """

    def __init__(self) -> None:
        self._jumps: list[tuple[int, int]] = []

    def add(self, from_ms: int, to_ms: int) -> None:
        """Note a jump; one that begins where the last ended makes that longer."""
        if to_ms <= from_ms:
            return
        jumps = self._jumps
        # A clock that was set back can pass a stretch again.
        while jumps and jumps[-1][1] >= from_ms:
            before_ms, until_ms = jumps.pop()
            from_ms, to_ms = min(from_ms, before_ms), max(to_ms, until_ms)
        jumps.append((from_ms, to_ms))
        if len(jumps) > JUMPS_MAX:
            jumps[:2] = [(jumps[0][0], jumps[1][1])]

    def between(self, from_ms: int, to_ms: int) -> int:
        """Give how many milliseconds of a span were jumped over."""
        return sum(
            max(0, min(to_ms, end_ms) - max(from_ms, begin_ms)) for begin_ms, end_ms in self._jumps
        )

    def clear(self) -> None:
        """Let all time count as age from now on."""
        self._jumps.clear()

    def to_list(self) -> list[list[int]]:
        """Give what a file keeps."""
        return [list(jump) for jump in self._jumps]

    def take_over(self, stored: object) -> None:
        """Add what a file kept; anything that is no list of pairs of numbers is passed over."""
        for pair in stored if isinstance(stored, Iterable) else ():
            match pair:
                case [int(from_ms), int(to_ms)]:
                    self.add(from_ms, to_ms)
                case _:
                    continue
