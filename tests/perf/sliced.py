"""What the sliced timer engine costs beside the wheel: memory a timer, microseconds a step.

Every measurement runs in a process of its own. Memory is anonymous memory (RssAnon) on a store in
a directory, where bodies and slices are file pages; microseconds are CPU time of the process.
"""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from embedded_broker.clocks.timeline import Budget
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.directory_fs import DirectoryFileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.slices.engine import SlicedTimerStore
from embedded_broker.timer.wheel.engine import TimerMessageStore
from tests.perf.measure import ENVIRONMENT, ROOT, RUNS, Figure, figure, keep

ENGINES = ("wheel", "sliced")
TIMERS = 200_000
START_MS = 1_700_000_000_000 // 1_800_000 * 1_800_000
BODY = b"x" * 100
DAY_MS = 86_400_000
MONTH = {"timerMaxDelaySec": 3_456_000}

Store = tuple[MessageStore, TimerMessageStore | SlicedTimerStore, "HandClock"]


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms / 1000, UTC)


class Endless(Budget):
    """Never used up."""

    def __init__(self) -> None:
        super().__init__(0)

    def exhausted(self) -> bool:
        return False


def open_store(folder: str, engine: str, clock: HandClock | None = None) -> Store:
    clock = HandClock() if clock is None else clock
    config = BrokerConfig({"timerEngine": engine, **MONTH})
    fs = DirectoryFileSystem(folder)
    store = MessageStore(fs, config, clock, bytes(8))
    store.load()
    timers: TimerMessageStore | SlicedTimerStore
    if engine == "sliced":
        timers = SlicedTimerStore(store, fs, config, clock)
    else:
        timers = TimerMessageStore(store, fs, config, clock)
    timers.load()
    store.hooks.listed.append(timers.admission)
    store.on_arrival.append(timers.on_arrival)
    return store, timers, clock


def anonymous_bytes() -> int:
    gc.collect()
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not say RssAnon")


def put_timers(store: MessageStore, delays: list[int]) -> float:
    """Put one timer for each delay; gives CPU microseconds each."""
    gc.collect()
    gc.freeze()
    begin = time.process_time()
    for number, delay in enumerate(delays):
        properties = {"UNIQ_KEY": f"{number:032X}", "TIMER_DELAY_MS": str(delay)}
        store.put(InnerMessage("T", 0, BODY, properties))
    return (time.process_time() - begin) * 1e6 / len(delays)


def measure(engine: str, span: str) -> dict[str, float]:
    """Fill a store with timers of half an hour or of a month, and let those of the hour leave."""
    chance = random.Random(1)
    most_ms = 1_790_000 if span == "slice" else 30 * DAY_MS
    delays = [chance.randrange(10_000, most_ms) for _ in range(TIMERS)]
    with tempfile.TemporaryDirectory() as folder:
        store, timers, clock = open_store(folder, engine)
        put_timers(store, [10_000] * 2000)
        before = anonymous_bytes()
        put_us = put_timers(store, delays)
        grown = anonymous_bytes() - before
        numbers = {"bytes": grown / TIMERS, "put": put_us}
        if span == "slice":
            clock.now_ms += 1_800_000
            begin = time.process_time()
            while timers.count():
                timers.fire(clock.now_ms, horizon_ms=0, budget=Endless())
            numbers["fire"] = (time.process_time() - begin) * 1e6 / TIMERS
        else:
            timers.close()
            store.close()
            begin = time.process_time()
            store, timers, _ = open_store(folder, engine, clock)
            numbers["open"] = time.process_time() - begin
        timers.abandon()
        store.abandon()
    return numbers


def load_a_slice() -> dict[str, float]:
    """Load one slice of many timers before it begins."""
    with tempfile.TemporaryDirectory() as folder:
        store, timers, clock = open_store(folder, "sliced")
        put_timers(store, [1_800_000 + number % 1_800_000 for number in range(TIMERS)])
        clock.now_ms += 1_745_000
        begin = time.process_time()
        timers.fire(clock.now_ms, horizon_ms=0, budget=Endless())
        load = time.process_time() - begin
        timers.abandon()
        store.abandon()
    return {"load": load * 1e6 / TIMERS}


def fresh(*arguments: str) -> dict[str, float]:
    """Measure in a new process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.perf.sliced", *arguments],
        cwd=ROOT,
        env=ENVIRONMENT,
        check=True,
        capture_output=True,
        text=True,
    )
    numbers: dict[str, float] = json.loads(done.stdout)
    return numbers


def main() -> None:
    figures: list[Figure] = []
    for engine in ENGINES:
        near = [fresh(engine, "slice") for _ in range(RUNS)]
        figures += [
            figure(
                f"{engine}: memory of a timer in the present half hour",
                "bytes",
                [one["bytes"] for one in near],
                at_most=64.0,
            ),
            figure(f"{engine}: put of such a timer", "us", [one["put"] for one in near]),
            figure(f"{engine}: its release", "us", [one["fire"] for one in near]),
        ]
    for engine in ENGINES:
        far = [fresh(engine, "month") for _ in range(RUNS)]
        figures += [
            figure(
                f"{engine}: memory of a timer within 30 days",
                "bytes",
                [one["bytes"] for one in far],
                at_most=64.0,
            ),
            figure(f"{engine}: put of such a timer", "us", [one["put"] for one in far]),
            figure(f"{engine}: opening that store", "s", [one["open"] for one in far]),
        ]
    loaded = [fresh("load")["load"] for _ in range(RUNS)]
    figures.append(figure("sliced: loading a timer of a slice", "us", loaded))
    keep("sliced", figures, timers_per_run=TIMERS, body_bytes=len(BODY))


if __name__ == "__main__":
    given = sys.argv[1:]
    print(json.dumps(load_a_slice() if given == ["load"] else measure(*given)))
