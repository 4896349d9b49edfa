"""Registry of metrics, and totals and rates of the whole broker since its start (request 28).

Answers: every counter, gauge and histogram at one moment; totals since the broker started, and
rates over 10 s, 1 and 10 min, for request 28. Must not know: requests, and it is not told of single
messages: what was put is read off the queues' ends, so a message costs nothing. Windows as in the
original's `StoreStatsService`, which has nothing to say until a window is full; here it is 0.0
until then.

Read on: `metrics.py` for what is read off a broker, `remoting/handlers/admin/inspection.py`.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from attrs import define, field, frozen

WINDOWS_S: Final = (10, 60, 600)
SAMPLE_EVERY_MS: Final = 10_000
_SAMPLES_KEPT: Final = max(WINDOWS_S) * 1000 // SAMPLE_EVERY_MS + 2

Labels = tuple[str, ...]


class MetricKind(Enum):
    """What a metric is, in the words of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@frozen
class Metric:
    """One name of RocketMQ's, and what tells its values apart besides broker and cluster."""

    name: str
    kind: MetricKind
    meaning: str
    labels: Labels = ()


@define
class Distribution:
    """How many values were at most each bound; the last count is of those above all bounds."""

    counts: list[int]
    total: float = 0


@define
class Histogram:
    """Values sorted into buckets."""

    bounds: Sequence[float]
    values: dict[Labels, Distribution] = field(factory=dict)

    def observe(self, value: float, *labels: str) -> None:
        """Count one value."""
        found = self.values.get(labels)
        if found is None:
            found = self.values[labels] = Distribution([0] * (len(self.bounds) + 1))
        found.counts[bisect_left(self.bounds, value)] += 1
        found.total += value


Values = Mapping[Labels, float] | Histogram


class Registry:
    """The metrics of one broker by name. Used under the door.

    A counter is a `Counter` by labels, to which its owner adds at most once for each request or run
    of messages, and a histogram is its owner's. What stands in the broker already is read when
    somebody asks.
    """

    def __init__(self) -> None:
        self._metrics: dict[str, tuple[Metric, Callable[[], Values | float]]] = {}

    def counter(self, name: str, meaning: str, *labels: str) -> Counter[Labels]:
        """Make a counter."""
        counted: Counter[Labels] = Counter()
        self.add(Metric(name, MetricKind.COUNTER, meaning, labels), lambda: counted)
        return counted

    def add(self, metric: Metric, read: Callable[[], Values | float]) -> None:
        """Add something that is read; a single number has no labels."""
        self._metrics[metric.name] = (metric, read)

    def collect(self) -> Iterator[tuple[Metric, Values]]:
        """Give every metric with its present values, in the order in which they were added."""
        for metric, read in self._metrics.values():
            values = read()
            yield metric, {(): values} if isinstance(values, int | float) else values


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


@define(eq=False)
class Statistics:
    """The registry, and totals that are remembered for ten minutes; `read` gives the present ones.

    `now_ms` is session time, for rates; `day` numbers the days of the message clock, in UTC.
    `note_pull` is called for every pull, everything else is asked for. All under the door.
    """

    _read: Callable[[], Totals]
    _now_ms: Callable[[], int]
    _day_now: Callable[[], int] = field(alias="day")
    registry: Registry = field(factory=Registry, init=False)
    _out: Counter[Labels] = field(init=False)
    _bytes_out: Counter[Labels] = field(init=False)
    _day: int = field(default=0, init=False)
    this_morning: Totals = field(default=Totals(), init=False)
    """What `totals` was when the day began; zero in the first day."""
    yesterday_morning: Totals = field(default=Totals(), init=False)
    _at_start: Totals = field(default=Totals(), init=False)
    _samples: deque[tuple[int, Totals]] = field(init=False)
    found: int = field(default=0, init=False)
    missed: int = field(default=0, init=False)
    given: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        counter, labels = self.registry.counter, ("topic", "consumer_group")
        self._out = counter("rocketmq_messages_out_total", "Messages handed out.", *labels)
        self._bytes_out = counter("rocketmq_throughput_out_total", "Bytes handed out.", *labels)
        self._samples = deque(maxlen=_SAMPLES_KEPT)

    def start(self) -> None:
        """Count from here."""
        self._at_start = self.present()
        self._day = self._day_now()
        self.sample()

    def note_pull(self, group: str, topic: str, messages: int, size: int) -> None:
        """Count one pull and what it brought, in messages and bytes."""
        if messages:
            self.found += 1
            self.given += messages
            labels = (topic, group)
            self._out[labels] += messages
            self._bytes_out[labels] += size
        else:
            self.missed += 1

    def given_to_groups(self) -> Iterator[tuple[Labels, int, int]]:
        """Give topic and group with the messages and bytes that pulls have brought so far."""
        for labels, messages in self._out.items():
            yield labels, messages, self._bytes_out[labels]

    def sample(self) -> None:
        """Remember the present totals; called every `SAMPLE_EVERY_MS`."""
        self._samples.append((self._now_ms(), self.present()))
        day = self._day_now()
        if day != self._day:
            self._day = day
            self.yesterday_morning, self.this_morning = self.this_morning, self.totals()

    def present(self) -> Totals:
        """Give the numbers as they are, those of former lives included."""
        return self._read()._replace(found=self.found, missed=self.missed, given=self.given)

    def totals(self, present: Totals | None = None) -> Totals:
        """Give what came and went since `start`; a deleted topic can make it less.

        To find the present numbers all queues are looked at: whoever has them gives them.
        """
        pairs = zip(present or self.present(), self._at_start, strict=True)
        return Totals(*(max(0, now - before) for now, before in pairs))

    def rates(self, field: str, present: Totals | None = None) -> tuple[float, ...]:
        """Give one field's growth per second over each of `WINDOWS_S`; see `totals`."""
        now_ms, number = self._now_ms(), getattr(present or self.present(), field)
        rates = []
        for window_s in WINDOWS_S:
            begin_ms = now_ms - window_s * 1000
            older = [(at, totals) for at, totals in self._samples if at <= begin_ms]
            if not older:
                rates.append(0.0)
                continue
            at, totals = older[-1]
            growth = max(0, number - getattr(totals, field))
            rates.append(growth * 1000 / max(1, now_ms - at))
        return tuple(rates)
