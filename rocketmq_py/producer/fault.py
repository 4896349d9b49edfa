"""How long a broker is avoided after it was slow or failed.

Latency fault tolerance of the original (``MQFaultStrategy``, ``LatencyFaultToleranceImpl``): each
attempt leaves a record, a table says how long the broker counts as unavailable. Must not know how
a queue is chosen; that is ``selection.py``. Nothing is recorded unless ``send_latency_enable``.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable
from enum import Enum

from rocketmq_py.clock import monotonic
from rocketmq_py.logs import get_logger

_log = get_logger(__name__)

TOLD_EVERY_S = 60.0
BROKERS_MAX = 4_096


class FaultTable(Enum):
    """Latency bounds in ms, how long the broker is unavailable from each on, and for isolation.

    >>> FaultTable.V5.unavailable_ms(600), FaultTable.V4.unavailable_ms(600)
    (2000, 30000)
    """

    V4 = (
        (50, 100, 550, 1_000, 2_000, 3_000, 15_000),
        (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000),
        30_000,
    )
    V5 = (
        (50, 100, 550, 1_800, 3_000, 5_000, 15_000),
        (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000),
        10_000,
    )

    def unavailable_ms(self, latency_ms: float) -> int:
        """Look up how long a broker with this latency is avoided."""
        bounds, durations, _ = self.value
        position = bisect_right(bounds, latency_ms)
        return durations[position - 1] if position else 0

    @property
    def isolated_ms(self) -> int:
        """How long a broker is avoided after a failure."""
        return self.unavailable_ms(self.value[2])


class _Fault:
    """What is known about one broker; replaced as a whole, so readers take no lock."""

    __slots__ = ("available_at", "detect_at", "reachable", "told")

    def __init__(self, available_at: float, detect_at: float, *, reachable: bool) -> None:
        self.available_at = available_at
        self.detect_at = detect_at
        self.reachable = reachable
        self.told: float | None = None  # when the log said that it is avoided


class BrokerFaults:
    """The records of one producer, by broker name. Every call is safe from any thread."""

    def __init__(
        self,
        *,
        enabled: bool,
        detecting: bool,
        table: FaultTable,
        detect_interval_ms: int,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.enabled = enabled
        self._detecting = detecting
        self._table = table
        self._detect_interval_s = detect_interval_ms / 1000
        self._now = now
        self._faults: dict[str, _Fault] = {}
        self._lock = threading.Lock()

    def record(
        self, broker_name: str, latency_ms: float, *, isolated: bool = False, reachable: bool = True
    ) -> None:
        """Note an attempt; without a detector a broker always counts as reachable."""
        if not self.enabled:
            return
        avoid_ms = self._table.isolated_ms if isolated else self._table.unavailable_ms(latency_ms)
        now = self._now()
        fault = _Fault(
            now + avoid_ms / 1000,
            now + self._detect_interval_s,
            reachable=reachable or not self._detecting,
        )
        with self._lock:
            if len(self._faults) >= BROKERS_MAX and broker_name not in self._faults:
                self._faults.clear()
            known = self._faults.get(broker_name)
            told = None if known is None else known.told
            tells = isolated and (told is None or now - told >= TOLD_EVERY_S)
            if isolated:
                fault.told = now if tells else told
            self._faults[broker_name] = fault
        if tells:
            _log.warning("broker %s is avoided for %d ms", broker_name, avoid_ms)
        elif told is not None and not isolated:
            _log.warning("broker %s takes messages again", broker_name)

    def is_available(self, broker_name: str) -> bool:
        """Whether the broker is not avoided right now."""
        fault = self._faults.get(broker_name)
        return fault is None or self._now() >= fault.available_at

    def is_reachable(self, broker_name: str) -> bool:
        """Whether the broker answered when it was last heard of."""
        fault = self._faults.get(broker_name)
        return fault is None or fault.reachable

    def detect(self, answers: Callable[[str], bool]) -> None:
        """Probe the brokers that are due by ``answers(broker_name)``; may block as long as it."""
        now = self._now()
        with self._lock:
            due = [name for name, fault in self._faults.items() if fault.detect_at <= now]
        for name in due:
            alive = answers(name)
            with self._lock:
                fault = self._faults[name]
                fault.detect_at = now + self._detect_interval_s
                fault.reachable = fault.reachable or alive
