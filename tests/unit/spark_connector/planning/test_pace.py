"""A time budget becomes a number of offsets, by what batches took on a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import QueueAccess
from spark_connector.options.read_options import read_options
from spark_connector.planning import pace as pace_module
from spark_connector.planning.backlog import Limit
from spark_connector.planning.pace import FIRST_OFFSETS, Pace
from spark_connector.planning.stream_offset import StreamOffset
from spark_connector.planning.tracker import Tracker


class HandClock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def sizes(pace: Pace, clock: HandClock, batches: int, takes_s: Callable[[int], float]) -> list[int]:
    """The sizes of so many batches that each take all they may."""
    found = []
    for _ in range(batches):
        offsets = pace.offsets_most
        pace.begin(offsets)
        clock.now += takes_s(offsets)
        pace.end()
        found.append(offsets)
    return found


def test_batches_double_until_their_offsets_take_the_budget(clock: HandClock) -> None:
    pace = Pace(5.0, clock)
    # A first batch that starts the workers, 0.4 s for each batch, and 100,000 offsets a second.
    sizes(pace, clock, 1, lambda _offsets: 9.0)
    found = sizes(pace, clock, 12, lambda offsets: 0.4 + offsets / 100_000)
    assert found[:4] == [2_000, 4_000, 8_000, 16_000]
    assert found[-1] == pytest.approx(502_000, rel=0.01)
    assert max(found) < 600_000


def test_one_batch_that_is_too_long_makes_the_next_one_smaller(clock: HandClock) -> None:
    pace = Pace(5.0, clock)
    sizes(pace, clock, 12, lambda offsets: 0.4 + offsets / 100_000)
    slow = sizes(pace, clock, 3, lambda offsets: 0.4 + offsets / 10_000)
    assert slow[0] == pytest.approx(500_000, rel=0.02)
    assert slow[1:] == [pytest.approx(50_000, rel=0.02)] * 2


def test_the_wait_for_a_trigger_makes_no_batch_smaller(clock: HandClock) -> None:
    pace = Pace(2.0, clock)
    # A batch each 60 seconds, or later when it takes longer.
    found = sizes(pace, clock, 20, lambda offsets: max(60.0, offsets / 1_000))
    assert found[:7] == [1_000 << number for number in range(7)]
    assert all(30_000 < offsets < 66_000 for offsets in found[6:])


def test_small_batches_and_pauses_teach_nothing(clock: HandClock) -> None:
    pace = Pace(5.0, clock)
    sizes(pace, clock, 8, lambda offsets: 0.4 + offsets / 100_000)
    learned = pace.offsets_most
    for took_s in (0.9, 0.4, 1.5):
        pace.begin(10)
        clock.now += took_s
        pace.end()
    assert pace.offsets_most == learned
    pace.begin(10)
    clock.now += 30.0
    pace.end()
    assert pace.offsets_most == FIRST_OFFSETS


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(clock=VirtualClock()) as started:
        started.topics.create("T", queues=2)
        for number in range(9_000):
            started.send("T", b"x", queue=number % 2)
        yield started


def tracker(access: QueueAccess, **options: str) -> Tracker:
    given = {"nameServer": "h:1", "subscribe": "T", "startingOffsets": "earliest"} | options
    made = Tracker(access, read_options(given, streaming=True))
    made._watch._wait_s = 0.0
    return made


def batches(asked: Tracker, clock: HandClock, limit: Limit, each_s: float) -> list[int]:
    """Read to the end in batches that take so long for each offset; every offset is read once."""
    at, found, places = asked.initial(), [], []
    while (end := asked.latest(at, limit)) is not None:
        ranges = list(at.ranges(end))
        places += [
            (one.queue_id, number) for one in ranges for number in range(one.start, one.until)
        ]
        found.append(sum(map(len, ranges)))
        clock.now += each_s * found[-1]
        # As Spark keeps it: a text.
        at = StreamOffset.from_json(end.to_json())
    assert sorted(places) == [(queue, number) for queue in (0, 1) for number in range(4_500)]
    return found


def test_a_stream_chooses_its_ends_by_the_time_that_batches_took(
    access: QueueAccess, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace_module, "monotonic", clock)
    monkeypatch.setattr(Pace.__init__, "__defaults__", (clock,))
    timed = Limit(is_timed=True)
    fast = batches(tracker(access, maxFetchTimeMs="60000"), clock, timed, 0.0)
    assert fast == [1_000, 2_000, 4_000, 2_000]
    slow = batches(tracker(access, maxFetchTimeMs="1500"), clock, timed, 0.001)
    # The first one, of a second, is the shortest; each offset more takes its millisecond.
    assert slow == [1_000, 2_000, 3_000, 2_250, 750]
    few = Limit(offsets_most=700, is_timed=True)
    assert set(batches(tracker(access, maxFetchTimeMs="60000"), clock, few, 0.0)) == {700, 600}
    assert batches(tracker(access, maxFetchTimeMs="1"), clock, Limit(), 0.0) == [9_000]
