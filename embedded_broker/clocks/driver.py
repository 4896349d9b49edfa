"""Driver thread: fires what is due; one for each broker lock.

Answers: who fires timers and session work while time flows by itself, and in which order the
sources of one broker fire, then and in a jump. Must not know: what fires. Read on:
``embedded_broker/clocks/clock.py`` (jumps), ``embedded_broker/clocks/timeline.py`` (what fires).
"""

from collections.abc import Callable, Sequence
from threading import Event, Thread

from attrs import define, field

from embedded_broker.clocks.clock import BrokerClock
from embedded_broker.clocks.timeline import (
    NEVER_MS,
    UNRANKED,
    Budget,
    Deadline,
    DeadlineSource,
    Foreseeing,
    Ranked,
    Turn,
    step_in_turns,
)
from embedded_broker.door import Door
from embedded_broker.errors import ClockError
from embedded_broker.threads import has_ended
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

LONGEST_SLEEP_S = 30.0
"""A corrected machine clock is noticed after this time at the latest."""
AFTER_A_FAILURE_S = 0.1
LET_OTHERS_IN_S = 0.0002


@define(eq=False)
class Track:
    """Deadline sources of one broker that follow one clock."""

    driver: "ClockDriver"
    clock: BrokerClock
    sources: Sequence[DeadlineSource]
    visible: bool = field(kw_only=True)
    planned_ms: int = field(init=False, default=NEVER_MS)
    """The due time that the driver sleeps for."""

    def earliest(self) -> tuple[Deadline, DeadlineSource] | None:
        """Return the first deadline and its source.

        With the same due time the source whose message came first goes first, or else the one that
        was added first.
        """
        best: Deadline | None = None
        chosen: DeadlineSource | None = None
        for source in self.sources:
            head = source.next_deadline()
            if head is None or (best is not None and head.due_ms > best.due_ms):
                continue
            if (
                best is None
                or chosen is None
                or head.due_ms < best.due_ms
                or _rank(source, head.due_ms) < _rank(chosen, head.due_ms)
            ):
                best, chosen = head, source
        return None if best is None or chosen is None else (best, chosen)

    def fire_until(
        self,
        limit_ms: int,
        budget: Budget,
        *,
        pin: Callable[[int], None] | None = None,
        horizon_ms: int = 0,
    ) -> int:
        """Fire in due order what is due up to ``limit_ms``. Under the door.

        Without ``pin`` time flows and everything due is overdue: a source may fire all that it has
        before the turn of the next source. ``pin`` sets the time to each due time.
        """
        fired = 0
        stuck = 0
        while True:
            first = self.earliest()
            if first is None or first[0].due_ms > limit_ms:
                return fired
            head, source = first
            due_ms = head.due_ms
            others = self._others(source)
            turn = self._turn_in_tie(source, due_ms, others, budget)
            # Until another source has something due; who goes first in a tie is asked then.
            next_ms = min((one.due_ms for one, _ in others), default=NEVER_MS)
            until_ms = now_ms = max(due_ms, min(limit_ms, next_ms - 1))
            if pin is not None:
                pin(due_ms)
                now_ms = max(due_ms, self.clock.now_ms)  # what was held back is overdue
            through = getattr(source, "fire_through", None)
            if pin is None or through is None or turn is not None:
                horizon = max(horizon_ms, now_ms)
                done = source.fire(now_ms, horizon_ms=horizon, budget=turn or budget)
            else:
                until_ms = max(now_ms, until_ms)
                done = through(until_ms, pin=pin, horizon_ms=horizon_ms, budget=budget)
            fired += done
            if budget.exhausted():
                return fired
            after = source.next_deadline()
            ended = done or after is None or after.due_ms > due_ms
            if ended or (turn is not None and turn.exhausted()):
                stuck = 0
            else:
                stuck += 1
            if stuck > len(self.sources):
                raise ClockError(
                    f"{head.what} is due at {due_ms} after it fired: a defect of the broker"
                )

    def peek(self) -> Deadline | None:
        """Return the earliest deadline. Enters the door."""
        with self.driver.door.quiet:
            first = self.earliest()
        return None if first is None else first[0]

    def foresee(self) -> Deadline | None:
        """Return the first deadline at which a user sees something. Enters the door in turns."""
        found: list[Deadline] = []
        for source in self.sources:
            with self.driver.door.quiet:
                head = source.next_deadline()
                ahead = source.look_ahead() if isinstance(source, Foreseeing) and head else None
            if ahead is not None:
                step_in_turns(self.driver.door, ahead)
            if head is not None and ahead is None:
                found.append(head)
            elif head is not None and ahead is not None and ahead.first_due_ms is not None:
                # The head may be later: a hold or a retry keeps back what is due.
                found.append(Deadline(max(head.due_ms, ahead.first_due_ms), "timer"))
        return min(found, default=None)

    def run(self, limit_ms: int, pin: Callable[[int], None], horizon_ms: int) -> int:
        """Fire in due order up to ``limit_ms``, for one budget. Enters the door."""
        with self.driver.door as door:
            fired = self.fire_until(limit_ms, Budget(), pin=pin, horizon_ms=horizon_ms)
        if door.contended:
            self.driver.let_others_in()
        return fired

    def finish(self, now_ms: int, horizon_ms: int, *, age: bool = False) -> int:
        """End a jump: every source sees the final time, then housekeeping runs once.

        With ``age`` what is too old now is removed afterwards.
        """
        fired = 0
        if self.visible:
            with self.driver.door:
                for source in self.sources:
                    fired += source.fire(now_ms, horizon_ms=horizon_ms, budget=Budget())
                for call in self.driver.after_jump:
                    call()
            for remove in self.driver.after_age if age else ():
                remove()
        return fired

    def hand_over(self) -> None:
        """Wait (bounded) until what was delivered has left; outside the door."""
        for wait in self.driver.barriers:
            wait()

    def wake(self) -> None:
        """Look again: the clock was moved."""
        self.driver.wake()

    def _others(self, source: DeadlineSource) -> list[tuple[Deadline, DeadlineSource]]:
        """Return what the other sources have next."""
        heads = [(other.next_deadline(), other) for other in self.sources if other is not source]
        return [(head, other) for head, other in heads if head is not None]

    @staticmethod
    def _turn_in_tie(
        source: DeadlineSource,
        due_ms: int,
        others: list[tuple[Deadline, DeadlineSource]],
        budget: Budget,
    ) -> Turn | None:
        """Let ``source`` fire until another source has what came before; None without a tie."""
        ranks = [_rank(other, due_ms) for head, other in others if head.due_ms == due_ms]
        bound = min((rank for rank in ranks if rank != UNRANKED), default=UNRANKED)
        if bound == UNRANKED or not isinstance(source, Ranked):
            return None
        rank_of = source.head_rank
        if rank_of(due_ms) == UNRANKED:
            return None
        return Turn(budget, lambda: rank_of(due_ms) > bound)


