"""Ten thousand queues on a hundred brokers that come and go: every row once, and nothing grows.

The brokers are values at the planner's own seam: what `QueueAccess` would answer. Nobody waits.
Invariants: what two offsets mean begins where the last ranges ended; at the end every offset of
every queue was read once; the text of an offset and what the planner keeps do not grow.
"""

from __future__ import annotations

import gc
import json
import random
from collections.abc import Callable, Iterable, Sized
from concurrent.futures import Future
from itertools import count
from types import FunctionType, ModuleType
from typing import TypeVar, cast

import pytest

from rocketmq_py import (
    MessageQueue,
    QueueAccess,
    QueueBounds,
    RemotingConnectException,
    RocketMQError,
)
from spark_connector.options.read_options import read_options
from spark_connector.planning import backlog, broker_watch, tracker
from spark_connector.planning.backlog import Limit
from spark_connector.planning.stream_offset import KEPT_MOST, KeptOffsets
from spark_connector.planning.task_plan import TaskBounds, plan
from spark_connector.planning.tracker import Tracker
from spark_connector.servers import back_off

BROKERS = 100
QUEUES = 100
MEMORY_NOISE = 100
"""Objects and elements; one for each batch would be more than four times as many."""
TEXT_MOST = 100_000
T = TypeVar("T")


class Brokers:
    """A hundred brokers; `away` do not answer, `gone` are not in the route either."""

    def __init__(self) -> None:
        self.names = [f"broker-{number:03d}" for number in range(BROKERS)]
        self.bounds_by_name = {
            name: {
                MessageQueue("T", name, number): QueueBounds(0, 1_000_000_007 * (number % 7))
                for number in range(QUEUES)
            }
            for name in self.names
        }
        self.away: set[str] = set()
        self.gone: set[str] = set()

    def produce(self, chance: random.Random, name: str, queues: int = 20) -> None:
        bounds = dict(self.bounds_by_name[name])
        for queue in chance.sample(list(bounds), queues):
            bounds[queue] = QueueBounds(0, bounds[queue].max_offset + chance.randint(1, 9))
        self.bounds_by_name[name] = bounds

    # --- what `QueueAccess` answers --------------------------------------------------------------

    def read_queues_of(self, topics: Iterable[str]) -> dict[str, tuple[MessageQueue, ...]]:
        return dict.fromkeys(topics, ())

    def broker_names(self, _topic: str) -> list[str]:
        return [name for name in self.names if name not in self.gone]

    def bounds_at(self, name: str) -> dict[MessageQueue, QueueBounds]:
        if name in self.away or name in self.gone:
            raise RemotingConnectException(f"{name} is away")
        return self.bounds_by_name[name]

    def begin_bounds_of(
        self, topics: Iterable[str], name: str
    ) -> Future[dict[str, dict[MessageQueue, QueueBounds] | RocketMQError]]:
        found: dict[str, dict[MessageQueue, QueueBounds] | RocketMQError] = {}
        for topic in topics:
            try:
                found[topic] = self.bounds_at(name)
            except RocketMQError as error:
                found[topic] = error
        return at_once(lambda: found)

    def configured_queues(self, _topic: str) -> tuple[MessageQueue, ...]:
        return ()

    def broker_time_ms(self, _topic: str, _name: str) -> int:
        return 0  # what is found later is read whole

    def bounds(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        found: dict[MessageQueue, QueueBounds] = {}
        for name in self.broker_names(topic):
            found |= self.bounds_at(name)
        return found

    def bounds_of_topics(self, topics: Iterable[str]) -> dict[str, dict[MessageQueue, QueueBounds]]:
        return {topic: self.bounds(topic) for topic in topics}


def at_once(work: Callable[[], T]) -> Future[T]:
    done: Future[T] = Future()
    done.set_result(work())
    return done


def size_of(root: object, but: object) -> int:
    """How many objects and elements something holds; code and one more object are left out."""
    seen = {id(but)}
    found, ahead = 0, [root]
    while ahead:
        one = ahead.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType, FunctionType)):
            continue
        seen.add(id(one))
        ahead += (each for each in gc.get_referents(one) if gc.is_tracked(each))
        found += 1 + (len(one) if isinstance(one, Sized) else 0)
    return found


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    ticks = count(1_000)
    for module in (tracker, broker_watch, back_off):
        monkeypatch.setattr(module, "monotonic", lambda: float(next(ticks)))
    monkeypatch.setattr(broker_watch, "in_background", at_once)
    monkeypatch.setattr("logging.Logger.warning", lambda *_: None)
    return Brokers()


def tracker_of(brokers: Brokers) -> Tracker:
    given = {"nameServer": "h:1", "subscribe": "T", "startingOffsets": "latest"}
    given |= {"offsetPollIntervalMs": "1", "routeRefreshMs": "1"}
    given["missingQueueGraceMs"] = str(1 << 40)
    return Tracker(cast("QueueAccess", brokers), read_options(given, streaming=True))


