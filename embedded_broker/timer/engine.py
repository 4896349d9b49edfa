"""What every engine does alike: how its timers are counted, listed, taken back and flushed.

Answers: what becomes of a wish from outside before an engine does its own part. Must not know:
where an engine keeps what waits, and when that leaves.

Read on: `interface.py` for all that an engine offers, `wheel/engine.py` and `slices/engine.py`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from embedded_broker.clocks.timeline import Budget
from embedded_broker.errors import StoreError
from embedded_broker.store.flush import FlushWork
from embedded_broker.store.message_store import MessageStore
from embedded_broker.timer.change import Changes
from embedded_broker.timer.delivery import RetryWait
from embedded_broker.timer.interface import MoveOutcome, RecallOutcome
from embedded_broker.timer.listing import Pending, Walk, Wanted
from embedded_broker.timer.metrics import TimerMetrics
from embedded_broker.timer.recall import UnsettledMarks
from embedded_broker.timer.stage import FlushStage
from rocketmq_py.clock import Clock

__all__ = ["Engine", "EngineState", "Listing"]

_LOG = logging.getLogger(__name__)


class EngineState(Protocol):
    """What the parts of an engine share, as far as all engines have it."""

    store: MessageStore
    metrics: TimerMetrics
    lost: Counter[str]


class Listing(Protocol):
    """Lists the timers of an engine."""

    def walk(self, wanted: Wanted) -> Walk:
        """Begin a listing."""
        ...

    def find(self, unique_key: str, topic: str | None) -> list[Pending]:
        """Give every waiting timer with this id, oldest first."""
        ...


State = TypeVar("State", bound=EngineState)
Work = TypeVar("Work", bound=FlushWork)


class Engine(ABC, Generic[State, Work]):
    """The timers of one broker, as far as all engines are alike; see `interface.TimerEngine`."""

    def __init__(
        self,
        state: State,
        clock: Clock,
        *,
        changes: Changes,
        listing: Listing,
        unsettled: UnsettledMarks,
        flush_stage: FlushStage[State],
    ) -> None:
        self._state = state
        self._clock = clock
        self._changes = changes
        self._listing = listing
        self._unsettled = unsettled
        self._flush_stage = flush_stage
        self.retry = RetryWait()
        """The wait before what failed is tried again."""
        self.new_budget: Callable[[], Budget] = Budget
        """How long `fire_now` may work at once; a simulation counts turns instead of time."""

    # --- what each does in its own way ---------------------------------------------------------

    @abstractmethod
    def fire(self, now_ms: int, *, horizon_ms: int, budget: Budget) -> int:
        """Do everything that is due at `now_ms` until the budget is used up.

        Gives the number of messages delivered.
        """

    @property
    @abstractmethod
    def _is_open(self) -> bool:
        """Whether the engine was loaded and not closed yet."""

    @abstractmethod
    def _stop(self) -> None:
        """Take no more notice of anything; what is due and noted so far may be noted durably."""

    @abstractmethod
    def _release_files(self) -> None: ...

    @abstractmethod
    def _load_all(self) -> None:
        """Bring into memory what is being loaded."""

    @abstractmethod
    def _capture(self, *, clean: bool) -> Work:
        """Capture what to write, the counts being as they should."""

    # --- life --------------------------------------------------------------------------------

    def close(self) -> None:
        """Make everything durable and give the files back; idempotent. The store is still open."""
        if not self._is_open:
            return
        try:
            self._stop()
            work = self.begin_flush(clean=True)
            self._state.store.begin_flush().run()
            work.run()
        finally:
            self._release_files()

    def begin_flush(self, *, clean: bool = False) -> Work:
        """Capture what to write so that recovery starts from here; under the door.

        Run the result outside of it, after the store's own flush that was begun in the same
        entry: the positions account for messages that must be durable first.
        """
        try:
            self._settle_marks()
        except StoreError as error:
            # The marks stay unsettled, so this is no clean stop: the next life counts anew.
            _LOG.warning("recalled timers still count: %s", error)
            clean = False
        self._flush_stage.begun += 1
        return self._capture(clean=clean)

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
