"""One life of a broker on a simulated disk, from opening the store to its death; no threads.

Answers: how the parts of a broker are put together when one thread drives everything: requests come
as frames, time and syncs when the simulation says so. Same parts and same order as
`embedded_broker/lifecycle/node.py`, without sockets, flusher and the thread of the clock driver:
the work of threads is done here in small steps that others come between. Must not know: what is
expected.

Read on: `peer.py` for who sends the frames, `story.py` for who decides what happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from typing import cast

from attrs import evolve

from embedded_broker.clocks.clock import BrokerClock
from embedded_broker.clocks.driver import ClockDriver, Track
from embedded_broker.clocks.timeline import Budget
from embedded_broker.door import Door
from embedded_broker.errors import StoreError
from embedded_broker.lifecycle import assembly
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.journal import Journal
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import find_profile
from embedded_broker.store.flush import FlushWork, StoreFlush
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.delay_offsets import DelayOffsetFile
from embedded_broker.timer.levels.service import ScheduleMessageService
from embedded_broker.timer.slices.engine import SlicedTimerStore
from embedded_broker.timer.wheel.engine import TimerMessageStore

HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
BROKER_NAME = "broker-sim"
_MOST_ENTRIES = 100_000


class HandClock:
    """Stands still until the simulation moves it."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms / 1000, UTC)


class Turns(Budget):
    """Used up after so many questions, never by time; 0 is never."""

    def __init__(self, turns: int) -> None:
        super().__init__(0)
        self._left = turns or -1

    def exhausted(self) -> bool:
        if self._left > 0:
            self._left -= 1
        return not self._left


class OrderedStore(MessageStore):
    """Syncs its queues in one order: the real one's depends on addresses, and so would a seed."""

    def begin_flush(self) -> StoreFlush:
        work = super().begin_flush()
        plans = sorted(work.queue_plans, key=lambda plan: plan.queue.directory)
        return evolve(work, queue_plans=plans)


class Life:
    """A broker that runs until it is closed or abandoned.

    Opening may raise `SimulatedCrash`, as everything that writes may.
    """

    def __init__(
        self,
        disk: MemoryFileSystem,
        settings: Mapping[str, object],
        *,
        slots: int,
        clock: HandClock,
        session_clock: HandClock,
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.session_clock = session_clock
        config = BrokerConfig(settings)
        self.store = OrderedStore(disk, config, clock, HOST)
        skip = config.text("damagedRecords") == "skip"
        self.file = file = DelayOffsetFile(disk, skip_damage=skip)
        self.levels = ScheduleMessageService(self.store, disk, config, clock, file=file)
        self.recovery = self.store.load()
        self.timers: TimerMessageStore | SlicedTimerStore
        if config.text("timerEngine") == "sliced":
            self.timers = SlicedTimerStore(
                self.store, disk, config, clock, random=Random(7), file=file
            )
        else:
            self.timers = TimerMessageStore(
                self.store, disk, config, clock, slots=slots, random=Random(7)
            )
        self.timer_recovery = self.timers.load()
        self.levels.load()
        self.parts = parts = BrokerParts(
            door=Door(),
            clock=clock,
            session_clock=session_clock,
            config=config,
            profile=find_profile("rocketmq-5.x"),
            store=self.store,
            timers=self.timers,
            levels=self.levels,
            journal=Journal(),
            random=Random(7),
            cluster_name="cluster-sim",
            broker_name=BROKER_NAME,
            address="127.0.0.1:10911",
        )
        parts.queues_of = lambda _topic: None  # no name server knows any
        # The driver's thread is never started: the simulation fires.
        self.track = Track(
            ClockDriver(parts.door),
            cast("BrokerClock", clock),
            parts.sources,
            visible=True,
        )
        self.flush_wanted = False
        self._steps: list[FlushWork] = []
        parts.durability.request_flush = self._want_flush
        self.timers.retry.session_timer = parts.session.after
        self.timers.new_budget = lambda: Turns(5)
        self.levels.session_timer = parts.session.after
        with parts.door:
            self.store.hooks.listed.append(self.timers.admission)
            self.store.on_arrival.append(self.timers.on_arrival)
            assembly.install(parts)

    def close(self) -> None:
        """Stop cleanly."""
        while self._steps:
            self.step_flush()
        with self.parts.door:
            self.parts.save_all()
        self.levels.close()
        self.timers.close()
        self.store.close()

    # --- what threads do in a real broker ------------------------------------------------------

    def _want_flush(self) -> None:
        self.flush_wanted = True

    def is_flushing(self) -> bool:
        """Whether a flush was begun and has steps left."""
        return bool(self._steps)

    def begin_flush(self, *, timers: bool, levels: bool) -> None:
        """Capture what to sync, timers first, as `BrokerNode._begin_flush`."""
        self.flush_wanted = False
        with self.parts.door:
            steps: list[FlushWork] = []
            if timers:
                steps.append(self.timers.begin_flush())
            if levels:
                steps.append(self.levels.begin_flush())
            self._steps = [self.store.begin_flush(), *steps]

    def step_flush(self) -> bool:
        """Run the next step, outside the door, as `Flusher.cycle`; False if the disk refused."""
        try:
            self._steps.pop(0).run()
        except StoreError:
            for never_run in self._steps:
                never_run.failed()
            self._steps.clear()
            return False
        if not self._steps:
            with self.parts.door:
                self.parts.durability.synced()
        return True

    def pass_session_time(self, milliseconds: int) -> None:
        """Let waits end and files of tables be saved."""
        self.session_clock.now_ms += milliseconds
        now_ms = self.session_clock.now_ms
        with self.parts.door:
            self.parts.session.fire(now_ms, horizon_ms=now_ms, budget=Turns(0))

    # --- time ----------------------------------------------------------------------------------

    def advance(self, target_ms: int, turns: int, *, elide: bool) -> int:
        """Fire in due order up to the new time, as `VirtualClock.advance`; gives the number.

        `turns` is what each entry of the door may ask of its budget; 0: no end.
        """
        clock = self.clock
        horizon_ms = target_ms if elide else 0
        fired = 0
        for _ in range(_MOST_ENTRIES):
            if not self._is_due(target_ms):
                break
            with self.parts.door:
                fired += self.track.fire_until(
                    target_ms, Turns(turns), pin=self._pin, horizon_ms=horizon_ms
                )
        else:
            raise AssertionError("a deadline does not move on")
        clock.now_ms = max(clock.now_ms, target_ms)
        with self.parts.door:
            for source in self.parts.sources:
                fired += source.fire(clock.now_ms, horizon_ms=clock.now_ms, budget=Turns(0))
        return fired

    def fire(self, turns: int, *, entries: int = _MOST_ENTRIES) -> int:
        """Fire what is due now, as the clock driver does when time flows; gives the number."""
        fired = 0
        for _ in range(entries):
            if not self._is_due(self.clock.now_ms):
                return fired
            with self.parts.door:
                fired += self.track.fire_until(self.clock.now_ms, Turns(turns))
        if entries == _MOST_ENTRIES:
            raise AssertionError("a deadline does not move on")
        return fired

    def _is_due(self, limit_ms: int) -> bool:
        first = self.track.earliest()
        return first is not None and first[0].due_ms <= limit_ms

    def _pin(self, due_ms: int) -> None:
        self.clock.now_ms = max(self.clock.now_ms, due_ms)
