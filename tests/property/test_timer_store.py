"""What the timer store promises, under random traffic, clocks, recalls and deaths.

Invariants, checked after every step of a run:

* never early: no message is in its topic before its due time;
* exactly once unless recalled: at the end every accepted timer was delivered once, every recalled
  one not at all; a send or recall that died before its answer may have happened or not;
* counts equal truth: by topic, as many timers are counted as were accepted, not yet delivered and
  not recalled;
* nothing is given up: no message is dropped as unreadable or malformed.

A run is one seed: sends of every kind, recalls by id and by handle, clock steps in due order and
jumps without, budgets that end in the middle, a clock set back, flushes, clean stops, crashes, and
kills at a random byte of a random write, also during recovery. The wheel is so small that hops,
wrap-around and slots of one place occur all the time.
"""

from __future__ import annotations

from enum import Enum, auto
from random import Random

import pytest
from attrs import define

from embedded_broker.timer.outcomes import RecallOutcome
from embedded_broker.timer.recall import delete_message
from rocketmq_py.protocol.handles import RecallHandle
from tests.short_form import short_form
from tests.unit.embedded_broker.timer.dying_fs import DyingFileSystem, Killed
from tests.unit.embedded_broker.timer.timer_rig import HOST, START_MS, Rig, Short

TOPICS = ("A", "B", "C")
RUNS = 320
RUNS_PER_TEST = 20


class Fate(Enum):
    WAITS = auto()
    RECALLED = auto()
    PERHAPS_SENT = auto()
    PERHAPS_RECALLED = auto()


@define
class Sent:
    due_ms: int
    topic: str
    fate: Fate = Fate.PERHAPS_SENT


