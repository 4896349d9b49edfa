"""Timer metrics: how many timers wait, by topic, and within which time.

Answers: the counts behind `broker.timers.count()` and request GET_TIMER_METRICS. Must not know:
engines. The counts by topic live in `config/timermetrics` (one line of JSON, with the previous
one in `.bak`); the buckets of the distribution are computed when asked for. Names and format as
in `org.apache.rocketmq.store.timer.TimerMetrics`, distribution as its `calcTimerDistribution`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Final

from embedded_broker.clocks.timeline import Budget
from embedded_broker.store.config_files import JsonConfigFile
from embedded_broker.store.fs import FileSystem
from rocketmq_py.logs import get_logger

_LOG = get_logger(__name__)

DISTRIBUTION_BOUNDS_S: Final = (5, 60, 300, 900, 3600, 14_400, 28_800, 86_400)
"""Upper bounds of the buckets: 5 s, 1, 5 and 15 min, 1, 4, 8 and 24 h."""


class TimerMetrics:
    """Counts by real topic. A count that falls to zero stays known, as in the original."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._file = JsonConfigFile(fs, path, pretty=False)
        self._counts: dict[str, list[int]] = {}
        self.state_version = 0
        self.timestamp = 0
        self.counter = 0

    @property
    def total(self) -> int:
        """How many timers wait in all."""
        return sum(pair[0] for pair in self._counts.values())

    def count(self, topic: str) -> int:
        """How many timers of one topic wait; 0 for a topic never seen."""
        pair = self._counts.get(topic)
        return pair[0] if pair is not None else 0

    def time_ms(self, topic: str) -> int:
        """When the count of the topic changed last; 0 for a topic never seen."""
        pair = self._counts.get(topic)
        return pair[1] if pair is not None else 0

    @property
    def topics(self) -> list[str]:
        """Every topic with a count, sorted."""
        return sorted(self._counts)

    def add(self, topic: str, number: int, now_ms: int, *, changes: int = 1) -> None:
        """Change the count of a topic; `changes` says how many messages that stands for."""
        pair = self._counts.get(topic)
        if pair is None:
            self._counts[topic] = [number, now_ms]
        else:
            pair[0] += number
            pair[1] = now_ms
        self.timestamp = now_ms
        self.counter += changes

    def replace(self, counts: dict[str, int], now_ms: int) -> None:
        """Take over counts that were found out anew; other known topics become zero."""
        for topic in self._counts:
            if topic not in counts:
                self._counts[topic] = [0, now_ms]
        for topic, number in counts.items():
            self._counts[topic] = [number, now_ms]
        self.timestamp = now_ms
        self.counter += 1

    def keep_only(self, topics: Iterable[str]) -> None:
        """Forget the topics that no longer exist."""
        wanted = set(topics)
        self._counts = {name: pair for name, pair in self._counts.items() if name in wanted}

    # --- file ------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Give what is stored, as JSON values with sorted keys; independent of later changes."""
        timing = {
            topic: {"count": pair[0], "timeStamp": pair[1]}
            for topic, pair in sorted(self._counts.items())
        }
        version = {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp,
        }
        return {"dataVersion": version, "timingCount": timing}

    def save(self, snapshot: dict[str, Any] | None = None) -> None:
        """Store a snapshot (by default the present one); the old file becomes `.bak`."""
        self._file.save(self.snapshot() if snapshot is None else snapshot)

    @property
    def problem(self) -> str | None:
        """What was wrong with the file when it was read; it is counted anew then."""
        return self._file.problem

    def load(self) -> bool:
        """Read the file, or `.bak` if it is missing or damaged; say whether anything was read."""
        # Any: a JSON text; what does not fit raises one of the errors below.
        table: Any = self._file.load(skip_damage=True)
        if table is None:
            return False
        try:
            version = table.get("dataVersion") or {}
            counts = {
                str(topic): [int(one["count"]), int(one.get("timeStamp", 0))]
                for topic, one in table["timingCount"].items()
            }
            counter = int(version.get("counter", 0))
            state_version = int(version.get("stateVersion", 0))
            timestamp = int(version.get("timestamp", 0))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _LOG.warning("%s does not hold timer metrics: %s", self._file.path, error)
            return False
        self._counts = counts
        self.counter = counter
        self.state_version = state_version
        self.timestamp = timestamp
        return True


class Distribution:
    """How soon timers are due; `step` it under the door until `done`, then read `buckets`.

    `found` gives how far ahead timers are, in milliseconds, and their number; None where the count
    may be interrupted.
    """

    def __init__(self, found: Iterator[tuple[int, int] | None]) -> None:
        self.buckets: dict[int, int] = dict.fromkeys(DISTRIBUTION_BOUNDS_S, 0)
        """Upper bound in seconds to the number of timers between it and the bound before."""
        self.done = False
        self._turns = self._run(found)

    def step(self, budget: Budget) -> None:
        """Go on until the budget is used up."""
        while not self.done and not budget.exhausted():
            self.done = next(self._turns, True) is True

    def _run(self, found: Iterator[tuple[int, int] | None]) -> Iterator[None]:
        bounds_ms = [bound * 1000 for bound in DISTRIBUTION_BOUNDS_S]
        for one in found:
            if one is None:
                yield
                continue
            ahead_ms, number = one
            index = bisect_right(bounds_ms, max(0, ahead_ms))
            if index < len(bounds_ms):
                self.buckets[DISTRIBUTION_BOUNDS_S[index]] += number
