"""The clocks of a broker: wall time, or time that a test moves, and at which time it begins.

Answers: what time is it for the broker, and in which order a jump fires what all its brokers have
due. Must not know: messages, requests; what fires is behind ``timeline.py``. Read on:
``embedded_broker/clocks/driver.py`` for the thread that fires what is due while time flows by
itself, ``embedded_broker/clocks/settle.py`` for when clients count as idle,
``embedded_broker/clocks/jumps.py`` for which time counts as the age of a message.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timedelta
from threading import Lock, get_ident
from typing import NoReturn, Protocol

from embedded_broker.clocks.application import ApplicationFace
from embedded_broker.clocks.clock_run import Advanced, ClockRun, NextDeadline
from embedded_broker.clocks.instants import epoch_ms, instant
from embedded_broker.clocks.jumps import Jumps
from embedded_broker.clocks.settle import Resident, Settled, autojumping, wait_until_settled
from embedded_broker.clocks.timeline import Deadline
from embedded_broker.clocks.waiting import Onlookers, refuse_in_event_loop
from embedded_broker.errors import ClockError
from rocketmq_py.clock import LATEST_MS, Clock, SystemClock, monotonic_ns
from rocketmq_py.errors import ConfigError

NANOS_PER_MS = 1_000_000
MARKS_MAX = 10_000
"""Moves of a clock that are remembered, to tell when messages were born."""
_FOR_THE_BROKER = frozenset(
    {
        "activity",
        "attach",
        "begin_again",
        "begin_run_until",
        "born_ms",
        "check_begin_again",
        "detach",
        "move_in",
        "move_out",
        "onlookers",
        "raise_to",
        "residents",
    }
)


class Track(Protocol):
    """The deadlines of one broker on one clock; ``embedded_broker.clocks.driver.Track`` is one."""

    visible: bool
    """Whether a user can see what fires here: true for timers, false for session work."""

    def peek(self) -> Deadline | None:
        """Return the earliest deadline. Enters the door."""

    def foresee(self) -> Deadline | None:
        """Return the earliest deadline at which a user sees something. Enters the door."""

    def run(self, limit_ms: int, pin: Callable[[int], None], horizon_ms: int) -> int:
        """Fire in due order up to ``limit_ms``, telling ``pin`` each due time first.

        Enters the door for at most its budget. Returns how many were fired.
        """

    def finish(self, now_ms: int, horizon_ms: int, *, age: bool) -> int:
        """End a jump: let every source see the final time, and do the housekeeping once.

        With ``age`` what is too old now is removed afterwards.
        """

    def hand_over(self) -> None:
        """Wait (bounded) until what was delivered has left; outside the door."""

    def wake(self) -> None:
        """Look again: the clock was moved."""


class BrokerClock(ApplicationFace, ABC):
    """``broker.clock``: it can always be read, and moved only if it is a ``VirtualClock``."""

    watchdog = 30.0
    """How many seconds of wall time a wait takes at most when it is given no timeout."""

    def __init__(self) -> None:
        super().__init__()
        self._tracks: list[Track] = []
        self._residents: list[Resident] = []
        self._tracks_lock = Lock()
        self.onlookers = Onlookers()
        """The waits of tests under way: ``autojump`` stops when one is over."""

    def __dir__(self) -> list[str]:
        """Leave out what is only for the broker's inside."""
        return [name for name in super().__dir__() if name not in _FOR_THE_BROKER]

    @property
    @abstractmethod
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""

    @property
    def flows(self) -> bool:
        """Whether time passes by itself at this moment."""
        return True

    @property
    def jumping(self) -> bool:
        """Whether another thread moves the clock now. That thread fires what is due."""
        return False

    def now(self) -> datetime:
        """Give the same instant as an aware UTC datetime."""
        return instant(self.now_ms)

    def advance(
        self,
        amount: float | timedelta | None = None,
        *,
        days: float | None = None,
        hours: float | None = None,
        minutes: float | None = None,
        seconds: float | None = None,
        age: bool = False,
        roll_elision: bool = True,
    ) -> Advanced:
        """Move time forward by ``amount`` (seconds or a timedelta) and the named spans.

        Everything that is due up to the new time fires, in the order of the due times. What is due
        at the same time fires in the order of arrival. The call returns when the answers are handed
        over. Messages do not grow old by it. With ``age=True`` they do: after the releases,
        commit-log files older than ``fileReservedTime`` hours are removed, except the newest file
        and those that pending timers need. Hops of long delays that lie within the jump are not
        written, unless ``roll_elision=False``. Raises ``ClockError`` on a wall clock, for a
        negative amount and without any.
        """
        span = _span("advance", amount, days, hours, minutes, seconds)
        return self._advance(span, age=age, roll_elision=roll_elision)

    def _advance(self, span: timedelta, *, age: bool, roll_elision: bool) -> Advanced:
        del span, age, roll_elision
        self._refuse("advance")

    def jump_to(self, when: datetime, *, age: bool = False, roll_elision: bool = True) -> Advanced:
        """Move time forward to an aware datetime; ``ClockError`` when that is in the past."""
        del when, age, roll_elision
        self._refuse("jump_to")

    def jump_to_ms(self, when_ms: int, *, age: bool = False, roll_elision: bool = True) -> Advanced:
        """Move time forward to an instant in epoch milliseconds."""
        del when_ms, age, roll_elision
        self._refuse("jump_to_ms")

    def set_back(self, milliseconds: int) -> None:
        """Set time back, as on a machine whose clock was corrected; nothing fires."""
        del milliseconds
        self._refuse("set_back")

    def check_begin_again(self) -> None:
        """Raise ``ClockError`` when time cannot begin anew: on a wall clock, or a shared one."""
        self._refuse("begin_again")

    def begin_again(self) -> None:
        """Let it be again the time at which the clock began; nothing fires. For ``reset``."""
        self._refuse("begin_again")

    def next_deadline(self) -> NextDeadline | None:
        """Return the next event that a user can see; None when nothing waits."""
        found = [track.foresee() for track in self._tracks if track.visible]
        first = min((one for one in found if one is not None), default=None)
        return None if first is None else NextDeadline(first.due_ms, first.what)

    def aged_ms(self, since_ms: int) -> int:
        """Return by how many milliseconds something has aged since an instant.

        Time that passed by itself counts, and jumps made with ``age=True``. Other jumps do not.
        """
        return max(0, self.now_ms - since_ms)

    def settle(
        self,
        timeout: float = 5,
        *,
        check: bool = True,
        groups: Iterable[str] | None = None,
    ) -> Settled:
        """Wait until the clients of every broker on this clock are idle, without moving time.

        A client of this process is idle when it has no message in its cache or in a listener, no
        offset to commit and no send in flight. A consumer group over TCP is idle when its pulls
        wait and everything that it was given is committed. For groups whose clients commit rarely,
        name in ``groups`` the other groups, and only those are waited for. Besides, nothing may be
        due and no message unread, and no broker on this clock may be down after a crash. A started
        consumer counts as busy until it has joined every topic that exists, also one that was
        created a moment ago. So does an asyncio consumer while a task that its handlers have
        started has not ended. Other threads and tasks of the application are not known: tell of
        them with ``busy`` and ``idle_when``, for which this waits whatever the ``groups``. After
        ``timeout`` seconds of wall time it raises ``SettleTimeout``, which names group, message and
        client, or who is busy in the application. With ``check=False`` it returns what it found
        instead. ``notes`` of the result tell of subscriptions to topics that do not exist, and of
        members of one group that subscribe to different things.
        """
        return wait_until_settled(
            self.residents, self.activity, timeout_s=timeout, check=check, groups=groups
        )

    def run(
        self,
        amount: float | timedelta | None = None,
        *,
        days: float | None = None,
        hours: float | None = None,
        minutes: float | None = None,
        seconds: float | None = None,
        timeout: float | None = None,
    ) -> Advanced:
        """Move time forward as ``advance`` does, but let the clients react on the way.

        That is: settle, go to the next deadline, settle, and so on. A message that a listener sends
        anew for tomorrow is so delivered on each day of five, and each at its exact time. Nothing
        beyond the new time fires; the last step ends exactly there, with idle clients. A listener
        that gives work to a thread tells of it with ``busy``, else time does not wait for that.
        Tasks that a handler of an asyncio consumer starts are known. All of it takes at most
        ``timeout`` seconds of wall time, the clock's ``watchdog`` if none is given; then
        ``WaitTimeoutError`` tells how far it came. Raises ``ClockError`` on a wall clock.

        >>> from embedded_broker import EmbeddedBroker, VirtualClock
        >>> with EmbeddedBroker(tcp=False, topics=["T"], clock=VirtualClock()) as broker:
        ...     _ = broker.send("T", b"soon", delay=60)
        ...     broker.clock.run(days=5).fired
        1
        """
        run = self._begin_run("run", _span("run", amount, days, hours, minutes, seconds), timeout)
        refuse_in_event_loop("clock.run(...)", "await broker.aio.run(...)")
        run.settle()
        while run.step():
            pass
        return Advanced(fired=run.fired, until=self.now())

    def run_until(
        self,
        condition: Callable[[], object],
        *,
        at_most: float | timedelta | None = None,
        timeout: float | None = None,
    ) -> Advanced:
        """Go forward as ``run`` does until ``condition()`` is true, and stop there.

        The condition is evaluated on the calling thread, first at the present time and then after
        each deadline, when the clients are idle. So it stops at the first time at which the
        condition holds, the same in every run. Raises ``WaitTimeoutError`` when it does not hold
        after ``at_most`` (seconds or a timedelta of the clock's time), or when nothing waits any
        more, or after ``timeout`` seconds of wall time (the clock's ``watchdog`` if none is given).
        ``at_most`` is time of the clock, and time stands at its end then. Raises ``ClockError`` on
        a wall clock.
        """
        run = self.begin_run_until(at_most, timeout)
        refuse_in_event_loop("clock.run_until(...)", "await broker.aio.run_until(...)")
        run.settle()
        while not run.holds(condition):
            if not run.step():
                raise run.failed(condition)
        return Advanced(fired=run.fired, until=self.now())

    def begin_run_until(self, at_most: float | timedelta | None, timeout: float | None) -> ClockRun:
        """Prepare ``run_until``, for its blocking form and that of ``aio``."""
        span = None if at_most is None else _span("run_until", at_most)
        return self._begin_run("run_until", span, timeout)

    def _begin_run(self, call: str, span: timedelta | None, timeout: float | None) -> ClockRun:
        """Prepare a run over ``span``, or one that ends when nothing waits."""
        del span, timeout
        self._refuse(call)

    def autojump(self) -> AbstractContextManager[None]:
        """Within the ``with`` block, move time to the next deadline whenever clients are idle.

        Wait in the body for what you expect, with ``broker.wait_for`` or another wait of the
        broker. Time stops as soon as such a wait is over, and goes on with the next one.
        ``next_deadline`` says where time goes next. The block ends with ``SettleTimeout`` when
        clients stay busy for the clock's ``watchdog`` seconds. ``run_until`` does the same without
        a block.
        Raises ``ClockError`` on a wall clock.
        """
        self._refuse("autojump")

    def born_ms(self, wall_ms: int, stored_ms: int) -> int:
        """Return the time of this clock at which a message was made.

        ``wall_ms`` is the time that its sender wrote, which is wall time for a client.
        """
        del stored_ms
        return wall_ms

    def residents(self) -> Sequence[Resident]:
        """Give the brokers on this clock."""
        return self._residents

    def move_in(self, resident: Resident) -> None:
        """Ask this broker, too, whether its clients are idle."""
        with self._tracks_lock:
            self._residents = [*self._residents, resident]

    def move_out(self, resident: Resident) -> None:
        """Undo ``move_in``."""
        with self._tracks_lock:
            self._residents = [known for known in self._residents if known is not resident]

    def attach(self, track: Track) -> None:
        """Let a broker's deadlines follow this clock."""
        with self._tracks_lock:
            self._tracks = [*self._tracks, track]

    def detach(self, track: Track) -> None:
        """Undo ``attach``."""
        with self._tracks_lock:
            self._tracks = [known for known in self._tracks if known is not track]

    @staticmethod
    def _refuse(call: str) -> NoReturn:
        raise ClockError(
            f"clock.{call}: this broker runs on wall time, which nobody can move; start it as "
            "EmbeddedBroker(clock=VirtualClock()), or VirtualClock(rate=1) for time that also "
            "flows by itself. As a program: `rocketmq-py serve --clock frozen`, or flowing"
        )


