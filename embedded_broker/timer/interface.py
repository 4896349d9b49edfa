"""What the rest of the broker knows of its timers: one engine, whichever it is.

Answers: which calls an engine offers to the node that runs it, to the views and to the handlers,
and the values that these calls give. Two engines fit: `wheel.engine.TimerMessageStore`, the wheel
of RocketMQ 5 and the default, and `slices.engine.SlicedTimerStore`, the log of time slices. Must
not know: how either of them works, slots, slices, files.

Read on: `choice.py` for which of them a broker gets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from typing import Protocol

from attrs import frozen

from embedded_broker.clocks.timeline import Budget, DeadlineSource
from embedded_broker.settings.profiles import Limits
from embedded_broker.store.flush import FlushWork
from embedded_broker.store.inner import PutHook
from embedded_broker.store.run import Arrivals
from embedded_broker.timer.delivery import RetryWait
from embedded_broker.timer.listing import Pending, Walk, Wanted
from embedded_broker.timer.metrics import TimerMetrics
from embedded_broker.timer.run import TimerRuns
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint

__all__ = [
    "AdmissionHook",
    "MoveOutcome",
    "NeededOffsets",
    "RecallOutcome",
    "Snapshot",
    "StageFace",
    "TimerEngine",
    "TimerRecovery",
    "UpkeepFace",
]


class RecallOutcome(Enum):
    """What `broker.timers.recall` did."""

    RECALLED = "recalled"
    ALREADY_DUE = "already due"
    UNKNOWN = "unknown"


class MoveOutcome(Enum):
    """What became of a wish to change the time of a timer."""

    MOVED = "moved"
    ALREADY_DUE = "already due"
    UNKNOWN = "unknown"


@frozen(kw_only=True)
class TimerRecovery:
    """What `TimerEngine.load` found, for a report to the user.

    `records_scanned` of the engine's logs were read again, `truncated_bytes` behind their ends
    given up. `already_released` timers that may still lie there will not be released again.
    `whole_log` says that nothing told where to begin, and everything was read. `skipped` timers
    were too old (`timerSkipOldSlots`).
    """

    records_scanned: int = 0
    truncated_bytes: int = 0
    already_released: int = 0
    whole_log: bool = False
    skipped: int = 0
    queue_offset: int = 0
    read_time_ms: int = 0
    pending: int = 0


class AdmissionHook(PutHook, Protocol):
    """The put hook that sends delayed messages to the engine's topic."""

    honours_timers: bool
    """False for a broker version that does not know timer messages: only levels wait."""

    def set_limits(self, limits: Limits) -> None:
        """Refuse what these limits refuse as well."""
        ...

    def refusal_of(self, delay_ms: int) -> str | None:
        """Say which limit a delay is beyond, with the setting; None if it may be asked for."""
        ...


class StageFace(Protocol):
    """One service of an engine, as it is held and looked at."""

    paused: bool

    @property
    def queue_depth(self) -> int:
        """How many items wait for this service."""
        ...

    @property
    def counters(self) -> dict[str, int]:
        """What this service has done since the store was opened, by name."""
        ...

    def lag_ms(self, now_ms: int) -> int:
        """For how long the oldest of them has been waiting."""
        ...

    def pause(self) -> None:
        """Let this service do nothing until `resume`."""
        ...

    def resume(self) -> None:
        """Let this service work again."""
        ...


class Snapshot(Protocol):
    """A count under way; see `metrics.Distribution`."""

    buckets: dict[int, int]
    """Upper bound in seconds to the number of timers between it and the bound before."""
    done: bool

    def step(self, budget: Budget) -> None:
        """Go on until the budget is used up."""
        ...


class UpkeepFace(Protocol):
    """What an engine does now and then; everything but the work it returns is under the door."""

    def begin_revision(self, wall_ms: int) -> bool:
        """Begin to count anew if the hour has come; then call `go_on` until it says False."""
        ...

    def go_on(self, now_ms: int, budget: Budget) -> bool:
        """Count until the budget is used up; True while there is more to do."""
        ...

    def forget_topics(self, known: Collection[str]) -> None:
        """Forget the counts of topics that are gone; a topic that timers wait for stays."""
        ...

    def begin_cleaning(self) -> Callable[[], None] | None:
        """Let go of files that nothing needs any more; run the result outside the door."""
        ...

    def progress(self, now_ms: int) -> str:
        """Say in one line where each service is."""
        ...


