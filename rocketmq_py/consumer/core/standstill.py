"""How long the pulls of a queue are put off whose answers lead nowhere.

A sound broker keeps a pull that finds nothing for seconds, and an answer with an offset further on
is a step of a scan. Answers at once that neither bring messages nor move on would be asked for
without a pause, for ever: `Standstill` puts these pulls off, twice as long each time. It must not
know brokers, threads or clocks; `intake` asks.
"""

from rocketmq_py.consumer.core.sources import Fetched

PAUSE_FIRST_S = 0.02
PAUSE_MAX_S = 1.0
DOUBLED_MAX = 10
TOLD_AFTER = 7
"""So many answers in a row that lead nowhere are worth a line: the pause is the longest then."""


class Standstill:
    """Answers in a row, of one queue, that lead nowhere."""

    __slots__ = ("_corrected", "count")

    def __init__(self) -> None:
        self.count = 0
        self._corrected: int | None = None  # the largest offset of answers 21 since there was news

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to remember."""
        return self.count == 0 and self._corrected is None

    @property
    def is_worth_telling(self) -> bool:
        """Whether it lasts for so long that it is no chance."""
        return self.count >= TOLD_AFTER

    def pause_s(self, answer: Fetched, asked: int, took_s: float) -> float:
        """Return how long to wait after an answer to a pull from offset ``asked``.

        ``took_s`` is how long the broker took.
        """
        moves = self._moves(answer, asked)
        if took_s >= PAUSE_MAX_S or (moves and answer.messages):
            self.count, self._corrected = 0, None
            return 0.0
        if moves:
            return 0.0
        self.count += 1
        pause_s: float = PAUSE_FIRST_S * 2 ** min(self.count - 1, DOUBLED_MAX)
        return max(0.0, min(PAUSE_MAX_S, pause_s) - took_s)

    def _moves(self, answer: Fetched, asked: int) -> bool:
        """Whether the next pull is from an offset that is news."""
        told = answer.next_offset
        if not answer.moved:
            return told > asked
        known = self._corrected
        self._corrected = told if known is None else max(known, told)
        if known is None:  # a first correction may go back
            return told != asked
        return told > max(asked, known)
