"""`python -m tests.sim.long_life`: a broker lives for 24 days at 200 messages a second.

Answers: whether memory, disk and tables of a broker stay flat when it lives long and old messages
go. The time is the broker's: both of its clocks are virtual, so every look for old files, every
sample of statistics and every sweep of 24 days happens, one after the other. The messages are one
of every ``--scale`` (100), and files are as many times smaller: as many files roll, and as many are
removed, as in 24 real days. What each message may leave behind is measured and told for all 415
million: a block of memory that one message in ten thousand left would show.

A day has plain messages, some with keys, timers up to three days, delay levels and recalls. A group
consumes them all in the end, and each accepted message must come exactly once. ``--keep`` writes
what was seen to `results/long_life.json`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from random import Random
from stat import S_ISREG
from statistics import mean
from tempfile import TemporaryDirectory

from attrs import asdict, define, field, frozen

from embedded_broker import EmbeddedBroker, VirtualClock
from rocketmq_py import MessageQueue, QueueAccess
from rocketmq_py.client.queue_sends import RunOutcome, SendRun
from rocketmq_py.clock import monotonic
from rocketmq_py.protocol.properties import encode_properties

KEPT = Path(__file__).parent / "results" / "long_life.json"
DAY_S = 86_400
TOPIC, GROUP, QUEUES = "Life", "LifeGroup", 4
BODY = b"x" * 120
GUARD_S = 60
RECALLED = 0.1
"""The part of timers that is taken back."""
KEPT_DAYS = 3
DELAY_DAYS = 3
WHEEL = "timerwheel"
"""Left out of the disk: it has 39 MB from its first day on, of which the system counts only the
pages that some timer has touched. With few messages that takes many turns."""
WHEEL_DAYS = 14
SETTLED_DAY = max(KEPT_DAYS + DELAY_DAYS, WHEEL_DAYS) + 2
"""From then on as much comes as goes: old files go, timers leave, and the wheel has turned once, so
that each of its pages has been written."""
REAL_SIZES = {
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 300_000 * 20,
    "mappedFileSizeTimerLog": 100 << 20,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
}
LEAST_SIZES = {
    "mappedFileSizeCommitLog": 64 << 10,
    "mappedFileSizeConsumeQueue": 100 * 20,
    "mappedFileSizeTimerLog": 52 * 200,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 4000,
}


@frozen
class Plan:
    """How long, how much of it, and in which steps the messages of a day come."""

    days: int = 24
    per_second: float = 200
    scale: int = 100
    step_s: int = 600
    seed: int = 0

    @property
    def per_step(self) -> float:
        """Messages of one step; also less than one."""
        return self.per_second / self.scale * self.step_s

    def config(self) -> dict[str, object]:
        """Files as many times smaller as there are fewer messages; nothing is synced in between."""
        sizes = {
            name: max(size // self.scale // 20 * 20, LEAST_SIZES[name])
            for name, size in REAL_SIZES.items()
        }
        seldom = dict.fromkeys(
            ("flushIntervalCommitLog", "timerFlushIntervalMs", "flushDelayOffsetInterval"),
            3_600_000,
        )
        return {**sizes, **seldom, "fileReservedTime": KEPT_DAYS * 24, "recallMessageEnable": True}


@frozen(kw_only=True)
class Sample:
    """What a broker takes at the end of a day."""

    day: int
    blocks: int
    """Blocks of memory that Python has allocated."""
    objects: int
    memory: int
    """Bytes of this process that no file stands behind."""
    disk: int
    files: int
    descriptors: int
    waiting: int


@define
class Account:
    """What became of the messages."""

    accepted: int = 0
    recalled: int = 0
    consumed: int = 0
    rolled: int = 0
    """Commit-log files that were begun."""
    samples: list[Sample] = field(factory=list)

    def growth(self, what: str) -> float:
        """Give by which part something grew between the first and the last settled days."""
        settled: list[int] = [getattr(one, what) for one in self.samples if one.day >= SETTLED_DAY]
        few = max(len(settled) // 4, 1)
        first, last = mean(settled[:few]), mean(settled[-few:])
        return (last - first) / first

    def blocks_per_message(self) -> float:
        """Give how many blocks of memory each message of the settled days left behind."""
        days = len(self.samples) - SETTLED_DAY
        grown = self.growth("blocks") * mean(one.blocks for one in self.samples)
        return grown / (self.accepted * days / len(self.samples))


class Life:
    """One broker, who sends to it, and who consumes."""

    def __init__(self, plan: Plan, broker: EmbeddedBroker, access: QueueAccess) -> None:
        self.plan, self.broker, self.access = plan, broker, access
        self.account = Account()
        self._random = Random(plan.seed)
        self._due = 0.0
        self._queues = [MessageQueue(TOPIC, broker.broker_name, one) for one in range(QUEUES)]
        self._offsets = dict.fromkeys(self._queues, 0)
        self._handles: list[str] = []

    def step(self) -> None:
        """Let the messages of one step come, time pass, and the group consume."""
        self._due += self.plan.per_step
        count, self._due = int(self._due), self._due % 1
        if count:
            self._send([self._properties() for _ in range(count)])
        while self._handles:
            self.access.recall(TOPIC, self._handles.pop()).result(GUARD_S)
            self.account.recalled += 1
        self.pass_time(self.plan.step_s)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, old files go, and the group consume what has come."""
        self.broker.clock.advance(seconds, age=True)
        self._consume()

    def _properties(self) -> str:
        """Give those of one more message."""
        random = self._random
        self.account.accepted += 1
        carried = {"UNIQ_KEY": f"{self.account.accepted:032X}"}
        kind = random.random()
        if kind < 0.15:
            carried["TIMER_DELAY_MS"] = str(random.randint(1000, DELAY_DAYS * DAY_S * 1000))
        elif kind < 0.20:
            carried["DELAY"] = str(random.randint(1, 18))
        elif kind < 0.30:
            carried["KEYS"] = f"order{self.account.accepted}"
        return encode_properties(carried).decode()

    def _send(self, properties: list[str]) -> None:
        """Send messages with these properties, each to a queue, and choose timers to take back."""
        told: SimpleQueue[RunOutcome] = SimpleQueue()
        by_queue: dict[MessageQueue, list[str]] = {}
        for one in properties:
            by_queue.setdefault(self._random.choice(self._queues), []).append(one)
        for queue, some in by_queue.items():
            self.access.send_run(SendRun(queue, [BODY] * len(some), some), told.put)
        for _ in by_queue:
            for outcome in told.get(timeout=GUARD_S):
                handle = outcome.result().recall_handle
                if handle and self._random.random() < RECALLED:
                    self._handles.append(handle)

    def _consume(self) -> None:
        moved: dict[MessageQueue, int] = {}
        for queue, offset in self._offsets.items():
            at = offset
            while (found := self.access.pull(queue, at, group=GROUP).result(GUARD_S)).found:
                at = found.next_offset
            if at != offset:
                moved[queue] = at
                self.account.consumed += at - offset
        self._offsets.update(moved)
        if any(self.access.store_group_offsets(GROUP, moved).values()):
            raise AssertionError("a commit was refused")

    def sample(self, day: int, store: Path) -> Sample:
        """Look at everything that could grow."""
        gc.collect()
        files = [one for path in store.rglob("*") if path.name != WHEEL for one in file_at(path)]
        status = Path("/proc/self/status").read_text(encoding="ascii")
        anonymous = status.partition("RssAnon:")[2].split()[0]
        return Sample(
            day=day,
            blocks=sys.getallocatedblocks(),
            objects=len(gc.get_objects()),
            memory=int(anonymous) * 1024,
            disk=sum(one.st_blocks * 512 for one in files),
            files=len(files),
            descriptors=len(list(Path("/proc/self/fd").iterdir())),
            waiting=self.broker.timers.count(),
        )


