"""How many messages of a topic a listener gets in a second: calls that would be too many wait.

`Pace` says when a call may begin, and counts those that wait for their moment. Must not know
threads: the dispatch that has it lets the calls wait.
"""

from __future__ import annotations

import threading
from math import isfinite

from rocketmq_py.clock import monotonic
from rocketmq_py.errors import ConfigError

RATE_MIN = 0.001
"""One message in a quarter of an hour: what is slower is meant as a pause."""


class Pace:
    """The rates of one consumer's topics; a topic without one has no limit. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rates: dict[str, float] = {}
        self._free_at: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._rates)

    def limit(self, topic: str, messages_per_second: float | None) -> None:
        """Set the rate of a topic from now on; None takes the limit away."""
        rate = messages_per_second
        if rate is not None and (
            isinstance(rate, bool)
            or not isinstance(rate, (int, float))
            or not isfinite(rate)
            or rate < RATE_MIN
        ):
            limit = f"must be None or a number of messages a second, at least {RATE_MIN}"
            raise ConfigError("rate_limit", rate, limit)
        with self._lock:
            self._free_at.pop(topic, None)
            if rate is None:
                self._rates.pop(topic, None)
            else:
                self._rates[topic] = rate

    def wait_s(self, topic: str, count: int) -> float:
        """Take room for so many messages of a topic; return how long they must wait for it."""
        with self._lock:
            rate = self._rates.get(topic)
            if rate is None:
                return 0.0
            now = monotonic()
            free_at = max(now, self._free_at.get(topic, now))
            self._free_at[topic] = free_at + count / rate
            return free_at - now