class Run:
    """One store through all its lives, and what should be true of it."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.precision_ms = random.choice((100, 200, 500, 1000))
        slots = random.choice((200, 400))
        self.fs = DyingFileSystem(random)
        release_ms = random.choice((1, 1, self.precision_ms, self.precision_ms // 10))
        self.rig = Rig(
            self.fs,
            slots=slots,
            now_ms=START_MS + random.randrange(5000),
            config={
                "timerPrecisionMs": self.precision_ms,
                "timerReleasePrecisionMs": release_ms,
                "timerRollWindowSlot": random.choice((2, 5, 30, 100)),
                "mappedFileSizeTimerLog": random.choice((256, 1024, 4096)),
                "mappedFileSizeCommitLog": random.choice((8192, 65536)),
            },
        )
        turn_ms = slots * self.precision_ms
        self.longest_ms = turn_ms // 2 if random.random() < 0.5 else turn_ms * 3
        self.sets_back = random.random() < 0.2
        self.latest_ms = self.rig.clock.now_ms
        self.sent: dict[str, Sent] = {}

    # --- steps -------------------------------------------------------------------------------

    def step(self) -> None:
        random = self.random
        if random.random() < 0.25:
            self.fs.die_in(random.randrange(1, 30))
        try:
            self.act()
        except Killed:
            self.fs.live_on()
            self.rig.abandon()
            self.come_back()
        self.fs.live_on()
        self.check_never_early()
        self.check_counts()
        assert self.rig.timers.lost == {}

    def act(self) -> None:
        choice = self.random.random()
        if choice < 0.45:
            self.send()
        elif choice < 0.60:
            if self.sent:
                self.recall(self.random.choice(list(self.sent)))
        elif choice < 0.80:
            self.move_clock()
        elif choice < 0.90:
            self.rig.flush()
        else:
            if choice < 0.95:
                self.rig.crash()
            else:
                self.rig.restart()
            if self.random.random() < 0.5:
                self.rig.clock.now_ms += self.random.randrange(self.longest_ms)

    def come_back(self) -> None:
        """Open again, sometimes dying once more on the way."""
        while self.random.random() < 0.2:
            self.fs.die_in(self.random.randrange(1, 60))
            try:
                self.rig.open()
                self.rig.fire()
            except Killed:
                self.fs.live_on()
                self.rig.abandon()
            else:
                return
        self.fs.live_on()
        self.rig.open()

    def send(self) -> None:
        random, unit = self.random, self.precision_ms
        delay_ms = random.choice(
            (
                random.randrange(1, 3 * unit),
                random.randrange(1, 20 * unit),
                random.randrange(1, self.longest_ms),
                random.randrange(1, 10) * unit,
            )
        )
        due_ms = self.rig.clock.now_ms + delay_ms
        asked = {"TIMER_DELAY_MS": str(delay_ms)}
        if random.random() < 0.5:
            asked = {"TIMER_DELIVER_MS": str(due_ms)}
        topic = random.choice(TOPICS)
        one = self.sent[f"K{self.rig.serial + 1}"] = Sent(due_ms, topic)
        assert self.rig.send(asked, topic=topic).ok
        one.fate = Fate.WAITS

    def recall(self, key: str) -> None:
        one = self.sent[key]
        before = one.fate
        delivered = key in self.delivered(one.topic)
        if self.random.random() < 0.5:
            if before is Fate.WAITS:
                one.fate = Fate.PERHAPS_RECALLED
            outcome = self.rig.timers.recall(key, self.random.choice((None, one.topic)))
            one.fate = Fate.RECALLED if outcome is RecallOutcome.RECALLED else before
            assert outcome is not RecallOutcome.RECALLED or before is not Fate.RECALLED
            if before is Fate.WAITS:
                expected = RecallOutcome.ALREADY_DUE if delivered else RecallOutcome.RECALLED
                assert outcome is expected
            return
        in_slot_ms = (one.due_ms - 1) // self.precision_ms * self.precision_ms + 1
        if in_slot_ms <= self.rig.clock.now_ms or before is Fate.RECALLED or delivered:
            return
        if before is Fate.WAITS:
            one.fate = Fate.PERHAPS_RECALLED
        handle = RecallHandle(one.topic, "broker-a", in_slot_ms, key)
        now_ms = self.rig.clock.now_ms
        message = delete_message(handle, producer_group="g", now_ms=now_ms, born_host=HOST)
        assert self.rig.store.put(message).ok
        if before is not Fate.PERHAPS_SENT:
            one.fate = Fate.RECALLED

    def move_clock(self) -> None:
        random, rig, unit = self.random, self.rig, self.precision_ms
        by_ms = random.choice(
            (
                random.randrange(unit // 2),
                random.randrange(5 * unit),
                random.randrange(30 * unit),
                random.randrange(self.longest_ms),
            )
        )
        how = random.random()
        if how < 0.7:
            rig.advance(by_ms, elide=how < 0.3)
        elif how < 0.85:
            rig.jump(by_ms)
        else:
            rig.clock.now_ms += by_ms
            for _ in range(random.randrange(4)):
                horizon_ms = rig.clock.now_ms + random.choice((0, 0, 10 * unit))
                rig.fire(budget=Short(random.randrange(1, 6)), horizon_ms=horizon_ms)
        if self.sets_back and random.random() < 0.3:
            rig.clock.now_ms -= random.randrange(20 * unit)
        self.latest_ms = max(self.latest_ms, rig.clock.now_ms)

    def finish(self) -> None:
        """Let all time pass that any timer could need."""
        last_ms = max([one.due_ms for one in self.sent.values()], default=0)
        end_ms = max(self.latest_ms, self.rig.clock.now_ms, last_ms) + 2 * self.precision_ms
        left_ms = end_ms - self.rig.clock.now_ms
        if self.random.random() < 0.5:
            self.rig.advance(left_ms, elide=self.random.random() < 0.5)
        else:
            self.rig.jump(left_ms)
        self.rig.advance(5 * self.precision_ms)

    # --- invariants --------------------------------------------------------------------------

    def delivered(self, topic: str) -> list[str]:
        return [one.properties["UNIQ_KEY"] for one in self.rig.messages(topic)]

    def check_never_early(self) -> None:
        for topic in TOPICS:
            for one in self.rig.messages(topic):
                assert one.stored_at_ms >= self.sent[one.properties["UNIQ_KEY"]].due_ms

    def check_counts(self) -> None:
        fates = {one.fate for one in self.sent.values()}
        if not fates <= {Fate.WAITS, Fate.RECALLED}:
            return
        for topic in TOPICS:
            gone = set(self.delivered(topic))
            waiting = [
                key
                for key, one in self.sent.items()
                if one.topic == topic and one.fate is Fate.WAITS and key not in gone
            ]
            assert self.rig.timers.count(topic) == len(waiting)

    def check_exactly_once(self) -> None:
        for topic in TOPICS:
            delivered = self.delivered(topic)
            for key, one in self.sent.items():
                if one.topic != topic:
                    continue
                times = delivered.count(key)
                if one.fate is Fate.WAITS:
                    assert (key, times) == (key, 1)
                elif one.fate is Fate.RECALLED:
                    assert (key, times) == (key, 0)
                else:
                    assert times <= 1
        assert self.rig.timers.count() == 0
        assert self.rig.timers.lost == {}


@pytest.mark.parametrize(
    "first", short_form(range(0, RUNS, RUNS_PER_TEST), lambda first: first < RUNS // 2)
)
def test_every_timer_is_delivered_exactly_once_and_never_early(first: int) -> None:
    for seed in range(first, first + RUNS_PER_TEST):
        run = Run(seed)
        try:
            for _ in range(run.random.choice((30, 80))):
                run.step()
            run.finish()
            run.check_never_early()
            run.check_exactly_once()
        except BaseException as error:
            error.add_note(f"seed {seed}: to repeat, call Run({seed})")
            raise
        run.rig.close()