def file_at(path: Path) -> list[os.stat_result]:
    """What the file system says of a file; nothing where a running broker has just replaced it."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return []
    return [found] if S_ISREG(found.st_mode) else []


def live(plan: Plan, store: Path, tell: Callable[[Sample], object] = bool) -> Account:
    """Let a broker live as planned; after each day tell what it takes."""
    clock = VirtualClock(datetime(2030, 1, 1, tzinfo=UTC))
    with (
        EmbeddedBroker(
            store=store, clock=clock, session_clock=clock, config=plan.config(), seed=plan.seed
        ) as broker,
        QueueAccess(namesrv_addr=broker.namesrv_addr, mq_client_api_timeout=30_000) as access,
    ):
        broker.topics.create(TOPIC, queues=QUEUES)
        life = Life(plan, broker, access)
        for day in range(1, plan.days + 1):
            for _ in range(DAY_S // plan.step_s):
                life.step()
            life.account.samples.append(life.sample(day, store))
            tell(life.account.samples[-1])
        newest = max(int(one.name) for one in (store / "commitlog").iterdir())
        life.account.rolled = newest // int(str(plan.config()["mappedFileSizeCommitLog"]))
        life.pass_time(DELAY_DAYS * DAY_S + 1)
        if broker.timers.count():
            raise AssertionError(f"{broker.timers.count()} timers are left behind")
        return life.account


def verdict(account: Account, limits: Mapping[str, float] | None = None) -> list[str]:
    """Say what is not flat, and whether each message came once."""
    wrong = [
        f"{what} grew by {account.growth(what):.1%}, more than {most:.0%}"
        for what, most in (LIMITS if limits is None else limits).items()
        if account.growth(what) > most
    ]
    expected = account.accepted - account.recalled
    if account.consumed != expected:
        wrong.append(f"{account.consumed} messages were consumed, {expected} should have been")
    return wrong


LIMITS = {
    "blocks": 0.02,
    "objects": 0.02,
    "memory": 0.05,
    "disk": 0.10,
    "files": 0.10,
    "descriptors": 0.10,
}
"""By which part each may grow between the first and the last settled days."""


def keep(plan: Plan, account: Account) -> None:
    """Write the plan, what grew, and each day to `results/long_life.json`."""
    document = {
        "plan": asdict(plan),
        "messages": {
            "accepted": account.accepted,
            "recalled": account.recalled,
            "consumed": account.consumed,
        },
        "commit_log_files": account.rolled,
        "settled_from_day": SETTLED_DAY,
        "growth": {what: {"seen": account.growth(what), "most": LIMITS[what]} for what in LIMITS},
        "days": [asdict(one) for one in account.samples],
    }
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Let a broker live, and print a line for each day."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.long_life", description=__doc__)
    parser.add_argument("--days", type=int, default=24)
    parser.add_argument("--scale", type=int, default=100, help="one of so many messages")
    parser.add_argument("--step", type=int, default=600, help="seconds between two sends")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help=f"write {KEPT.name}")
    chosen = parser.parse_args(arguments)
    if chosen.days <= SETTLED_DAY:
        parser.error(f"--days {chosen.days}: more than {SETTLED_DAY}, when as much goes as comes")
    plan = Plan(chosen.days, scale=chosen.scale, step_s=chosen.step, seed=chosen.seed)
    started = monotonic()

    def tell(one: Sample) -> None:
        print(
            f"{one.day:5} {one.blocks:10} {one.objects:8} {one.memory / 1e6:10.1f} "
            f"{one.disk / 1e6:8.1f} {one.files:6} {one.descriptors:4} {one.waiting:8} "
            f"{monotonic() - started:8.0f}",
            flush=True,
        )

    print("  day     blocks  objects  memory MB  disk MB  files  fds  waiting  seconds")
    with TemporaryDirectory() as folder:
        account = live(plan, Path(folder) / "store", tell)
    print(
        f"{account.accepted} messages, {account.recalled} recalled, {account.consumed} consumed, "
        f"{account.rolled} commit-log files; {monotonic() - started:.0f} s"
    )
    grown = ", ".join(f"{what} {account.growth(what):+.2%}" for what in LIMITS)
    print(f"growth from day {SETTLED_DAY} on: {grown}")
    print(f"blocks that a message left behind: {account.blocks_per_message():.6f}")
    if chosen.keep:
        keep(plan, account)
    wrong = verdict(account)
    for line in wrong:
        print(f"FAILED: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