class NeededOffsets(Protocol):
    """Which commit-log offsets waiting timers need; every step is made under the door."""

    def ahead(self) -> Iterator[int]:
        """Give offsets of what is not in memory; may be gone through in turns."""
        ...

    def now(self) -> list[int]:
        """Give the other offsets; to be asked last."""
        ...


class TimerEngine(DeadlineSource, Protocol):
    """The timers of one broker. Every call is made under the door, but `load` and `close`."""

    retry: RetryWait
    """The wait before a failed put is tried again."""

    @property
    def runs(self) -> TimerRuns | None:
        """How to hand over timers that came together; None: each must be put by itself."""
        ...

    # --- life ----------------------------------------------------------------------------

    def load(self) -> TimerRecovery:
        """Open the files and recover; after `MessageStore.load`, before the first put.

        Raises ConfigError when a setting is not the store's, StoreError when a file cannot be
        used.
        """
        ...

    def close(self) -> None:
        """Make everything durable and give the files back; idempotent. The store is still open."""
        ...

    def abandon(self) -> None:
        """Let go of everything as a killed process would: nothing is written."""
        ...

    def begin_flush(self) -> FlushWork:
        """Capture what to write; run the result outside the door, after the store's own flush."""
        ...

    # --- messages ------------------------------------------------------------------------

    @property
    def admission(self) -> AdmissionHook:
        """The hook that decides about every put."""
        ...

    @property
    def topic(self) -> str:
        """The topic in which accepted timers lie."""
        ...

    def on_arrival(self, arrivals: Arrivals) -> None:
        """Take note of messages that became visible together."""
        ...

    def recall(self, uniq_key: str, topic: str | None = None) -> RecallOutcome:
        """Take back every waiting timer with this id; exact, until the release itself.

        Raises StoreError when the disk refuses; the timer then stays.
        """
        ...

    def fire_now(self, uniq_key: str, topic: str | None = None) -> MoveOutcome:
        """Deliver every waiting timer with this id at once."""
        ...

    def reschedule(self, uniq_key: str, due_ms: int, topic: str | None = None) -> MoveOutcome:
        """Give every waiting timer with this id another time, past or ahead."""
        ...

    # --- looking in ----------------------------------------------------------------------

    def pending(self, wanted: Wanted) -> Walk:
        """Begin to list timers in the order in which they are due; nothing is changed by it."""
        ...

    def find(self, uniq_key: str, topic: str | None = None) -> list[Pending]:
        """Give every waiting timer with this id, oldest first; through the key index."""
        ...

    def distribution(self) -> Snapshot:
        """Begin to count timers by how soon they are due."""
        ...

    def count(self, topic: str | None = None) -> int:
        """How many timers wait, in all or of one topic; recalled ones count no more."""
        ...

    @property
    def metrics(self) -> TimerMetrics:
        """The counts by topic."""
        ...

    @property
    def lost(self) -> Mapping[str, int]:
        """How many messages were given up, by reason; empty when all is well."""
        ...

    @property
    def dropped(self) -> int:
        """How many messages were given up in all."""
        ...

    @property
    def checkpoint(self) -> TimerCheckpoint | None:
        """What the last flush began to write into timercheck; None for an engine without it."""
        ...

    def log_ends(self) -> dict[str, int]:
        """Give the end of every log of the engine, by folder: what lies before does not change."""
        ...

    @property
    def needed_offsets(self) -> NeededOffsets:
        """Which messages of the commit log are still needed."""
        ...

    @property
    def upkeep(self) -> UpkeepFace:
        """What is done now and then."""
        ...

    @property
    def stages(self) -> Mapping[str, StageFace]:
        """The engine's services by name."""
        ...