class Query:
    """What Spark does with a planner: keeps texts, and reads what lies between two of them."""

    def __init__(self, brokers: Brokers, seed: int) -> None:
        self.brokers = brokers
        self.seed = seed
        self.reached = {queue: one.max_offset for queue, one in brokers.bounds("T").items()}
        self.sizes: list[int] = []
        self.begin_anew()
        self.start = json.loads(json.dumps(self.texts.write(self.planner.initial())))

    def begin_anew(self) -> None:
        """The planner dies, and its successor has the text alone."""
        self.planner, self.texts = tracker_of(self.brokers), KeptOffsets()

    def run_batch(self, limit: Limit) -> None:
        """Read each row that there is news of, which must be the next one of its queue."""
        end = self.planner.latest(self.texts.read(self.start), limit)
        if end is None:
            return
        text = json.dumps(self.texts.write(end))
        kept = json.loads(text)
        ranges = list(self.texts.read(self.start).ranges(self.texts.read(kept)))
        for task in plan(ranges, TaskBounds(cores=2), {}):
            for one in task:
                queue = MessageQueue(one.topic, one.broker_name, one.queue_id)
                where = f"seed {self.seed}, batch {len(self.sizes)}, {one}"
                assert one.start == self.reached[queue], where
                self.reached[queue] = one.until
        self.sizes.append(len(text))
        self.start = kept

    def catch_up(self, chance: random.Random) -> None:
        """With all brokers there, read all that there is, and keep texts of that time alone."""
        brokers = self.brokers
        brokers.away = brokers.gone = set()
        for _ in range(5 + KEPT_MOST):  # brokers that failed are left alone for a while
            for name in brokers.names:
                brokers.produce(chance, name, 1)
            self.run_batch(Limit())
        ends = {queue: one.max_offset for queue, one in brokers.bounds("T").items()}
        assert self.reached == ends, f"seed {self.seed}"

    def size_of_memory(self) -> int:
        return size_of((self.planner, self.texts), but=self.brokers)


@pytest.mark.case("SP50", "SP51")
@pytest.mark.timeout(240)
# The planner that begins after the last death lives to the end, so that its memory could grow.
@pytest.mark.parametrize(
    ("batches", "last_death"), [(300, 99), pytest.param(1_000, 499, marks=pytest.mark.slow)]
)
def test_of_ten_thousand_queues_every_row_is_read_once_in_many_batches(
    brokers: Brokers, batches: int, last_death: int
) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    query = Query(brokers, seed)
    sizes_of_memory: list[int] = []
    while (batch := len(query.sizes)) < batches:
        if batch == last_death:
            for name in brokers.names:  # it hears of every queue now, and of no other one later
                brokers.produce(chance, name, QUEUES)
        brokers.away = set(chance.sample(brokers.names, chance.randrange(8)))
        brokers.gone = set(chance.sample(brokers.names, chance.randrange(4)))
        for name in chance.sample(brokers.names, 5):
            brokers.produce(chance, name)
        if batch % 100 == 99 and batch <= last_death:
            query.begin_anew()
        query.run_batch(Limit(offsets_most=chance.choice([None, 300, 50])))
        if batch == last_death + 100 and not sizes_of_memory:
            query.catch_up(chance)
            sizes_of_memory.append(query.size_of_memory())
    query.catch_up(chance)
    sizes_of_memory.append(query.size_of_memory())
    sizes = query.sizes
    assert len(sizes) >= batches
    assert max(sizes) < TEXT_MOST
    assert max(sizes[-100:]) <= max(sizes[:100])
    assert sizes_of_memory[1] <= sizes_of_memory[0] + MEMORY_NOISE, f"seed {seed}"
    planner = query.planner
    assert len(planner._watch.bounds) == len(planner._watch.last_seen) == BROKERS * QUEUES
    assert len(query.texts._kept) <= KEPT_MOST
    assert not planner._missing_since


@pytest.mark.case("SP49")
def test_an_idle_stream_looks_at_no_queue(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner, texts = tracker_of(brokers), KeptOffsets()
    first = texts.write(planner.initial())
    end = planner.latest(texts.read(first), Limit())
    assert end is not None
    start = json.loads(json.dumps(texts.write(end)))
    looked: list[object] = []
    real = backlog.backlog_of

    def counting(*given: object) -> object:
        looked.append(given)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(tracker, "backlog_of", counting)
    for _ in range(5):
        assert planner.latest(texts.read(json.loads(json.dumps(start))), Limit()) is None
    assert len(looked) == 1
    brokers.produce(random.Random(1), "broker-007")
    news = planner.latest(texts.read(start), Limit())
    assert news is not None
    assert len(list(texts.read(start).ranges(news))) == 20