def _rank(source: DeadlineSource, due_ms: int) -> int:
    return source.head_rank(due_ms) if isinstance(source, Ranked) else UNRANKED


class ClockDriver:
    """Sleeps until something is due, then fires it through the door.

    ``after_jump`` is called under the door at the end of every clock jump (housekeeping);
    ``after_age`` outside it, when the jump makes messages older; ``barriers`` outside it, to wait
    until delivered bytes have left.
    """

    def __init__(self, door: Door) -> None:
        self.door = door
        self.tracks: list[Track] = []
        self.after_jump: list[Callable[[], None]] = []
        self.after_age: list[Callable[[], None]] = []
        self.barriers: list[Callable[[], None]] = []
        self._wake = Event()
        self._stopped = Event()
        self._thread: Thread | None = None

    def add(
        self,
        clock: BrokerClock,
        sources: Sequence[DeadlineSource],
        *,
        visible: bool,
    ) -> Track:
        """Fire ``sources`` when ``clock`` says so. Not under the door."""
        track = Track(self, clock, sources, visible=visible)
        self.tracks = [*self.tracks, track]
        if self._thread is not None:
            clock.attach(track)
            self.wake()
        return track

    def remove(self, track: Track) -> None:
        """Fire the sources of a track no longer. Not under the door; idempotent."""
        track.clock.detach(track)
        with self.door:  # whoever fires does so under it, and goes through the list afresh
            self.tracks = [known for known in self.tracks if known is not track]

    def start(self) -> None:
        """Start the thread; jumps of the clocks reach our tracks from now on."""
        for track in self.tracks:
            track.clock.attach(track)
        with self.door:
            self.door.before_release(self._look)
        self._thread = Thread(target=self._run, name="embedded-broker-clock", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop and join the thread; idempotent."""
        self._stopped.set()
        self._wake.set()
        for track in self.tracks:
            track.clock.detach(track)
        thread = self._thread
        if thread is not None:
            with self.door:
                self.door.forget(self._look)
            has_ended(thread)
            self._thread = None

    def wake(self) -> None:
        """Look again soon."""
        self._wake.set()

    def let_others_in(self) -> None:
        """Give threads that wait at the door a moment: the lock itself is not fair."""
        self._stopped.wait(LET_OTHERS_IN_S)

    def _look(self) -> None:
        """Wake the thread when something became due earlier than planned. Under the door."""
        for track in self.tracks:
            clock = track.clock
            if clock.jumping:
                continue  # whoever moves the clock wakes us when done
            # A clock that stands still is moved by somebody, who then asks everybody.
            planned_ms = track.planned_ms if clock.flows else clock.now_ms + 1
            for source in track.sources:
                if source.alarm.at_ms >= planned_ms:
                    continue
                source.alarm.clear()
                head = source.next_deadline()
                if head is not None and head.due_ms < planned_ms:
                    track.planned_ms = planned_ms = head.due_ms
                    self._wake.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            try:
                sleep_s = self._step()
            except Exception:
                logger.exception("a timer failed; going on")
                self._stopped.wait(AFTER_A_FAILURE_S)
                continue
            if sleep_s > 0:
                self._wake.wait(sleep_s)
            elif self.door.contended:
                self.let_others_in()

    def _step(self) -> float:
        """Fire what is due, for one budget; return how long to sleep in seconds."""
        sleep_ms = LONGEST_SLEEP_S * 1000
        with self.door:
            budget = Budget()
            for track in self.tracks:
                clock = track.clock
                track.planned_ms = NEVER_MS
                if clock.jumping:
                    continue  # whoever moves the clock fires, and wakes us when done
                now_ms = clock.now_ms
                track.fire_until(now_ms, budget)
                for source in track.sources:
                    source.alarm.clear()
                first = track.earliest()
                if first is None:
                    continue
                due_ms = first[0].due_ms
                if clock.flows:
                    track.planned_ms = due_ms
                    sleep_ms = min(sleep_ms, due_ms - clock.now_ms)
                elif due_ms <= clock.now_ms:
                    sleep_ms = 0
        return sleep_ms / 1000
