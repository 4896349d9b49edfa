"""A message store with its timers on a clock that a test moves; no broker, no threads.

For tests of `embedded_broker.timer` only. The wheel is small, so that hops and wrap-around happen
within minutes of clock time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any, NamedTuple

from embedded_broker.clocks.timeline import Budget
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.store.fs import FileSystem
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.message_store import MessageStore
from embedded_broker.store.put_values import InnerMessage, PutRefusal, PutResult, PutStatus
from embedded_broker.timer.levels.service import ScheduleMessageService
from embedded_broker.timer.listing import BEFORE_ALL, Pending, Wanted
from embedded_broker.timer.outcomes import TimerRecovery
from embedded_broker.timer.wheel.engine import TimerMessageStore
from rocketmq_py.protocol.message_codec import MessageRecord

START_MS = 1_700_000_000_000
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


class MovedClock:
    """Stands still until a test moves it."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms / 1000, UTC)


class Endless(Budget):
    """Never used up, and reads no clock."""

    def __init__(self) -> None:
        super().__init__(0)

    def exhausted(self) -> bool:
        return False


class Short(Budget):
    """Used up every `turns` questions."""

    def __init__(self, turns: int) -> None:
        super().__init__(0)
        self.left = turns

    def exhausted(self) -> bool:
        self.left -= 1
        return self.left <= 0


class FailingPuts:
    """A put hook that refuses messages of one topic as often as it is told."""

    name = "failing"

    def __init__(self, status: PutStatus, times: int, topic: str = "T") -> None:
        self.status = status
        self.left = times
        self.topic = topic
        self.attempts = 0

    def before_put(self, msg: InnerMessage, now_ms: int) -> PutResult | PutRefusal | None:
        if msg.topic != self.topic:
            return None
        self.attempts += 1
        if self.left == 0:
            return None
        self.left -= 1
        return PutRefusal(self.status)


class Delivered(NamedTuple):
    """A message as it lies in its topic."""

    queue_id: int
    stored_at_ms: int
    record: MessageRecord

    @property
    def body(self) -> bytes:
        return self.record.body

    @property
    def properties(self) -> dict[str, str]:
        return self.record.properties


class Rig:
    """One life after the other of a store on `fs`; `crash` and `reopen` begin the next one."""

    def __init__(
        self,
        fs: FileSystem | None = None,
        *,
        now_ms: int = START_MS,
        slots: int = 400,
        defaults: str = "embedded",
        config: Mapping[str, object] | None = None,
    ) -> None:
        self.fs: FileSystem = MemoryFileSystem() if fs is None else fs
        self.clock = MovedClock(now_ms)
        self.slots = slots
        self.settings = {
            "mappedFileSizeCommitLog": 1 << 20,
            "mappedFileSizeConsumeQueue": 6000,
            "mappedFileSizeTimerLog": 1024,
            "maxHashSlotNum": 100,
            "maxIndexNum": 2000,
            **(config or {}),
        }
        self.defaults = defaults
        self.serial = 0
        self.open()

    def open(self) -> TimerRecovery:
        self.config = BrokerConfig(self.settings, defaults=self.defaults)
        self.store = MessageStore(self.fs, self.config, self.clock, HOST)
        self.timers = TimerMessageStore(
            self.store, self.fs, self.config, self.clock, slots=self.slots, random=Random(7)
        )
        self.levels = ScheduleMessageService(self.store, self.fs, self.config, self.clock)
        self.store.load()
        self.recovery = self.timers.load()
        self.levels.load()
        self.store.hooks.listed.append(self.timers.admission)
        self.store.on_arrival.append(self.timers.on_arrival)
        return self.recovery

    # --- life --------------------------------------------------------------------------------

    def flush(self) -> None:
        timer_work = self.timers.begin_flush()
        level_work = self.levels.begin_flush()
        self.store.begin_flush().run()
        timer_work.run()
        level_work.run()

    def close(self) -> None:
        self.timers.close()
        self.levels.close()
        self.store.close()

    def abandon(self) -> None:
        """Die without a word."""
        self.timers.abandon()
        self.store.abandon()

    def restart(self) -> TimerRecovery:
        """Stop cleanly and open again."""
        self.close()
        return self.open()

    def crash(self) -> TimerRecovery:
        """Die and open again what was written."""
        self.abandon()
        return self.open()

    # --- messages ----------------------------------------------------------------------------

    def send(
        self, properties: Mapping[str, str] | None = None, *, topic: str = "T", queue_id: int = 0
    ) -> PutResult:
        """Put a message whose body and id are its serial number."""
        self.serial += 1
        return self.store.put(
            InnerMessage(
                topic,
                queue_id,
                b"%d" % self.serial,
                {"UNIQ_KEY": f"K{self.serial}", **(properties or {})},
                born_timestamp=self.clock.now_ms - 5,
                born_host=HOST,
            )
        )

    def timer(self, delay_ms: int, *, topic: str = "T", queue_id: int = 0) -> str:
        """Send a timer that must be accepted; gives its id."""
        result = self.send({"TIMER_DELAY_MS": str(delay_ms)}, topic=topic, queue_id=queue_id)
        assert result.ok, result
        return f"K{self.serial}"

    def messages(self, topic: str = "T") -> list[Delivered]:
        """Everything in a topic, in the order in which it was stored."""
        found = []
        for (name, queue_id), queue in self.store.queues.items():
            if name == topic:
                for _, (offset, _, _) in queue.iterate(0):
                    record = self.store.record(offset)
                    assert record is not None
                    found.append(Delivered(queue_id, record.store_timestamp, record))
        return sorted(found, key=lambda one: one.record.commit_log_offset)

    def bodies(self, topic: str = "T") -> list[bytes]:
        return [one.body for one in self.messages(topic)]

    def listed(self, *, limit: int = 100, turns: int = 3, **wanted: Any) -> list[Pending]:
        """Everything that waits in the engine, page by page, in very short turns."""
        found: list[Pending] = []
        while True:
            after = found[-1].place if found else BEFORE_ALL
            walk = self.timers.pending(Wanted(limit=limit, after=after, **wanted))
            while not walk.done:
                walk.step(Short(turns))
            found += walk.found
            if len(walk.found) < limit:
                return found

    # --- time --------------------------------------------------------------------------------

    def fire(self, *, horizon_ms: int = 0, budget: Budget | None = None) -> int:
        now_ms = self.clock.now_ms
        reach_ms = max(now_ms, horizon_ms)
        allowed = Endless() if budget is None else budget
        fired = self.timers.fire(now_ms, horizon_ms=reach_ms, budget=allowed)
        return fired + self.levels.fire(now_ms, horizon_ms=reach_ms, budget=allowed)

    def jump(self, milliseconds: int) -> int:
        """Move the clock at once and then fire: as after a suspended machine wakes up."""
        self.clock.now_ms += milliseconds
        return self.fire()

    def advance(self, milliseconds: int, *, elide: bool = False) -> int:
        """Fire everything in due order up to the new time, as `VirtualClock.advance`."""
        target_ms = self.clock.now_ms + milliseconds
        fired = 0
        for _ in range(1_000_000):
            due = [
                deadline.due_ms
                for source in (self.timers, self.levels)
                if (deadline := source.next_deadline()) is not None
            ]
            if not due or min(due) > target_ms:
                break
            self.clock.now_ms = max(self.clock.now_ms, min(due))
            fired += self.fire(horizon_ms=target_ms if elide else 0)
        else:
            raise AssertionError("a deadline does not move on")
        self.clock.now_ms = target_ms
        return fired + self.fire(horizon_ms=target_ms if elide else 0)
