"""Interface of timer engines: what the rest of the broker knows of its timers.

Answers: which calls an engine offers to the node that runs it, to the views and to the handlers,
and what all engines do alike: how timers are counted, listed, taken back and moved. Two engines
fit: `wheel.engine.TimerMessageStore`, the wheel of RocketMQ 5 and the default, and
`slices.engine.SlicedTimerStore`, the log of time slices. Must not know: how either of them works,
slots, slices, files.

Read on: `outcomes.py` for what is answered, `choice.py` for which engine a broker gets.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from embedded_broker.clocks.timeline import Budget, Deadline
from embedded_broker.errors import StoreError
from embedded_broker.store.flush import FlushWork
from embedded_broker.store.message_run import Arrivals
from embedded_broker.timer.admission import Admission
from embedded_broker.timer.change import Changes
from embedded_broker.timer.delivery import RetryWait
from embedded_broker.timer.listing import Pending, Walk, Wanted
from embedded_broker.timer.metrics import Distribution, TimerMetrics
from embedded_broker.timer.outcomes import MoveOutcome, RecallOutcome, TimerRecovery
from embedded_broker.timer.recall import UnsettledMarks
from embedded_broker.timer.stage import EngineState, FlushStage, Stage
from embedded_broker.timer.timer_run import TimerRuns
from embedded_broker.timer.upkeep import Upkeep
from rocketmq_py.clock import Clock
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint

_LOG = get_logger(__name__)


class NeededOffsets(Protocol):
    """Which commit-log offsets waiting timers need; every step is made under the door."""

    def ahead(self) -> Iterator[int]:
        """Give offsets of what is not in memory; may be gone through in turns."""

    def now(self) -> list[int]:
        """Give the other offsets; to be asked last."""


class Listing(Protocol):
    """Lists the timers of an engine."""

    def walk(self, wanted: Wanted) -> Walk:
        """Begin a listing."""

    def find(self, unique_key: str, topic: str | None) -> list[Pending]:
        """Give every waiting timer with this id, oldest first."""


class TimerEngine(ABC):
    """The timers of one broker; a `DeadlineSource`.

    Every call is made under the door, but `load` and `close`.
    """

    admission: Admission
    """The hook that decides about every put."""
    topic: str
    """The topic in which accepted timers lie."""
    runs: TimerRuns | None
    """How to hand over timers that came together; None: each must be put by itself."""
    on_arrival: Callable[[Arrivals], None]
    """Takes note of messages that became visible together."""
    upkeep: Upkeep[EngineState]
    """What is done now and then."""
    needed_offsets: NeededOffsets
    """Which messages of the commit log are still needed."""
    stages: Mapping[str, Stage[EngineState]]
    """The engine's services by name."""

    def __init__(
        self,
        state: EngineState,
        clock: Clock,
        *,
        changes: Changes,
        listing: Listing,
        unsettled: UnsettledMarks,
        flush_stage: FlushStage[EngineState],
    ) -> None:
        self._state = state
        self._clock = clock
        self._changes = changes
        self._listing = listing
        self._unsettled = unsettled
        self._flush_stage = flush_stage
        self.alarm = state.alarm
        self.retry = RetryWait()
        """The wait before what failed is tried again."""
        self.new_budget: Callable[[], Budget] = Budget
        """How long `fire_now` may work at once; a simulation counts turns instead of time."""

    # --- life --------------------------------------------------------------------------------

    @abstractmethod
    def load(self) -> TimerRecovery:
        """Open the files and recover; after `MessageStore.load`, before the first put.

        Raises ConfigError when a setting is not the store's, StoreError when a file cannot be
        used.
        """

    def close(self) -> None:
        """Make everything durable and give the files back; idempotent. The store is still open."""
        try:
            if self._is_open:
                self._stop()
                work = self.begin_flush(clean=True)
                self._state.store.begin_flush().run()
                work.run()
        except BaseException:
            self._state.store.keep_mark()
            raise
        finally:
            self._release_files()

    @abstractmethod
    def abandon(self) -> None:
        """Let go of everything as a killed process would: nothing is written."""

    @abstractmethod
    def begin_flush(self, *, clean: bool = False) -> FlushWork:
        """Capture what to write so that recovery starts from here; under the door.

        Run the result outside of it, after the store's own flush that was begun in the same
        entry: the positions account for messages that must be durable first. `clean` says that
        nothing follows.
        """

    def _prepare_flush(self, *, clean: bool) -> bool:
        """Begin a flush; says whether it may note that the counts are exact."""
        self._flush_stage.begun += 1
        try:
            self._settle_marks()
        except StoreError as error:
            # The marks stay unsettled, so this is no clean stop: the next life counts anew.
            _LOG.warning("recalled timers still count: %s", error)
            return False
        return clean

    @property
    @abstractmethod
    def _is_open(self) -> bool:
        """Whether the engine was loaded and not closed yet."""

    @abstractmethod
    def _stop(self) -> None:
        """Take notice of nothing more; what was noted so far may still be acted upon."""

    @abstractmethod
    def _release_files(self) -> None: ...

    @abstractmethod
    def _load_all(self) -> None:
        """Bring into memory what is being loaded."""

    # --- time --------------------------------------------------------------------------------

    @abstractmethod
    def next_deadline(self) -> Deadline | None:
        """When `fire` has something to do."""

    @abstractmethod
    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:
        """Do everything that is due at `now_ms` until the budget is used up.

        Gives the number of messages delivered.
        """

    # --- counts ------------------------------------------------------------------------------

    def count(self, topic: str | None = None) -> int:
        """How many timers wait, in all or of one topic; recalled ones count no more."""
        metrics = self.metrics
        return metrics.total if topic is None else metrics.count(topic)

    @property
    def metrics(self) -> TimerMetrics:
        """The counts by topic."""
        self._settle_marks()
        return self._state.metrics

    @property
    def lost(self) -> dict[str, int]:
        """How many messages were given up, by reason; empty when all is well."""
        return dict(self._state.lost)

    @property
    def dropped(self) -> int:
        """How many messages were given up in all."""
        return self._state.lost.total()

    def _settle_marks(self) -> None:
        """Take the victims of new marks out of the counts.

        Not while the mark arrives: the index that finds the victims is behind then.
        """
        if self._unsettled:
            self._load_all()
            self._unsettled.settle(self._clock.now_ms)

    # --- changes -----------------------------------------------------------------------------

    def recall(self, uniq_key: str, topic: str | None = None) -> RecallOutcome:
        """Take back every waiting timer with this id; exact, until the release itself.

        Raises StoreError when the disk refuses; the timer then stays.
        """
        self._load_all()
        return self._changes.recall(uniq_key, topic)

    def fire_now(self, uniq_key: str, topic: str | None = None) -> MoveOutcome:
        """Deliver every waiting timer with this id at once.

        It is released with the next step, after what is due already; where nothing may enter, when
        that is over. Raises StoreError when the disk refuses.
        """
        return self.reschedule(uniq_key, self._clock.now_ms, topic)

    def reschedule(self, uniq_key: str, due_ms: int, topic: str | None = None) -> MoveOutcome:
        """Give every waiting timer with this id another time; a past one is now.

        Raises StoreError when the disk refuses; the timer then keeps its time.
        """
        self._load_all()
        outcome = self._changes.move(uniq_key, due_ms, topic)
        now_ms = self._clock.now_ms
        if outcome is MoveOutcome.MOVED and due_ms <= now_ms:
            self.fire(now_ms, horizon_ms=now_ms, budget=self.new_budget())
        return outcome

    # --- looking in --------------------------------------------------------------------------

    def pending(self, wanted: Wanted) -> Walk:
        """Begin to list timers in the order in which they are due; nothing is changed by it."""
        return self._listing.walk(wanted)

    def look_ahead(self) -> Walk:
        """Begin to search for the first timer that will leave; what moves it before is none."""
        return self._listing.walk(Wanted(limit=1))

    def find(self, uniq_key: str, topic: str | None = None) -> list[Pending]:
        """Give every waiting timer with this id, oldest first; through the key index."""
        self._load_all()
        return self._listing.find(uniq_key, topic)

    @abstractmethod
    def distribution(self) -> Distribution:
        """Begin to count timers by how soon they are due."""

    # --- files -------------------------------------------------------------------------------

    @property
    @abstractmethod
    def checkpoint(self) -> TimerCheckpoint | None:
        """What the last flush began to write into timercheck; None for an engine without it."""

    @abstractmethod
    def log_ends(self) -> dict[str, int]:
        """Give the end of every log of the engine, by folder: what lies before does not change."""
