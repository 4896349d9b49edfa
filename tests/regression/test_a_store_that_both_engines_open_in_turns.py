"""Whatever opens a store after whatever stop: every timer leaves once, and somebody may open it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.store.memory_fs import MemoryFileSystem
from rocketmq_py.errors import ConfigError

WAYS: list[Mapping[str, object]] = [
    {"engine": engine, "levels": levels}
    for engine in ("wheel", "sliced")
    for levels in ("on", "off")
]
LEVEL_S = {1: 1, 2: 5, 3: 10}


class Course:
    """One store, opened in one way after another; what was sent, and when it is due."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.fs = MemoryFileSystem()
        self.clock = VirtualClock()
        self.due: dict[bytes, int] = {}
        self.of_levels: set[bytes] = set()

    def make(self, way: Mapping[str, object]) -> EmbeddedBroker:
        return EmbeddedBroker(
            tcp=False,
            topics=["T"],
            fs=self.fs,
            clock=self.clock,
            **way,  # type: ignore[arg-type]
        )

    def open(
        self, before: Mapping[str, object] | None
    ) -> tuple[Mapping[str, object], EmbeddedBroker]:
        """Open it in some way that is not refused; as it was at the latest."""
        ways = self.random.sample(WAYS, len(WAYS))
        for way in ways[:2] if before is not None else ways:
            try:
                return way, self.make(way).start()
            except ConfigError:
                continue
        way = before or ways[0]
        return way, self.make(way).start()

    def act(self, broker: EmbeddedBroker) -> None:
        number = self.random.random()
        body = b"%d" % len(self.due)
        if number < 0.45:
            delay = self.random.choice([1, 3, 5, 20, 200, 3000])
            broker.send("T", body, delay=delay)
            self.due[body] = self.clock.now_ms + delay * 1000
        elif number < 0.6:
            level = self.random.choice([1, 2, 3])
            broker.send("T", body, delay_level=level)
            self.due[body] = self.clock.now_ms + LEVEL_S[level] * 1000
            self.of_levels.add(body)
        elif number < 0.8:
            self.clock.advance(self.random.choice([0.3, 1, 4, 30, 4000]))
        else:
            parts = broker._parts()
            work = parts.timers.begin_flush()
            parts.store.begin_flush().run()
            work.run()

    def check(self, broker: EmbeddedBroker) -> None:
        """A crash repeats what a level delivered since its last save, and nothing else."""
        found: Counter[bytes] = Counter()
        for one in broker.messages.in_topic("T"):
            found[one.body] += 1
            assert one.stored_at.timestamp() * 1000 + 0.5 >= self.due[one.body]
        assert found.keys() == self.due.keys()
        repeated = {body for body, number in found.items() if number > 1}
        assert repeated <= self.of_levels
        assert broker.timers.count() == 0
        assert broker._parts().timers.lost == {}


@pytest.mark.parametrize("seed", range(16))
def test_every_timer_leaves_once_whichever_engine_opens_the_store(seed: int) -> None:
    course = Course(seed)
    way: Mapping[str, object] | None = None
    for _ in range(course.random.randrange(4, 12)):
        way, broker = course.open(way)
        for _ in range(course.random.randrange(6)):
            course.act(broker)
        if course.random.random() < 0.5:
            course.clock.advance(5000)
        if course.random.random() < 0.5:
            broker.crash()
        else:
            broker.close()
    assert way is not None
    with course.make(way) as last:
        course.clock.advance(10_000)
        course.check(last)
