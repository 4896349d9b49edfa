"""Broker stats: how much came and went of each topic and group in the last minute, hour and day.

RocketMQ's BrokerStatsManager and StatsItem, behind request 315: a figure is a name such as
TOPIC_PUT_NUMS and a key such as a topic. Nothing is counted for it: totals that stand in the broker
already are looked at every ten seconds, ten minutes and hour of session time, and what was between
two looks is told after the second, as there. Must not know: requests. Read on: ``statistics.py``.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.statistics import SAMPLE_EVERY_MS

Figure = tuple[str, str]
"""Name and key."""
Totals = Mapping[Figure, int]

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"


class Growth(NamedTuple):
    """How much a figure has grown in a window, and how much in a second of it."""

    sum: int = 0
    per_second: float = 0.0


class _Window:
    """The totals at some moments of the past; the oldest leave."""

    def __init__(self, every: int, kept: int) -> None:
        self.every = every
        """Of how many looks each is one."""
        self._seen: deque[tuple[int, Totals]] = deque(maxlen=kept)

    def look(self, now_ms: int, totals: Totals) -> None:
        self._seen.append((now_ms, totals))

    def growth(self, figure: Figure) -> Growth:
        """Tell from the last look before there was anything of it on."""
        if not self._seen:
            return Growth()
        begin_ms, before = self._seen[0][0], self._seen[0][1].get(figure, 0)
        for at_ms, totals in self._seen:
            if figure in totals:
                break
            begin_ms = at_ms
        end_ms, totals = self._seen[-1]
        grown = max(0, totals.get(figure, 0) - before)
        return Growth(grown, grown * 1000 / (end_ms - begin_ms) if end_ms > begin_ms else 0.0)


class BrokerStats:
    """The figures of one broker. Used under the door.

    ``read`` gives the present totals, those above 0 only; ``look`` is called every ten seconds.
    """

    def __init__(self, read: Callable[[], Totals], now_ms: Callable[[], int]) -> None:
        self._read = read
        self._now_ms = now_ms
        self._looks = 0
        minute = 60_000 // SAMPLE_EVERY_MS
        self._windows = (_Window(1, 7), _Window(10 * minute, 7), _Window(60 * minute, 25))
        self.look()

    def look(self) -> None:
        """Remember the present totals."""
        now_ms, totals = self._now_ms(), self._read()
        for window in self._windows:
            if self._looks % window.every == 0:
                window.look(now_ms, totals)
        self._looks += 1

    def view(self, name: str, key: str) -> tuple[Growth, Growth, Growth]:
        """Give the growth in the last minute, hour and day; refuses what there is nothing of."""
        if (name, key) not in self._read():
            raise Refused(Reason.FAILED, f"The stats <{name}> <{key}> not exist")
        minute, hour, day = (window.growth((name, key)) for window in self._windows)
        return minute, hour, day

    def per_second(self, name: str, key: str) -> float:
        """Give how much a figure has grown in each second of the last minute."""
        return self._windows[0].growth((name, key)).per_second