class WallClock(BrokerClock):
    """Wall time, from the machine or from another clock. It cannot be moved."""

    def __init__(self, source: Clock | None = None) -> None:
        super().__init__()
        self._source: Clock = source or SystemClock()

    def __repr__(self) -> str:
        return f"WallClock({self._source!r})"

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return self._source.now_ms


class VirtualClock(BrokerClock):
    """Time that a test owns: frozen (``rate=0``) or flowing with wall time (``rate=1``).

    It starts at ``start`` (an aware datetime), or at the present wall time. If no ``start`` was
    given, a broker that opens a store moves the clock forward to the last time that the store
    knows. A wait without a timeout of its own fails after ``watchdog`` seconds of wall time, and
    names the next deadline. Several brokers may share one clock: what is due in any of them fires
    in one common order.

    >>> clock = VirtualClock(start=datetime(2030, 1, 1, tzinfo=UTC))
    >>> clock.advance(1.5).until.isoformat()
    '2030-01-01T00:00:01.500000+00:00'
    """

    def __init__(
        self, start: datetime | None = None, *, rate: int = 0, watchdog: float = 30
    ) -> None:
        super().__init__()
        if rate not in {0, 1}:
            raise ConfigError("rate", rate, "0 (frozen) or 1 (flows with wall time)")
        if not isinstance(watchdog, (int, float)) or not watchdog > 0:
            raise ConfigError("watchdog", watchdog, "more than 0 seconds")
        if start is not None and not isinstance(start, datetime):
            raise ConfigError(
                "start",
                start,
                "an aware datetime, such as datetime(2030, 1, 1, tzinfo=UTC)",
            )
        self.rate = int(rate)
        self.watchdog = float(watchdog)
        self._explicit = start is not None
        self._base_ms = SystemClock().now_ms if start is None else epoch_ms(start)
        if self._base_ms < 0:
            raise ConfigError("start", start, "a time from 1970 on: stored times count from there")
        self._first_ms = self._base_ms
        self._origin_ns = monotonic_ns()
        self._pinned: int | None = None if rate else self._base_ms
        self._jump_lock = Lock()
        self._jumper = 0
        self._marks = [(SystemClock().now_ms, self._base_ms)]
        """What time it was here at which wall time, one mark for each time the clock was moved."""
        self.jumps = Jumps()
        """The jumps that aged nothing. A store saves them together with the time."""

    def __repr__(self) -> str:
        kind = "flowing" if self.rate else "frozen"
        return f"<VirtualClock {kind} at {self.now().isoformat()}>"

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        pinned = self._pinned
        if pinned is not None:
            return pinned
        return self._base_ms + (monotonic_ns() - self._origin_ns) // NANOS_PER_MS

    @property
    def flows(self) -> bool:
        """Whether time passes by itself at this moment."""
        return self._pinned is None

    @property
    def jumping(self) -> bool:
        """Whether a jump is under way; what is due is fired by it."""
        return self._jumper != 0

    def _advance(self, span: timedelta, *, age: bool, roll_elision: bool) -> Advanced:
        # Rounded up as a delay is: advance(d) delivers what was sent with the delay d.
        span_ms = -(-span // timedelta(milliseconds=1))
        with self._jump():
            now_ms = self.now_ms
            if now_ms + span_ms > LATEST_MS:
                raise ClockError(
                    f"clock.advance({span}): that is after the year 9999. At most "
                    f"{(LATEST_MS - now_ms) // 1000} s are left; the amount is in seconds"
                )
            return self._move_to(now_ms + span_ms, elide=roll_elision, age=age)

    def _begin_run(self, call: str, span: timedelta | None, timeout: float | None) -> ClockRun:
        until_ms = None if span is None else self.now_ms - (-span // timedelta(milliseconds=1))
        if until_ms is not None and until_ms > LATEST_MS:
            raise ClockError(f"clock.{call}({span}): that is after the year 9999")
        return ClockRun(self, until_ms, self.watchdog if timeout is None else timeout)

    def jump_to(self, when: datetime, *, age: bool = False, roll_elision: bool = True) -> Advanced:
        """Move time forward to an aware datetime; ``ClockError`` when that is in the past."""
        if not isinstance(when, datetime):
            raise ClockError(
                f"clock.jump_to({when!r}): pass an aware datetime such as datetime(..., "
                "tzinfo=UTC), or epoch milliseconds to jump_to_ms"
            )
        if when.tzinfo is None:
            raise ClockError(
                f"clock.jump_to({when!r}): a datetime without a time zone is no exact time: "
                "pass an aware one such as datetime(..., tzinfo=UTC)"
            )
        # Up to the next millisecond, as a delivery time is: what is due at that instant fires.
        up = -(-(when - instant(0)) // timedelta(milliseconds=1))
        return self.jump_to_ms(up, age=age, roll_elision=roll_elision)

    def jump_to_ms(self, when_ms: int, *, age: bool = False, roll_elision: bool = True) -> Advanced:
        """Move time forward to an instant in epoch milliseconds."""
        when_ms = _whole_ms("jump_to_ms", when_ms)
        if when_ms > LATEST_MS:
            raise ClockError(
                f"clock.jump_to_ms({when_ms}): give milliseconds since 1970-01-01 UTC, at most "
                f"{LATEST_MS} (the year 9999)"
            )
        with self._jump():
            now_ms = self.now_ms
            if when_ms < now_ms:
                raise ClockError(
                    f"clock.jump_to: {_told(when_ms)} is {now_ms - when_ms} ms "
                    f"before the clock's {instant(now_ms).isoformat()}; time never goes back. "
                    "Compute times from broker.clock.now(), or use set_back(ms)"
                )
            return self._move_to(when_ms, elide=roll_elision, age=age)

    def aged_ms(self, since_ms: int) -> int:
        """Return by how many milliseconds something has aged since an instant."""
        now_ms = self.now_ms
        return max(0, now_ms - since_ms - self.jumps.between(since_ms, now_ms))

    def born_ms(self, wall_ms: int, stored_ms: int) -> int:
        """Return the time of this clock at which a message was made; see ``BrokerClock``.

        A sender that did read this clock, or whose time is unknown here, is taken at its word.
        """
        marks = self._marks
        index = bisect_right(marks, wall_ms, key=lambda mark: mark[0]) - 1
        if index < 0 or wall_ms > SystemClock().now_ms:
            return wall_ms
        then_wall_ms, then_ms = marks[index]
        own_ms = then_ms + (wall_ms - then_wall_ms if self.rate else 0)
        if own_ms > stored_ms or own_ms < wall_ms <= stored_ms:
            return wall_ms
        return own_ms

    def autojump(self) -> AbstractContextManager[None]:
        """Let time go from deadline to deadline; see ``BrokerClock.autojump``."""
        return autojumping(
            self.residents, self.activity, self._jump_on, self.watchdog, self.onlookers
        )

    def _jump_on(self) -> bool:
        """Move time to the next event that a user can see; False when there is none."""
        head = self.next_deadline()
        if head is None or head.due_ms <= self.now_ms:
            return False
        with suppress(ClockError):  # the body has moved the clock further meanwhile
            self.jump_to_ms(head.due_ms)
        return True

    def set_back(self, milliseconds: int) -> None:
        """Set time back, as on a machine whose clock was corrected; nothing fires."""
        milliseconds = _whole_ms("set_back", milliseconds)
        if milliseconds < 0:
            raise ClockError(
                f"clock.set_back({milliseconds}): give a positive number of milliseconds"
            )
        with self._jump():
            now_ms = self.now_ms
            if milliseconds > now_ms:
                raise ClockError(
                    f"clock.set_back({milliseconds}): that is before 1970: at most {now_ms} ms are "
                    "possible. Give a span, not a time"
                )
            self._set(now_ms - milliseconds)

    def check_begin_again(self) -> None:
        """Raise ``ClockError`` when another broker lives by this clock, too."""
        others = len(self._residents) - 1
        if others > 0:
            raise ClockError(
                f"reset(clock=True): {others} other brokers live by this clock, and their messages "
                "would be of the future. Give each broker a VirtualClock of its own"
            )

    def begin_again(self) -> None:
        """Let it be again the time at which the clock began; nothing fires."""
        with self._jump():
            self.jumps.clear()
            self._set(self._first_ms)

    def raise_to(self, floor_ms: int) -> None:
        """Move up to a store's last time before anything runs, unless ``start`` was given."""
        if self._explicit:
            return
        with self._jump():
            if self.now_ms < floor_ms:
                self._set(floor_ms)

    @contextmanager
    def _jump(self) -> Iterator[None]:
        """Stop time while a thread moves it. Another thread waits; the same one gets an error."""
        if self._jumper == get_ident():
            raise ClockError(
                "the clock is already being moved by this thread: code that runs during a jump "
                "must not move it"
            )
        with self._jump_lock:
            self._jumper = get_ident()
            self._pinned = self.now_ms
            try:
                yield
            finally:
                if self.rate and self._pinned is not None:
                    self._set(self._pinned)
                self._jumper = 0
        for track in self._tracks:
            track.wake()

    def _move_to(self, target_ms: int, *, elide: bool, age: bool) -> Advanced:
        """Fire everything due up to the target, stepping time to each due. Inside ``_jump``."""
        tracks = self._tracks
        if age:
            self.jumps.clear()
        else:
            # Noted first: what housekeeping finds during the jump must not look old.
            self.jumps.add(self.now_ms, target_ms)
        fired = 0
        while True:
            heads: list[tuple[int, int]] = []
            for index, track in enumerate(tracks):
                head = track.peek()
                if head is not None and head.due_ms <= target_ms:
                    heads.append((head.due_ms, index))
            if not heads:
                break
            heads.sort()
            limit_ms = heads[1][0] if len(heads) > 1 else target_ms
            horizon_ms = target_ms if elide else 0
            fired += tracks[heads[0][1]].run(limit_ms, self._pin, horizon_ms)
        self._pinned = target_ms
        for track in tracks:
            fired += track.finish(target_ms, target_ms, age=age)
        self._set(target_ms)
        for track in tracks:
            track.hand_over()
        return Advanced(fired=fired, until=instant(target_ms))

    def _pin(self, due_ms: int) -> None:
        """Let time be ``due_ms`` while something fires; it never goes back on the way."""
        pinned = self._pinned
        if pinned is None or due_ms > pinned:
            self._pinned = due_ms

    def _set(self, now_ms: int) -> None:
        self._base_ms = now_ms
        self._origin_ns = monotonic_ns()
        self._pinned = None if self.rate else now_ms
        self._marks.append((SystemClock().now_ms, now_ms))
        if len(self._marks) > 2 * MARKS_MAX:
            self._marks = self._marks[-MARKS_MAX:]


def _span(
    call: str,
    amount: float | timedelta | None,
    days: float | None = None,
    hours: float | None = None,
    minutes: float | None = None,
    seconds: float | None = None,
) -> timedelta:
    """Return the sum of the spans; ``ClockError`` for none, a negative one, and what is no span."""
    named = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
    given = {name: value for name, value in named.items() if value is not None}
    if amount is None and not given:
        raise ClockError(
            f"clock.{call}(): say how far time is to go, as in {call}(seconds=10), {call}(days=2) "
            f"or {call}(timedelta(hours=1)). settle() waits for idle clients and moves no time"
        )
    try:
        span = (
            amount
            if isinstance(amount, timedelta)
            else timedelta(seconds=0 if amount is None else amount)
        )
        span += timedelta(**given)
    except (OverflowError, TypeError, ValueError) as error:  # too long, a text, not a number
        told = [] if amount is None else [repr(amount)]
        told += [f"{name}={value!r}" for name, value in given.items()]
        raise ClockError(
            f"clock.{call}({', '.join(told)}): give finite seconds or a timedelta: {error}"
        ) from error
    if span < timedelta(0):
        raise ClockError(
            f"clock.{call}({span.total_seconds()} s): time never goes back here. To test "
            "a corrected machine clock, use set_back(ms)"
        )
    return span


def _whole_ms(call: str, value: object) -> int:
    """Return milliseconds as a whole number; ``ClockError`` for anything that is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise ClockError(f"clock.{call}({value!r}): give a whole number of milliseconds")


def _told(when_ms: int) -> str:
    return instant(when_ms).isoformat() if when_ms >= 0 else f"{when_ms} ms"
